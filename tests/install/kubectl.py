"""The command that users install with."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 280
"""For one command; none of them is to wait that long."""


class Refusal(Exception):
    """kubectl ended with an error; the text is what it said."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl as one user."""

    program: Path
    kubeconfig: Path

    def __call__(self, *arguments: str | Path, given: str | None = None) -> str:
        """Return what it prints; `given` is its standard input. Raises Refusal."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        command = [str(self.program), *map(str, arguments)]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, timeout=_SECONDS, env=environment
        )
        if done.returncode != 0:
            raise Refusal(f"`kubectl {' '.join(command[1:])}`: {done.stderr or done.stdout}")
        return done.stdout
