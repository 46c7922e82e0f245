"""The end of a system: asked for anywhere, once, in time, with an exact account (case 59, M11)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Context,
    ExitKind,
    ManualClock,
    State,
    SystemConfig,
    SystemStopped,
)
from greenroom.errors import GreenroomError, NotStarted, WaitsForItself
from tests.conformance.cast import FOREIGN
from tests.conformance.lives import Hooked, HookedAsync, Plain, PlainAsync, assert_ended_once, assert_is_a_life
from tests.gates import Gate, turns

if TYPE_CHECKING:
    from tests.conftest import Play

PATIENCE = 120.0


class Counter:
    """Counts what an observer hears of the actors' ends."""

    def __init__(self) -> None:
        self.started = 0
        self.stopped: list[Any] = []

    def actor_started(self, ref: Any) -> None:
        self.started += 1

    def actor_stopped(self, ref: Any, reason: Any) -> None:
        self.stopped.append((ref, reason.kind))

    def expect(self, actors: int) -> None:
        assert len(self.stopped) == len({ref for ref, _ in self.stopped}) == actors


@pytest.mark.parametrize("kind", [Plain, PlainAsync, Hooked, HookedAsync])
@pytest.mark.config(history=True)
async def test_a_shutdown_stops_every_actor_and_says_how_many(system: ActorSystem, kind: Any) -> None:  # M11
    counter = Counter()
    system.observers.add(counter)
    assert system.phase == "running"
    refs = [system.spawn(kind) for _ in range(10)]
    children = [system.spawn(kind, parent=ref) for ref in refs]
    await system.settle()
    assert system.report is None
    await system.shutdown()
    for ref in refs + children:
        assert (await ref.terminated()).kind is ExitKind.SHUTDOWN
        assert_is_a_life(ref.history)
    assert_ended_once(system, 20)
    counter.expect(20)
    assert counter.started == 20
    assert system.report is not None
    assert system.report.cause is None
    assert system.report.seconds >= 0.0


def ask_for_it_sync(ctx: Context) -> str:
    ctx.system.stop()
    return "asked"


async def ask_for_it_async(ctx: Context) -> str:
    await ctx.system.shutdown()
    return "asked"


async def ask_for_it_late(ctx: Context) -> str:
    await asyncio.sleep(0)
    await ctx.system.shutdown()
    await ctx.system.shutdown(timeout=1.0)
    ctx.system.stop()
    await asyncio.sleep(0)
    return "asked"


@pytest.mark.parametrize("act", [ask_for_it_sync, ask_for_it_async, ask_for_it_late])
async def test_a_handler_may_ask_for_the_shutdown(
    system: ActorSystem, act: Callable[[Context], Any]
) -> None:  # case 59
    log: list[str] = []
    ref = system.spawn(HookedAsync, log)
    ref.tell("before")
    asked = ref.ask(act, timeout=None)
    assert await asked == "asked"  # what is in hand comes to its end
    await system.stopped()
    assert_ended_once(system, 1)
    assert log[-2:] == ["pre_stop", "post_stop"]


@pytest.mark.parametrize("hook", ["pre_start", "post_start", "pre_stop", "post_stop"])
@pytest.mark.parametrize("act", [ask_for_it_sync, ask_for_it_async])
@pytest.mark.config(history=True)
async def test_a_hook_may_ask_for_the_shutdown(
    system: ActorSystem, hook: str, act: Callable[[Context], Any]
) -> None:  # case 59
    ref = system.spawn(HookedAsync, None, **{hook: act})
    if "stop" in hook:
        ref.stop()
    await system.stopped()
    assert_is_a_life(ref.history)
    assert_ended_once(system, 1)


async def test_an_actor_cannot_wait_for_its_own_system(system: ActorSystem) -> None:  # case 59
    with pytest.raises(WaitsForItself):
        await system.spawn(HookedAsync).ask(lambda ctx: ctx.system.stopped())


async def test_a_shutdown_asked_for_many_times_happens_once(system: ActorSystem) -> None:  # case 59
    counter = Counter()
    system.observers.add(counter)
    for _ in range(5):
        system.spawn(HookedAsync)
    system.stop()
    await asyncio.gather(*(system.shutdown() for _ in range(5)), system.stopped())
    report = system.report
    await system.shutdown()
    system.stop()
    await system.stopped()
    assert system.report is report
    assert_ended_once(system, 5)
    counter.expect(5)


@pytest.mark.real
async def test_a_shutdown_may_be_asked_for_by_many_threads(system: ActorSystem) -> None:  # case 59
    for _ in range(5):
        system.spawn(HookedAsync)
    await system.settle()
    barrier = threading.Barrier(4)

    def shut_down() -> None:
        barrier.wait(PATIENCE)
        asyncio.run(system.shutdown())
        system.stop()
        asyncio.run(system.stopped())

    await asyncio.gather(*(asyncio.to_thread(shut_down) for _ in range(4)))
    assert system.phase == "stopped"
    await system.shutdown()
    assert_ended_once(system, 5)


