"""Waiting for an actor's start, end or inspection: from itself, and in vain; by every dispatcher (M2, J9)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, AskTimeout, ExitKind, ManualClock, State, Supervision
from greenroom.errors import InvalidDelay, WaitsForItself
from tests.gates import Gate

if TYPE_CHECKING:
    from tests.conftest import Play

DISPATCHERS = ["concurrent", "parallel", "pinned", "process"]
PATIENCE = 120.0

every_dispatcher = pytest.mark.parametrize("dispatcher", DISPATCHERS)


class Selfish(Actor[str, Any]):
    """Awaits something of its own in one of its hooks, or in its handler; the ear is told what came of it."""

    def __init__(self, ear: ActorRef[str], hook: str, what: str) -> None:
        self.ear = ear
        self.hook = hook
        self.what = what

    async def look(self, hook: str) -> None:
        if hook == self.hook:
            try:
                result: Any = await getattr(self.ctx.self, self.what)()
            except Exception as exc:
                result = type(exc).__name__
            self.ear.tell(f"{hook}: {result}")

    async def pre_start(self) -> None:
        await self.look("pre_start")

    async def post_start(self) -> None:
        await self.look("post_start")

    async def receive(self, message: str) -> None:
        await self.look("receive")

    async def pre_restart(self, cause: BaseException | None) -> None:
        await self.look("pre_restart")

    async def post_restart(self) -> None:
        await self.look("post_restart")

    async def pre_stop(self) -> None:
        await self.look("pre_stop")

    async def post_stop(self) -> None:
        await self.look("post_stop")


BEFORE = ["pre_start", "post_start", "pre_restart", "post_restart"]
"""Hooks that run before the actor, or its next incarnation, has started."""
AFTER = ["receive", "pre_stop"]


pytestmark = pytest.mark.config(supervision=Supervision(backoff=None))


def heard_of(play: Play, hook: str, what: str, dispatcher: str) -> list[str]:
    """What an actor finds that awaits something of its own."""
    heard: list[str] = []

    async def program(system: ActorSystem) -> None:
        ear = system.spawn(lambda ctx, message: heard.append(str(message)), dispatcher="concurrent")
        ref = system.spawn(Selfish, ear, hook, what, dispatcher=dispatcher)
        ref.tell("go")
        await system.settle()
        if "restart" in hook:
            ref.restart()
            await system.settle()
        ref.stop()
        assert (await ref.terminated()).kind is ExitKind.NORMAL
        await system.settle()

    play(program, stop_timeout=PATIENCE, supervision=Supervision(backoff=None))
    return heard


@every_dispatcher
@pytest.mark.parametrize("hook", BEFORE)
def test_an_actor_that_awaits_its_own_start_before_it_is_told_so(play: Play, hook: str, dispatcher: str) -> None:
    assert heard_of(play, hook, "started", dispatcher) == [f"{hook}: {WaitsForItself.__name__}"]


@every_dispatcher
@pytest.mark.parametrize("hook", AFTER)
def test_an_actor_that_awaits_its_own_start_after_it_goes_on_at_once(play: Play, hook: str, dispatcher: str) -> None:
    assert heard_of(play, hook, "started", dispatcher) == [f"{hook}: None"]


@every_dispatcher
@pytest.mark.parametrize("hook", ["pre_start", "receive", "post_stop"])
@pytest.mark.parametrize("what", ["terminated", "inspect"])
def test_an_actor_that_awaits_its_own_end_or_inspection_is_told_so(
    play: Play, what: str, hook: str, dispatcher: str
) -> None:
    assert heard_of(play, hook, what, dispatcher) == [f"{hook}: {WaitsForItself.__name__}"]


class Delegating(Actor[str, str]):
    """Leaves the waiting to a task, which is nobody's handler."""

    def inspect(self, *items: str) -> Mapping[str, Any]:
        return {"items": items}

    async def receive(self, message: str) -> str:
        self.task = asyncio.ensure_future(self.ctx.self.inspect(message))
        await asyncio.sleep(0)
        self.ctx.pipe_to_self(self.task)
        return "begun"


