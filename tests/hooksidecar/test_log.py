"""The log: a JSON object a line, whatever was said."""

import json
import logging
import sys

import pytest

from dra.reasons import Reason
from hooksidecar.log import JsonLines, configure


@pytest.fixture(autouse=True)
def _root_logger():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _record(message, *args, exc_info=None, **extra):
    record = logging.LogRecord("hooksidecar.x", logging.WARNING, "x.py", 1, message, args, exc_info)
    record.__dict__.update(extra)
    return json.loads(JsonLines().format(record))


def test_line_holds_time_level_text_and_what_is_known():
    entry = _record("no %s\nhere", "gpu0", reason=Reason.UNRESOLVED, devices=[], token="secret")
    time = entry.pop("time")
    assert time.endswith("+00:00")
    assert entry == {
        "level": "warning",
        "logger": "hooksidecar.x",
        "message": "no gpu0\nhere",
        "reason": "unresolved",
        "devices": [],
    }


def test_line_is_one_line_of_ascii_even_for_a_traceback():
    try:
        int("smörgås \udc80")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "sm\u00f6rg\u00e5s", (), sys.exc_info())
    line = JsonLines().format(record)
    assert line.isascii()
    assert "\n" not in line
    assert "ValueError" in json.loads(line)["traceback"]


@pytest.mark.parametrize(("level", "shown"), [("debug", 4), ("INFO", 3), ("warning", 2), ("error", 1)])
def test_level_decides_what_is_shown(capsys, level, shown):
    configure(level)
    for each in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logging.getLogger("hooksidecar").log(each, "text")
    assert len(capsys.readouterr().err.splitlines()) == shown


def test_unknown_level_means_info_and_is_said(capsys):
    configure("loud")
    logging.getLogger("hooksidecar").debug("text")
    [line] = capsys.readouterr().err.splitlines()
    assert "debug, info, warning, error" in json.loads(line)["message"]
