"""Run this suite against a real control plane, in a sandbox of its own (root, Linux; the programs are built once).

PYTHONPATH=tests python tests/integration/allocations/run.py [pytest's arguments]
"""

import shutil
import sys
import tempfile
from pathlib import Path

from cluster import sandbox, stack

SUITE = Path(__file__).parent


def main() -> int:
    """Return pytest's exit code; the logs of a run that fails are kept."""
    stack.prepare("cluster")
    logs = Path(tempfile.mkdtemp(prefix="dravirt-allocations-"))
    command = [sys.executable, "-m", "pytest", str(SUITE), "-p", "no:cacheprovider", "--timeout=300", *sys.argv[1:]]
    code = sandbox.start(command, logs, cwd=SUITE.parents[2]).wait()
    if code == 0:
        shutil.rmtree(logs)
    else:
        sys.stderr.write(f"the logs are in {logs}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
