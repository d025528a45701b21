"""The entry of `dravirt`: it finds the command and turns errors into exit codes.

A command's module is imported when it is chosen, so that `dravirt sidecar` loads nothing but the sidecar.

Exit codes: 0 done, 1 the object is refused or a check failed, 2 wrong usage, 3 something failed that a retry may mend.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dra.errors import DravirtError, Failed
from dra.version import __version__

REFUSED, WRONG_USAGE, FAILED = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Command:
    """A command: the module that has `add_arguments(parser)` and `run(args) -> int`, and one line about it."""

    module: str
    summary: str
    extra: str
    """The optional dependencies that it needs, "" for none."""


COMMANDS: Mapping[str, Command] = {
    "simulate": Command("cli.simulate", "take a case the whole way, with the real servers on loopback", "cli"),
    "render": Command("cli.render", "show what the webhooks make of a VM, a VMI or a pod", "cli"),
    "resolve": Command("cli.resolve", "show the devices that a sidecar would find on a node", ""),
    "hook": Command("cli.hook", "edit a libvirt domain as the sidecar does", ""),
    "doctor": Command("cli.doctor.command", "say what keeps VMs from their devices, and what mends it", "webhook"),
    "certs": Command("cli.certs", "look at the webhook's certificates, and rotate them", "webhook"),
    "webhook": Command("cli.webhook", "serve the admission webhooks", "webhook"),
    "sidecar": Command("hooksidecar.main", "serve as the hook sidecar of one virt-launcher pod", ""),
}


def main(argv: Sequence[str]) -> int:
    """Run the command that `argv` names and return its exit code."""
    if not argv:
        _parser().print_help(sys.stderr)
        return WRONG_USAGE
    args = _parser().parse_args(argv)
    command = COMMANDS[args.command]
    try:
        module = importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        if not command.extra:
            raise
        remedy = f"pip install 'dravirt[{command.extra}]'"
        print(f"dravirt {args.command}: {error.name} is not installed: {remedy}", file=sys.stderr)
        return FAILED
    parser = argparse.ArgumentParser(
        prog=f"dravirt {args.command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    try:
        code: int = module.run(parser.parse_args(args.arguments))
    except DravirtError as error:
        print(f"dravirt {args.command}: {error.message} (reason: {error.reason})", file=sys.stderr)
        return FAILED if isinstance(error, Failed) else REFUSED
    return code


def run() -> None:
    """Run the command of this process, quietly where the reader of its output has gone."""
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="dravirt",
        description="GPUs and vGPUs of Kubernetes Dynamic Resource Allocation in KubeVirt virtual machines.",
        epilog=f"commands:\n{lines}\n\n`dravirt COMMAND --help` teaches each of them by example.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dravirt {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    return parser
