"""The log is one JSON object a line, whatever stands in it."""

import errno
import io
import json
import logging

import pytest

from webhook.log import EventLog, JsonLines


def line(message, *arguments, **extra):
    record = logging.getLogger("webhook.x").makeRecord(
        "webhook.x", logging.WARNING, "x.py", 1, message, arguments, extra.pop("exc_info", None), extra=extra
    )
    text = JsonLines().format(record)
    assert "\n" not in text
    return json.loads(text)


def test_a_record_is_an_object_with_its_time_in_utc():
    value = line("took %s s", 3, fields={"path": "/mutate/pod"})

    assert value.pop("time").endswith("+00:00")
    assert value == {"level": "warning", "logger": "webhook.x", "message": "took 3 s", "path": "/mutate/pod"}


def test_a_text_of_several_lines_stays_in_its_line():
    assert line("one\n{two}", fields={"detail": "a\r\nb\x00"})["detail"] == "a\r\nb\x00"


def test_an_exception_comes_with_its_traceback():
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 / 0

    value = line("failed", exc_info=(raised.type, raised.value, raised.tb))

    assert value["traceback"].endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize(("level", "lines"), [(logging.INFO, 1), (logging.WARNING, 0)], ids=["info", "warning"])
def test_an_event_is_written_where_the_level_lets_it_through(capsys, level, lines):
    logging.getLogger("webhook.test").setLevel(level)

    EventLog("webhook.test")({"message": "admission", "name": "a\nb"})

    written = capsys.readouterr().err.splitlines()
    assert len(written) == lines
    assert [json.loads(text)["name"] for text in written] == ["a\nb"] * lines


class FullDisk(io.RawIOBase):
    """A file on a full disk."""

    def writable(self):
        return True

    def write(self, _data):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_that_cannot_be_written_fails_nothing(monkeypatch):
    logging.getLogger("webhook.test").setLevel(logging.INFO)
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(io.BufferedWriter(FullDisk())))

    EventLog("webhook.test")({"message": "admission"})
