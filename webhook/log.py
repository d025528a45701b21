"""The log: one JSON object a line on stderr, for whoever collects the logs of pods."""

import logging
from datetime import UTC, datetime
from typing import Any

import orjson

LEVELS = ("debug", "info", "warning", "error")


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object; what an event adds comes as `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its end."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def configure(level: str) -> None:
    """Send everything from `level` on to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What uvicorn tells about its own start and stop, our own lines tell with the address and the reason.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
