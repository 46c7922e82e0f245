"""Async handlers are stepped inside the tick: in order, each actor in its own context, every message accounted for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.accounting import count_cell, count_loop
from greenroom._core.scheduler.host import Host
from greenroom._core.scheduler.loop import Loop
from greenroom.errors import WaitsForItself
from tests.core.hosts import Returned
from tests.core.props import LONG, bare_yield, me, never, var

if TYPE_CHECKING:
    from tests.core.conftest import Stage

# A context for each actor


async def test_context_variables_are_kept_per_actor_over_messages_and_suspensions(stage: Stage) -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}

    async def actor(name: str, message: str) -> None:
        seen[name].append(var.get())
        var.set(f"{name}{message}")
        await asyncio.sleep(0)
        seen[name].append(var.get())

    cells = [stage.spawn(actor, "a"), stage.spawn(actor, "b")]
    for message in "12":
        for cell in cells:
            cell.tell(message)
    await stage.settled()
    assert seen == {"a": ["unset", "a1", "a1", "a2"], "b": ["unset", "b1", "b1", "b2"]}
    assert var.get() == "unset"


async def test_what_a_sync_handler_sets_is_not_seen_by_another_actor(stage: Stage) -> None:
    def setter(_: object, message: object) -> None:
        var.set("leaked")

    async def reader(_: object, message: object) -> Returned:
        return Returned(var.get())

    stage.spawn(setter).tell("m")
    await stage.settled()
    stage.spawn(reader).tell("m")
    await stage.settled()
    assert stage.script.results == ["unset"]


# Order


async def test_a_suspended_actor_handles_nothing_else_while_others_go_on(stage: Stage) -> None:
    gates = [never() for _ in range(2)]
    said: list[str] = []

    def actor(name: str, message: str) -> Any:
        if message.startswith("gate"):
            return passing(name, int(message[-1]))
        said.append(f"{name} {message}")
        return None

    async def passing(name: str, gate: int) -> None:
        said.append(f"{name} waits at {gate}")
        await gates[gate]
        said.append(f"{name} passes {gate}")

    a, b = stage.spawn(actor, "a"), stage.spawn(actor, "b")
    for message in ("one", "gate 0", "two", "gate 1", "three"):
        a.tell(message)
    b.tell("one")
    await stage.settled()
    b.tell("two")
    a.order(lambda cell: said.append("order"))
    await stage.settled()
    assert said == ["a one", "a waits at 0", "b one", "b two"]
    counts = stage.counts()
    assert (counts.sent, counts.handled, counts.queued, counts.in_hand) == (7, 3, 3, 1)
    assert (count_cell(a).in_hand, count_cell(b).in_hand) == (1, 0)
    assert counts.balanced
    gates[0].set_result(None)
    await stage.settled()
    assert said[4:] == ["a passes 0", "order", "a two", "a waits at 1"]
    gates[1].set_result(None)
    await stage.settled()
    assert said[8:] == ["a passes 1", "a three"]
    counts = stage.counts()
    assert (counts.handled, counts.queued, counts.in_hand) == (7, 0, 0)


async def test_notices_and_orders_may_suspend_too_and_are_in_no_column(stage: Stage) -> None:
    gate = never()
    said: list[object] = []

    async def actor(_: object, message: object) -> None:
        await gate
        said.append(message)

    async def ordered() -> None:
        await gate
        said.append("order")

    cell = stage.spawn(actor)
    cell.notify("notice")
    cell.tell("message")
    cell.order(lambda cell: ordered())
    await stage.settled()
    counts = stage.counts()
    assert (said, counts.sent, counts.in_hand, counts.queued) == ([], 1, 0, 1)
    gate.set_result(None)
    await stage.settled()
    assert said == ["order", "notice", "message"]
    assert stage.counts().handled == 1


async def test_a_bare_yield_goes_to_the_back_of_the_run_queue(stage: Stage) -> None:
    said: list[str] = []

    async def actor(name: str, message: object) -> None:
        for step in range(3):
            said.append(f"{name}{step}")
            await bare_yield()

    for name in "abc":
        stage.spawn(actor, name).tell("go")
    await stage.settled()
    assert said == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


async def test_a_handler_that_yields_for_ever_starves_neither_others_nor_asyncio(stage: Stage) -> None:
    stop = False

    async def restless() -> object:
        while not stop:
            await bare_yield()
        return "stopped"

    _, outcome = stage.perform(restless)
    _, other = stage.perform(lambda: asyncio.sleep(0.001, "slept"))
    assert await other == "slept"
    stop = True
    assert await outcome == "stopped"


async def test_a_slip_learns_what_its_suspended_message_came_to(stage: Stage) -> None:
    class Letter(Receipt):
        def __init__(self) -> None:
            super().__init__()
            self.fate: list[object] = []

        def settle(self, result: object) -> None:
            self.fate.append(("settled", result))

        def fail(self, cause: BaseException) -> None:
            self.fate.append(("failed", repr(cause)))

        def discard(self, why: str) -> None:
            self.fate.append(("discarded", why))

    async def actor(_: object, message: str) -> str:
        await asyncio.sleep(0)
        if message == "bad":
            raise ValueError(message)
        return message

    cell, letters = stage.spawn(actor), [Letter(), Letter(), Letter()]
    for message, letter in zip(("good", "bad", "late"), letters, strict=True):
        cell.post(message, letter)
    await stage.settled()
    assert [letter.fate for letter in letters] == [
        [("settled", "good")],
        [("failed", "ValueError('bad')")],
        [("discarded", "stopped")],
    ]


# Ticks that somebody else runs


async def test_a_tick_run_by_a_task_gives_that_task_back_its_place(stage: Stage) -> None:
    seen: list[object] = []

    async def actor(_: object, message: object) -> None:
        seen.append(me())
        await asyncio.sleep(0)
        seen.append(me())

    outer = me()
    stage.spawn(actor).tell("m")
    for _ in range(3):
        stage.loop.tick()
        assert me() is outer
    async with asyncio.timeout(LONG):
        await asyncio.sleep(0)
    assert len(seen) == 2
    assert seen[0] is seen[1] is not outer


async def test_a_handler_cannot_begin_a_tick(stage: Stage) -> None:
    async def act() -> object:
        with pytest.raises(WaitsForItself):
            stage.loop.tick()
        return "refused"

    assert await stage.outcome(act) == "refused"


# Without asyncio


async def _echo(said: list[object], message: object) -> None:
    said.append(message)


async def _yielding(said: list[object], message: object) -> None:
    await bare_yield()
    said.append(message)


@pytest.mark.parametrize("handler", [_echo, _yielding])
def test_an_async_handler_that_awaits_no_future_needs_no_asyncio(handler: Any) -> None:
    loop, said = Loop(), list[object]()
    for _ in range(2):
        loop.spawn(handler, said).tell("m")
    loop.run_until_idle()
    assert said == ["m", "m"]
    assert count_loop(loop).handled == 2


def test_a_handler_that_awaits_a_future_on_a_bare_loop_is_told_what_to_do() -> None:
    class Keeper(Host):
        def failed(self, cell: Any, message: object, cause: BaseException) -> None:
            failures.append(cause)

    failures: list[BaseException] = []
    aio = asyncio.new_event_loop()
    try:
        future = aio.create_future()

        async def actor(_: object, message: object) -> None:
            if message == "wait":
                await future

        loop = Loop(host=Keeper())
        cell = loop.spawn(actor)
        cell.tell("wait")
        cell.tell("go on")
        loop.run_until_idle()
    finally:
        aio.close()
    assert [type(cause) for cause in failures] == [RuntimeError]
    assert "attach a poller" in str(failures[0])
    counts = count_loop(loop)
    assert (counts.failed, counts.handled, counts.in_hand) == (1, 1, 0)


async def test_a_thing_that_cannot_even_be_shown_fails_its_handler_and_no_more(stage: Stage) -> None:
    class Unspeakable:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    async def actor(_: object, message: object) -> None:
        await bare_yield(Unspeakable())

    cell = stage.spawn(actor)
    cell.tell("m")
    await stage.settled()
    assert len(stage.script.failures) == 1
    counts = stage.counts()
    assert (counts.failed, counts.in_hand, counts.balanced) == (1, 0, True)
