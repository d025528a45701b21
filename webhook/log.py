"""The log: one JSON object a line on stderr, for whoever collects the logs of pods.

Frequent events go past `logging`, whose work per record costs as much as reading a review.
"""

import logging
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

LEVELS = ("debug", "info", "warning", "error")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON: time, level, logger, message, and the fields passed as `extra={"fields": …}`."""
        fields = {"message": record.getMessage(), **getattr(record, "fields", {})}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return _line(record.created, record.levelname.lower(), record.name, fields).decode()


class EventLog:
    """Writes the lines of frequent events, where the log's level lets them through."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def __call__(self, fields: Mapping[str, Any]) -> None:
        """Write one event. A log that cannot be written fails nothing."""
        if self._logger.isEnabledFor(logging.INFO):
            line = _line(time.time(), "info", self._logger.name, fields) + b"\n"
            try:
                sys.stderr.buffer.write(line)  # as bytes, which it is: the text layer above would take a third more
                sys.stderr.buffer.flush()
            except OSError:
                return


def _line(seconds: float, level: str, logger: str, fields: Mapping[str, Any]) -> bytes:
    moment = datetime.fromtimestamp(seconds, UTC)
    return orjson.dumps({"time": moment, "level": level, "logger": logger, **fields}, default=str)


def configure(level: str) -> None:
    """Send everything from `level` on to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What uvicorn tells about its own start and stop, our own lines tell with the address and the reason.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request to the API server