@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned"])
async def test_a_task_that_an_actor_makes_may_await_its_inspection(system: ActorSystem, dispatcher: str) -> None:
    looked = Gate()

    class Looking(Delegating):
        async def receive(self, message: Any) -> Any:
            if isinstance(message, str):
                return await super().receive(message)
            looked.set_result(message)
            return None

    ref = system.spawn(Looking, dispatcher=dispatcher)
    assert await ref.ask("depth", timeout=None) == "begun"
    assert await looked == {"items": ("depth",)}


class Busy(Actor[ActorRef, None]):
    """Says that it is busy, and is so until it is killed."""

    def inspect(self, *items: str) -> Mapping[str, Any]:
        return {"items": items}

    async def receive(self, message: ActorRef) -> None:
        message.tell("busy")
        await asyncio.Event().wait()


class Curious(Actor[ActorRef, str]):
    """Inspects another, with little time."""

    async def receive(self, message: ActorRef) -> str:
        try:
            return str(await message.inspect("all", timeout=2.0))
        except AskTimeout as exc:
            return f"{exc}, {exc.timeout}"


@every_dispatcher
async def test_an_inspection_that_is_late_says_who_and_how_long(
    system: ActorSystem, clock: ManualClock, dispatcher: str
) -> None:
    busy = asyncio.Event()
    ref = system.spawn(Busy, name="busy", dispatcher=dispatcher)
    assert await ref.inspect("a", timeout=None) == {"items": ("a",)}
    ref.tell(system.spawn(lambda ctx, message: busy.set(), dispatcher="concurrent"))
    await busy.wait()
    looks = [asyncio.create_task(ref.inspect()), asyncio.create_task(ref.inspect(timeout=2.0))]
    patient = asyncio.create_task(ref.inspect(timeout=None))
    await asyncio.sleep(0)
    await clock.advance(1.9)
    assert not any(one.done() for one in looks)
    await clock.advance(0.1)
    with pytest.raises(AskTimeout, match=r"/busy within 2.0 s.*`timeout`") as caught:
        await looks[1]
    assert caught.value.ref == ref
    await clock.advance(2.9)
    assert not looks[0].done()
    await clock.advance(0.1)
    with pytest.raises(AskTimeout, match=r"/busy within 5.0 s"):
        await looks[0]
    assert len(ref._cell.waiting_orders()) == 1  # what nobody waits for is not kept
    patient.cancel()
    await asyncio.sleep(0)
    assert ref._cell.waiting_orders() == ()
    ref.kill()
    await ref.terminated()


@every_dispatcher
async def test_an_inspection_by_another_actor_has_a_deadline_too(
    system: ActorSystem, clock: ManualClock, dispatcher: str
) -> None:
    busy = asyncio.Event()
    ref = system.spawn(Busy, name="busy", dispatcher="concurrent")
    ref.tell(system.spawn(lambda ctx, message: busy.set(), dispatcher="concurrent"))
    await busy.wait()
    asked = system.spawn(Curious, dispatcher=dispatcher).ask(ref, timeout=None)
    while not asked.done():
        await clock.advance(1.0)
    answer = await asked
    assert "/busy within 2.0 s" in answer
    assert answer.endswith(", 2.0")
    ref.kill()
    await ref.terminated()


async def test_an_inspection_in_a_system_that_never_starts_has_its_deadline() -> None:
    system = ActorSystem()
    ref = system.spawn(Busy)
    with pytest.raises(AskTimeout) as caught:
        await ref.inspect(timeout=0.001)
    assert "has not been started" in caught.value.__notes__[0]
    assert ref.state is State.CREATED
    await system.shutdown()


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "soon"])
async def test_an_inspection_refuses_a_timeout_that_is_none(system: ActorSystem, timeout: Any) -> None:
    with pytest.raises(InvalidDelay):
        await system.spawn(Busy).inspect(timeout=timeout)
