"""The agent's loop: what is new is handed on, what fails changes nothing, and each trouble is told once."""

import datetime as dt
import logging
import time
from dataclasses import replace
from itertools import chain, repeat

import pytest
from support.authorities import NOW, days

from certs.agent import MAX_PAUSE, Agent
from certs.source import Offer
from dra.errors import Failed
from dra.reasons import Reason

ONE = Offer(b"one", b"key", {"server": NOW + days(30), "ca": NOW + days(300)})
TWO = Offer(b"two", b"key", {"server": NOW + days(60)})
TORN = Failed(Reason.INVALID_CERTIFICATE, "the key is not the certificate's")


class Script:
    """A source that offers, or fails, in turn; the last for ever."""

    def __init__(self, *turns):
        self._turns = chain(turns, repeat(turns[-1]))

    def read(self):
        turn = next(self._turns)
        if isinstance(turn, Exception):
            raise turn
        return turn


def agent(*turns, swap=None, interval=10.0):
    used = []
    made = Agent(Script(*turns), swap or (lambda *pair: used.append(pair)), interval)
    return made, used


def looks(made, number):
    for _ in range(number):
        made._try()


def test_a_certificate_is_put_to_use_once():
    made, used = agent(ONE, ONE, TWO, TWO, ONE)
    looks(made, 5)
    assert [chain for chain, _ in used] == [b"one", b"two", b"one"]
    assert made.numbers.reloads == 3


def test_the_numbers_tell_when_what_is_in_use_ends():
    made, _ = agent(ONE)
    looks(made, 1)
    assert made.numbers.ends == {
        name: moment.timestamp() for name, moment in (("server", NOW + days(30)), ("ca", NOW + days(300)))
    }


def test_the_authorities_are_those_of_the_last_offer_that_could_be_used():
    offers = [replace(each, authorities=text) for each, text in ((ONE, b"OLD"), (ONE, b"NEW OLD"))]
    made, _ = agent(*offers, TORN)
    seen = [made.authorities]
    for _ in range(3):
        looks(made, 1)
        seen.append(made.authorities)
    assert seen == ["", "OLD", "NEW OLD", "NEW OLD"]


def test_tl17_a_failure_changes_nothing_and_is_told_once(caplog):
    made, used = agent(ONE, TORN, TORN, TORN, TWO)
    looks(made, 4)
    assert [chain for chain, _ in used] == [b"one"]
    assert made.numbers.failures == 3
    assert made.health() == (True, TORN.message)
    assert [(each.getMessage(), each.fields) for each in caplog.records if each.levelno == logging.ERROR] == [
        (f"certificates: the last good one stays in use: {TORN.message}", {"reason": "invalid_certificate"})
    ]
    looks(made, 1)
    assert made.health() == (True, "")
    assert [chain for chain, _ in used] == [b"one", b"two"]


def test_what_cannot_be_put_to_use_is_tried_again():
    refusals = iter([TORN])

    def swap(*_):
        for refusal in refusals:
            raise refusal

    made, _ = agent(ONE, swap=swap)
    looks(made, 1)
    assert (made.health()[0], made.numbers.reloads, made.numbers.failures) == (False, 0, 1)
    looks(made, 1)
    assert (made.health()[0], made.numbers.reloads) == (True, 1)


def test_it_is_not_ready_before_it_was_trusted_and_stays_so_after():
    untrusted = Offer(b"one", b"key", ONE.ends, trusted=False, detail="no caBundle")
    made, _ = agent(untrusted, ONE, untrusted)
    assert made.health() == (False, "")
    looks(made, 1)
    assert made.health() == (False, "no caBundle")
    looks(made, 1)
    assert made.health() == (True, "")
    looks(made, 1)
    assert made.health() == (True, "no caBundle")


def test_a_defect_ends_nothing(caplog):
    made, used = agent(ONE, ZeroDivisionError("by zero"), TWO)
    looks(made, 3)
    assert [chain for chain, _ in used] == [b"one", b"two"]
    assert "ZeroDivisionError: by zero" in caplog.text


@pytest.mark.parametrize(("failures", "longest"), [(0, 10), (1, 20), (2, 40), (3, 60), (50, 60)])
def test_pauses_grow_with_failures_and_are_never_quite_the_same(failures, longest):
    made, _ = agent(TORN)
    looks(made, failures)
    pauses = [made.pause() for _ in range(50)]
    assert all(0.8 * longest <= pause <= longest <= MAX_PAUSE for pause in pauses)
    assert len(set(pauses)) > 10


def test_the_thread_looks_again_and_ends_when_told():
    made, used = agent(ONE, TWO, interval=0.01)
    made.start()
    deadline = time.monotonic() + 10
    while len(used) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    made.stop()
    assert not made._thread.is_alive()


def test_dates_are_those_of_the_source():
    assert ONE.ends["server"].tzinfo is dt.UTC
