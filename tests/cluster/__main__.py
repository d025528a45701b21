"""Run a cluster, for tests or for a person.

examples:
  python -m cluster build                      build every program and image into the cache
  python -m cluster test cluster -- -k quota   the suites without a node, in a sandbox of their own
  python -m cluster test node -- PATH::NAME    one test
  python -m cluster test node                  the suites with a node
  python -m cluster test install               those of tests/install: dravirt installed by its manifests
  python -m cluster test arm64                 those of dravirt's images for arm64, by emulation
  python -m cluster up                         a cluster to try things in, until `down`
  python -m cluster shell                      a shell in which kubectl reaches it
  python -m cluster shell kubectl get nodes    one command there
  python -m cluster status | down
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from install import previous

from cluster import person, sandbox, stack
from cluster.host import Missing
from cluster.images import TREE
from cluster.progress import say

TESTS = Path(__file__).parent
LAYERS = ("cluster", "node", "install", "dra_off", "arm64")


def main() -> int:
    """Return the command's exit code: of a test run, pytest's."""
    parser = argparse.ArgumentParser(
        prog="python -m cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("build", help="build all into the cache").set_defaults(run=_build)
    test = commands.add_parser("test", help="run suites in a sandbox")
    test.add_argument("layers", choices=LAYERS)
    test.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    test.set_defaults(run=_test)
    commands.add_parser("bench", help="measure the way to the hook on a node").set_defaults(run=_bench)
    commands.add_parser("up", help="start a cluster to try things in").set_defaults(run=lambda _: person.up())
    commands.add_parser("down", help="end it").set_defaults(run=lambda _: person.down())
    commands.add_parser("status", help="say whether it runs").set_defaults(run=lambda _: person.status())
    shell = commands.add_parser("shell", help="a shell, or a command, where kubectl reaches it")
    shell.add_argument("command", nargs=argparse.REMAINDER)
    shell.set_defaults(run=lambda args: person.shell(args.command))
    args = parser.parse_args()
    if os.geteuid() != 0:
        say("a cluster needs root: it makes namespaces, mounts and control groups")
        return 2
    try:
        return args.run(args) or 0
    except Missing as error:
        say(f"cluster: {error}")
        return 2


def _build(_: argparse.Namespace) -> int:
    stack.prepare("node")
    return 0


def _bench(_: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="dravirt-cluster-") as logs:
        image = stack.prepare("node")
        return sandbox.start([sys.executable, "-m", "cluster.bench"], Path(logs), image, cwd=TREE).wait()


def _test(args: argparse.Namespace) -> int:
    """Run pytest in a sandbox, and keep the logs of a run that fails."""
    image = stack.prepare(args.layers)
    logs = Path(tempfile.mkdtemp(prefix="dravirt-cluster-"))
    # (as a setting, not as an argument: a path in `args.pytest` is then instead of it, not beside it)
    suites = TESTS
    if args.layers == "install":
        suites = TESTS.with_name("install")
        previous.image()
    command = [sys.executable, "-m", "pytest", "-o", f"testpaths={suites}", "-m", args.layers, "-p", "no:cacheprovider"]
    # (that of a test alone: what a session's fixtures start has limits of its own, and the first test waits for all)
    command += ["--timeout=300", "-o", "timeout_func_only=true", *args.pytest]
    process = sandbox.start(command, logs, image, cwd=TREE)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        code = process.wait()
    if code == 0:
        shutil.rmtree(logs)
    else:
        say(f"the cluster's logs are in {logs}")
    return code


if __name__ == "__main__":
    sys.exit(main())
