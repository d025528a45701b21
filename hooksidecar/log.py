"""The log: one JSON object a line on stderr, for whoever collects the logs of pods.

What belongs to an entry beside its text is passed as `extra`: its reason code, the devices with their sources. Nothing
secret is ever passed: no token, no VMI, no domain.
"""

import json
import logging
from datetime import UTC, datetime

_EXTRA = ("reason", "devices")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON: time, level, logger, message, and what was passed as `extra`."""
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: getattr(record, name) for name in _EXTRA if getattr(record, name, None) is not None}
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def configure(level: str) -> None:
    """Send everything from `level` on (debug, info, warning, error) to stderr; another text means info, and is said."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    known = _LEVELS.get(level.lower())
    logging.basicConfig(level=known or logging.INFO, handlers=[handler], force=True)
    if known is None:
        logging.getLogger(__name__).warning("DRAVIRT_LOG_LEVEL must be one of %s: taking info", ", ".join(_LEVELS))
