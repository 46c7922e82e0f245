"""Worker processes carry out every operation of `ctx`, refs and the system as its row in the table says."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from greenroom import ActorSystem, SystemFailed
from greenroom.actor.offload.operations import OPERATIONS, Refused, Way
from greenroom.system.dispatchers.processes.pool import worker
from greenroom.system.dispatchers.processes.pool.worker import Worker
from tests.system.dispatchers.operating import ENDS, Operator

HERE = (Way.HERE, Way.MAIL)


@pytest.mark.parametrize("keys", [[key for key in OPERATIONS if key not in ENDS], *([key] for key in ENDS)], ids=len)
async def test_a_worker_calls_home_for_what_the_table_says(keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []
    request = Worker._request

    def note(self: Worker, number: int, actor: int, key: str, given: object) -> None:
        requested.append(key)
        request(self, number, actor, key, given)

    monkeypatch.setitem(worker._WORDS, "request", note)
    heard: asyncio.Queue[Any] = asyncio.Queue()

    def hear(ctx: Any, message: Any) -> None:
        if isinstance(message, tuple):
            heard.put_nowait(message)

    with suppress(SystemFailed):
        async with ActorSystem() as system:
            other = system.spawn(hear)
            for key in keys:
                ref = system.spawn(Operator, other, dispatcher="process")
                await ref.started()
                requested.clear()
                asked = ref.ask(key, timeout=None).future()
                way = OPERATIONS[key].remote
                refusal = way.error.__name__ if isinstance(way, Refused) else None
                if key in ENDS:
                    await ref.terminated()
                else:
                    assert await heard.get() == (key, refusal)
                is_here = refusal is not None or way in HERE or key == "ctx.now"  # its clock is not a manual one
                assert (key in requested) is not is_here, (key, requested)
                asked.cancel()
                ref.kill()