async def test_a_shutdown_may_be_given_up_and_goes_on_all_the_same(system: ActorSystem) -> None:  # case 59
    gate = Gate()
    system.spawn(HookedAsync, None, pre_stop=lambda _: gate)
    await system.settle()
    waiting = asyncio.ensure_future(system.shutdown())
    await turns(5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert system.phase == "stopping"
    gate.set_result(None)
    await system.stopped()
    assert_ended_once(system, 1)


@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
async def test_nothing_can_be_spawned_while_a_system_stops(system: ActorSystem, hook: str) -> None:  # case 59, M11
    raised: list[BaseException] = []

    def spawn(ctx: Context) -> None:
        for where in (ctx, ctx.system):
            try:
                where.spawn(Plain)
            except SystemStopped as exc:
                raised.append(exc)

    ref = system.spawn(Hooked, None, **{hook: spawn})
    await ref.started()
    await system.shutdown()
    assert_ended_once(system, 1)
    assert [type(exc).code for exc in raised] == ["system_stopped"] * 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_system_that_has_stopped_takes_nothing_more(play: Play, foreign: bool) -> None:  # M11
    refs: list[ActorRef[Any, Any]] = []

    async def program(system: ActorSystem) -> None:
        refs.append(system.spawn(Plain, name="one"))
        await system.shutdown()
        (ref,) = refs
        with pytest.raises(SystemStopped):
            system.spawn(Plain)
        ref.tell("told")
        await ref.send("sent")
        with pytest.raises(ActorTerminated):
            await ref.ask("asked", timeout=None)
        orders = (ref.stop, ref.kill, lambda: ref.fail(ValueError()), lambda: ref.stop(after_queued=True))
        for order in orders:
            order()
        if foreign:
            with pytest.raises(SystemStopped):
                await asyncio.to_thread(system.spawn, Plain)
            await asyncio.to_thread(ref.tell, "told")
            with pytest.raises(ActorTerminated):
                await asyncio.to_thread(ref.ask_sync, "asked", timeout=PATIENCE)
            for order in orders:
                await asyncio.to_thread(order)
        assert (await ref.terminated()).kind is ExitKind.SHUTDOWN
        with pytest.raises(ActorTerminated):
            await ref.started()
        with pytest.raises(GreenroomError):
            await ref.inspect()
        await system.settle()
        assert system.actor("one") is None
        assert system.actor(ref.id) is None
        dead = 5 if foreign else 3
        assert system.dead_letters.count == dead
        assert system.ledger(ref).dead_lettered == system.ledger().dead_lettered == dead

    assert_ended_once(play(program), 1)
    system = play.system
    assert system is not None
    with pytest.raises(SystemStopped):
        asyncio.run(system.__aenter__())
    with pytest.raises(SystemStopped):
        system.__enter__()
    with pytest.raises(SystemStopped):
        system.run()


def test_a_system_may_be_shut_down_before_it_has_begun(play: Play) -> None:  # case 59
    ran: list[str] = []

    async def main() -> None:
        system = ActorSystem(config=SystemConfig(history=True))
        ref = system.spawn(Hooked, ran, init=lambda _: ran.append("init"))
        child = system.spawn(Hooked, ran, parent=ref)
        ref.tell("told")
        asked = child.ask("asked", timeout=None)
        await system.shutdown()
        await system.shutdown()
        with pytest.raises(ActorTerminated):
            await asked
        assert_ended_once(system, 2)
        assert system.ledger().dead_lettered == 2
        assert ref.history == child.history == (State.CREATED, State.TERMINATED)
        with pytest.raises(SystemStopped):
            system.spawn(Plain)
        with pytest.raises(SystemStopped):
            async with system:
                pass

    play.bare(main)
    assert ran == []


@pytest.mark.parametrize("how", [ActorSystem.shutdown, lambda system: asyncio.sleep(0)], ids=["asked", "at the end"])
def test_an_empty_system_shuts_down(play: Play, how: Any) -> None:  # case 59
    assert_ended_once(play(how), 0)


def test_close_is_for_programs_without_asyncio() -> None:  # M11
    system = ActorSystem()
    with pytest.raises(NotStarted):
        system.close()
    with system:
        refs = [system.spawn(HookedAsync) for _ in range(5)]
        refs[0].tell(lambda ctx: ctx.system.stop())
        system.close()
        system.close()
    assert_ended_once(system, 5)
    with pytest.raises(SystemStopped):
        system.spawn(Plain)


async def test_the_log_has_the_totals(system: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:  # M11
    with caplog.at_level(logging.INFO, logger="greenroom"):
        for _ in range(3):
            system.spawn(Plain)
        await system.shutdown()
    last = caplog.records[-1]
    assert last.levelno == logging.INFO
    assert "3 actors started, 3 terminated, 0 forced" in last.getMessage()


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "soon", True])
async def test_a_shutdown_needs_a_sensible_timeout(system: ActorSystem, timeout: Any) -> None:  # M11
    with pytest.raises(ValueError, match="timeout"):
        await system.shutdown(timeout=timeout)
    assert system.phase == "running"
    assert await system.spawn(Plain).ask("still there") == "still there"


async def test_time_spent_stopping_is_the_clocks(system: ActorSystem, clock: ManualClock) -> None:  # M11
    gate = Gate()
    system.spawn(HookedAsync, None, pre_stop=lambda _: gate)
    await system.settle()
    waiting = asyncio.ensure_future(system.shutdown())
    await turns(5)
    await clock.advance(2.5)
    assert not waiting.done()
    gate.set_result(None)
    await waiting
    await system.shutdown()
    assert system.report is not None
    assert system.report.seconds == 2.5
