"""What the sidecar is told by its environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dra.contract import INTENT_ENV, METADATA_DIR, SOCKET_DIR, STATE_DIR
from dra.errors import Refused
from dra.intent import Intent, read_intent
from dra.reasons import Reason


@dataclass(frozen=True, slots=True)
class Settings:
    """The intent, and where things lie."""

    intent: Intent
    socket_dir: Path = Path(SOCKET_DIR)
    state_dir: Path = Path(STATE_DIR)
    root: Path = Path("/")
    """What holds `sys` and `dev`."""
    metadata_dir: Path = Path(METADATA_DIR)

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings in `environ`; an empty variable counts as absent. Raises Refused for a broken intent."""
        text = environ.get(INTENT_ENV)
        if not text:
            raise Refused(Reason.INVALID_INTENT, "is not set: it holds the intent as JSON", path=INTENT_ENV)
        return cls(
            intent=read_intent(text, path=INTENT_ENV),
            socket_dir=Path(environ.get("DRAVIRT_SOCKET_DIR") or SOCKET_DIR),
            state_dir=Path(environ.get("DRAVIRT_STATE_DIR") or STATE_DIR),
            root=Path(environ.get("DRAVIRT_ROOT") or "/"),
            metadata_dir=Path(environ.get("DRAVIRT_METADATA_DIR") or METADATA_DIR),
        )
