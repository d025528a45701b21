"""The two families of errors that dravirt knows.

DravirtError
├── Refused   the user's object is wrong: says where, and what would be right
└── Failed    something failed: says what to retry

Every error carries a stable reason code; its text names the object, the field and the remedy.
"""

from dra.reasons import Reason


class DravirtError(Exception):
    """Something that dravirt will not or cannot do, with the reason for it."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Refused(DravirtError):
    """The object given is wrong. A retry with the same object gives the same answer."""

    def __init__(self, reason: Reason, message: str, *, path: str = "") -> None:
        """Keep `path`, the field at fault, apart from the message and show both together."""
        super().__init__(reason, f"{path}: {message}" if path else message)
        self.path = path


class Failed(DravirtError):
    """Something failed that a retry may mend."""
