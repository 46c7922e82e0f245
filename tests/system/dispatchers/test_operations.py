"""Every operation of `ctx` and refs has a row in the table, and threads carry it out as the row says."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import ActorRef, ActorSystem, Context, Directive, Supervision, SystemConfig
from greenroom._core.timing.timers import Timer
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.messaging.timers import KeyedTimers
from greenroom.actor.offload.operations import OPERATIONS, Refused, Way
from tests.system.dispatchers.operating import ENDS, SAMPLES, Operator

PATIENCE = 60.0
KINDS = {"ctx": Context, "timers": KeyedTimers, "timer": Timer, "ref": ActorRef}


@pytest.mark.parametrize(("of", "kind"), [*KINDS.items(), ("ref", Alias)], ids=str)
def test_every_operation_has_a_row_and_every_row_an_operation(of: str, kind: Any) -> None:
    rows = {row.name for row in OPERATIONS.values() if row.of == of}
    assert all(hasattr(kind, name.removesuffix("=")) for name in rows)
    if kind is not Timer:  # which has a core's fields too
        public = {name for name in dir(kind) if not name.startswith("_")} - {"cell"}
        settable = {f"{name}=" for name in public if getattr(getattr(kind, name), "fset", None) is not None}
        assert public | settable <= rows


def test_every_row_says_how_it_is_carried_out() -> None:
    assert set(SAMPLES) == set(OPERATIONS)
    for row in OPERATIONS.values():
        assert row.shared in (Way.HERE, Way.UNLESS_ABANDONED, Way.MAIL, Way.CALL), row
        assert isinstance(row.remote, Refused) or row.remote is not Way.UNLESS_ABANDONED, row


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
async def test_threads_call_home_for_what_the_table_says(dispatcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    call_at = ActorSystem._call_at

    def note(self: ActorSystem, host: Any, what: str, action: Any) -> Any:
        called.append(what)
        return call_at(self, host, what, action)

    monkeypatch.setattr(ActorSystem, "_call_at", note)

    heard: asyncio.Queue[Any] = asyncio.Queue()

    def hear(ctx: Any, message: Any) -> None:
        if isinstance(message, tuple):
            heard.put_nowait(message)

    async with asyncio.timeout(PATIENCE), ActorSystem() as system:
        other = system.spawn(hear)
        for row in OPERATIONS.values():
            if row.key not in (*ENDS, "system.settle_sync"):
                ref = system.spawn(Operator, other, dispatcher=dispatcher)
                called.clear()
                asked = ref.ask(row.key, timeout=None).future()
                key, _ = await heard.get()
                assert key == row.key
                what = f"{row.name.removesuffix('=')}()"
                assert row.shared is not Way.CALL or what in called, (key, called)
                asked.cancel()
                ref.kill()


class Abandoned(Operator):
    """Is abandoned, and then carries out all that the table refuses it."""

    def receive(self, message: Any) -> Any:
        begun, go_on, refused = message
        self.child = self.ctx.spawn(Operator, self.other)
        begun.set()
        go_on.wait(PATIENCE)
        for row in OPERATIONS.values():
            if row.shared in (Way.CALL, Way.UNLESS_ABANDONED):
                key = row.key
                refused[key] = self.attempt(key)
        self.other.tell("done")


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
def test_an_abandoned_handler_is_refused_what_its_actor_would_notice(dispatcher: str) -> None:
    begun, go_on, refused = threading.Event(), threading.Event(), dict[str, Any]()
    config = SystemConfig(stop_timeout=0.05, supervision=Supervision(Directive.RESUME))

    async def main() -> None:
        is_done = asyncio.Event()
        async with asyncio.timeout(PATIENCE), ActorSystem(config=config) as system:
            other = system.spawn(lambda ctx, message: is_done.set())
            ref = system.spawn(Abandoned, other, dispatcher=dispatcher)
            ref.tell((begun, go_on, refused))
            await asyncio.to_thread(begun.wait, PATIENCE)
            ref.fail(ValueError("on purpose"))
            while await ref.inspect():
                pass
            go_on.set()
            await is_done.wait()

    try:
        asyncio.run(main())
    finally:
        go_on.set()
    assert set(refused.values()) == {"HandlerAbandoned"}, refused
