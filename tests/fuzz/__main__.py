"""Fuzz targets for a bounded time and say what came of it.

`--seconds` are those of the whole run: as many targets at a time as there are processors. It ends with 1 where there is
a finding: what broke is then shown, and the input written to tests/fuzz/findings/<target>/. Mend it, and keep the input
under a name that tells, as a test.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from fuzz.targets import TARGETS

HERE = Path(__file__).parent
MAX_INPUT = 32 * 1024
TIMEOUT = 10
"""Seconds for one input, of which a sane one takes a thousandth."""
MEMORY = 1024
"""MiB for the fuzzer and its corpus."""

_COVERAGE = re.compile(r"cov: (\d+) ft: (\d+)")
_EXECUTIONS = re.compile(r"number_of_executed_units: +(\d+)")


class Result(NamedTuple):
    """What fuzzing one target gave."""

    target: str
    failed: bool
    log: str

    def line(self) -> str:
        """Return the result in one line."""
        edges, features = (_COVERAGE.findall(self.log) or [("?", "?")])[-1]
        found = _EXECUTIONS.search(self.log)
        count, verdict = found[1] if found else "?", "FINDING" if self.failed else "no finding"
        return f"{self.target:<12}{count:>10} executions{edges:>8} edges{features:>8} features  {verdict}"


def fuzz(target: str, seconds: int) -> Result:
    """Fuzz one target from its seeds."""
    findings, dictionary = HERE / "findings" / target, HERE / "seeds" / f"{target}.dict"
    findings.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={MAX_INPUT}",
        f"-timeout={TIMEOUT}",
        f"-rss_limit_mb={MEMORY}",
        f"-artifact_prefix={findings}/",
        "-print_final_stats=1",
        *([f"-dict={dictionary}"] if dictionary.exists() else []),
    ]
    with tempfile.TemporaryDirectory(prefix="dravirt-fuzz-") as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        command = [sys.executable, "-m", "fuzz.worker", target, *options, str(corpus), str(HERE / "seeds" / target)]
        # libFuzzer ends the process without cleaning up: what a target leaves goes with the folder.
        environment = os.environ | {"PYTHONPATH": str(HERE.parent), "TMPDIR": folder}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, errors="replace"
        )
    return Result(target, done.returncode != 0, done.stdout)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 (the command's result)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together (default 60)")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)")
    args = parser.parse_args()
    if unknown := set(args.targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    targets = args.targets or list(TARGETS)
    workers = min(os.cpu_count() or 1, len(targets))
    share = max(1, args.seconds * workers // len(targets))
    _say(f"==> {len(targets)} targets, {share} s each, {workers} at a time")
    failed = False
    with ThreadPoolExecutor(workers) as pool:
        for result in pool.map(fuzz, targets, [share] * len(targets)):
            _say(result.line())
            if result.failed:
                failed = True
                _say(result.log[-6000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
