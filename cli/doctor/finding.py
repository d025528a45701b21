"""A finding: what is wrong with which object, why it matters, and the command that mends it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cli.doctor.codes import Code, Severity


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that `--fix` makes: a JSON Patch of the object at `path`, as it was at `version`."""

    path: str
    version: str
    operations: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know. `remedy` is a command line, "" where there is nothing to do."""

    code: Code
    subject: str
    """The object: its kind and name, with the namespace where it has one."""
    what: str
    remedy: str = ""
    fix: Fix | None = None
    """Set where the remedy is safe to do unasked."""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.code.severity

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {
            "code": self.code,
            "severity": self.severity,
            "object": self.subject,
            "what": self.what,
            "why": self.code.why,
            "remedy": self.remedy,
        }
