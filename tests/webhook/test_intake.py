"""Bodies that cost: rich in values, many at once, or never finished. None may fill the memory or hold up the loop."""

import asyncio
import contextlib
import json
import time

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from support.reviews import review

from webhook.intake import MAX_BODY, MAX_HELD, MAX_VALUES, ORDINARY, Intake

SCOPE = {"method": "POST", "headers": [(b"content-type", b"application/json")]}


def read(*chunks: bytes, taker: Intake | None = None, scope: dict = SCOPE) -> bytes:
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages[-1]["more_body"] = False

    async def receive():
        return messages.pop(0)

    return asyncio.run((taker or Intake()).read(scope, receive))


def refused(*chunks: bytes, taker: Intake | None = None) -> int:
    with pytest.raises(HTTPException) as error:
        read(*chunks, taker=taker)
    return error.value.status_code


def test_a_body_in_pieces_is_read_whole():
    assert read(b"[1,", b"2", b"]") == b"[1,2]"


@pytest.mark.parametrize("values", [b"{},", b"[],", b"1,", b'"":{},'], ids=str)
def test_a_body_richer_in_values_than_any_object_is_refused_before_it_is_parsed(values):
    body = b"[" + values * (MAX_BODY // len(values) - 1) + b"1]"
    start = time.process_time()
    assert refused(body) == 413
    assert time.process_time() - start < 0.5


def test_a_large_body_of_few_values_is_read():
    text = json.dumps(review({"data": "x" * (MAX_BODY // 2)})).encode()
    assert read(text) == text


def test_the_live_review_is_far_below_the_limit(corpus):
    body = (corpus / "live" / "pod-create-review.json").read_bytes()
    assert body.count(b",") + body.count(b"{") + body.count(b"[") < MAX_VALUES / 100


def test_bodies_under_way_share_one_limit():
    taker = Intake()
    mebibyte = b" " * 2**20

    async def scenario():
        never = asyncio.Event()

        async def half():
            left = 6

            async def receive():
                nonlocal left
                left -= 1
                if left < 0:
                    await never.wait()
                return {"type": "http.request", "body": mebibyte, "more_body": True}

            await taker.read(SCOPE, receive)

        tasks = [asyncio.create_task(half()) for _ in range(MAX_HELD // (6 * 2**20) + 1)]
        done, pending = await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
        codes = [task.exception().status_code for task in done]
        for task in pending:
            task.cancel()
        for task in pending:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return codes

    assert asyncio.run(scenario()) == [503]
    assert read(b"{}", taker=taker) == b"{}", "what was held is given back"


def test_large_bodies_keep_no_review_of_ordinary_size_out():
    taker = Intake()
    large = b" " * (MAX_HELD // 5)

    async def scenario():
        never, started = asyncio.Event(), asyncio.Semaphore(0)

        async def hold():
            messages = [{"type": "http.request", "body": large, "more_body": True}]

            async def receive():
                if not messages:
                    started.release()
                    await never.wait()
                return messages.pop()

            await taker.read(SCOPE, receive)

        holders = [asyncio.create_task(hold()) for _ in range(5)]
        for _ in holders:
            await started.acquire()
        codes = []
        for size in (ORDINARY, ORDINARY + 1):

            async def receive(size=size):
                return {"type": "http.request", "body": b" " * size, "more_body": False}

            try:
                codes.append(len(await taker.read(SCOPE, receive)))
            except HTTPException as error:
                codes.append(error.status_code)
        for holder in holders:
            holder.cancel()
        await asyncio.gather(*holders, return_exceptions=True)
        return codes

    assert len(large) < MAX_BODY
    assert asyncio.run(scenario()) == [ORDINARY, 503]


def test_what_a_cut_body_held_is_given_back():
    taker = Intake()
    messages = [{"type": "http.request", "body": b" " * 2**20, "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    with pytest.raises(ClientDisconnect):
        asyncio.run(taker.read(SCOPE, receive))
    assert taker._held == 0
