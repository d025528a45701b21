"""What virt-launcher reads in a status: the family by its code, the text whole and in bounds, nothing internal."""

import logging
import os

import grpc
import pytest
from support.sidecars import Hook

from dra.errors import Failed, Refused
from dra.reasons import Reason
from hooksidecar.server import HookServer


class Failing:
    """An attachment whose every define ends in one error."""

    def __init__(self, error):
        self.error = error

    def define(self, *_):
        raise self.error


@pytest.fixture
def refusal(tmp_path_factory):
    """Return how OnDefineDomain is refused for an error."""
    ends = []
    umask = os.umask(0o022)  # the server changes it

    def status(error):
        folder = tmp_path_factory.mktemp("s")
        server = HookServer(Failing(error), folder)
        server.start()
        hook = Hook(folder / "dravirt.sock")
        ends.extend([hook.close, lambda: server.stop(0)])
        return hook.refusal()

    yield status
    for end in ends:
        end()
    os.umask(umask)


def test_what_a_retry_may_mend_is_unavailable(refusal):
    assert refusal(Failed(Reason.UNRESOLVED, "not yet")) == (
        grpc.StatusCode.UNAVAILABLE,
        "dravirt: not yet (reason: unresolved)",
    )


def test_what_is_wrong_is_a_failed_precondition(refusal):
    assert refusal(Refused(Reason.WRONG_COUNT, "two", path="x")) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "dravirt: x: two (reason: wrong_count)",
    )


def test_fault_of_ours_says_where_to_look_and_nothing_else(refusal, caplog):
    code, text = refusal(KeyError("secret"))
    assert (code, text) == (grpc.StatusCode.INTERNAL, "dravirt: internal error, see the log of container dravirt-hook")
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    "letter", ["x", "%", "\u00e5", "\n", "\udc80"], ids=["ascii", "percent", "letter", "line", "surrogate"]
)
def test_text_of_any_length_and_letters_arrives_with_its_reason(refusal, letter, caplog):
    caplog.set_level(logging.CRITICAL)  # a captured line with a lone surrogate cannot be reported between processes
    code, text = refusal(Failed(Reason.UNRESOLVED, "start " + letter * 100_000))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert text.startswith("dravirt: start")
    assert text.endswith(" (reason: unresolved)")
    assert text.isascii()
    assert len(text) < 2700
