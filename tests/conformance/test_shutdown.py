"""The end of a system: its phases, its report, and its cause (M11)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    Context,
    DeathPact,
    Directive,
    ExitKind,
    ExitReason,
    ManualClock,
    State,
    Supervision,
    SystemConfig,
    SystemFailed,
    SystemStopped,
)
from greenroom.errors import GreenroomError, NotStarted, WaitsForItself
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import (
    Hooked,
    HookedAsync,
    Plain,
    PlainAsync,
    assert_ended_once,
    assert_is_a_life,
    ended,
    every_hooked,
    raises,
    report_of,
)
from tests.conformance.sending import FOREIGN, until
from tests.conftest import Play
from tests.gates import Gate, turns

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
async def test_a_shutdown_stops_every_actor_and_says_how_many(system: ActorSystem, kind: Any) -> None:  # case 59, M11
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
async def test_a_handler_may_ask_for_the_shutdown(system: ActorSystem, act: Callable[[Context], Any]) -> None:
    # case 59
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
async def test_a_hook_may_ask_for_the_shutdown(system: ActorSystem, hook: str, act: Callable[[Context], Any]) -> None:
    # case 59
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
def test_a_system_that_has_stopped_takes_nothing_more(play: Play, foreign: bool) -> None:  # case 59, M11
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


def test_close_is_for_programs_without_asyncio() -> None:  # case 59, M11
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


async def test_the_log_has_the_totals(system: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:  # case 59, M11
    with caplog.at_level(logging.INFO, logger="greenroom"):
        for _ in range(3):
            system.spawn(Plain)
        await system.shutdown()
    last = caplog.records[-1]
    assert last.levelno == logging.INFO
    assert "3 actors started, 3 terminated, 0 forced" in last.getMessage()


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "soon", True])
async def test_a_shutdown_needs_a_sensible_timeout(system: ActorSystem, timeout: Any) -> None:  # case 59, M11
    with pytest.raises(ValueError, match="timeout"):
        await system.shutdown(timeout=timeout)
    assert system.phase == "running"
    assert await system.spawn(Plain).ask("still there") == "still there"


async def test_time_spent_stopping_is_the_clocks(system: ActorSystem, clock: ManualClock) -> None:  # case 59, M11
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
    assert report_of(system).seconds == 2.5


@pytest.mark.parametrize("kind", [Plain, PlainAsync])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_programs_ends_the_system_with_that_cause(play: Play, kind: Any, error: Any) -> None:  # M11, M14
    cause = error("on purpose")

    async def program(system: ActorSystem) -> None:
        system.spawn(Hooked)
        ref = system.spawn(kind)
        asked = ref.ask(raises(cause), timeout=None)
        ref.tell("queued")
        with pytest.raises(ActorTerminated):
            await asked
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is cause
    assert caught.value.code == "system_failed"
    assert play.raised == []
    assert play.system is not None
    assert_ended_once(play.system, 2)
    ledger = play.system.ledger()
    assert (ledger.failed, ledger.dead_lettered) == (1, 1)
    assert report_of(play.system).cause is cause


def test_a_failure_of_the_program_itself_is_not_hidden_by_the_systems(play: Play) -> None:  # M11, M14
    async def program(system: ActorSystem) -> None:
        system.fail(ValueError("the system's"))
        raise LookupError("the program's")

    with pytest.raises(LookupError):
        play(program)
    assert play.system is not None
    assert_ended_once(play.system, 0)


@pytest.mark.parametrize("step", ["init", "pre_start", "post_start", "receive"])
def test_a_failing_root_ends_the_system_with_its_cause(play: Play, step: str) -> None:  # M11, M14
    cause = ValueError("on purpose")
    act = raises(cause)

    def make() -> Actor[Any, Any]:
        return Hooked(None, **{step: act})

    async def program(system: ActorSystem) -> None:
        assert system.root is not None
        system.spawn(Hooked)
        system.root.tell(act)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program, root=make)
    assert caught.value.__cause__ is cause
    assert play.system is not None
    assert_ended_once(play.system, 2)


@pytest.mark.parametrize("end", ["stop", "kill", "behavior"])
@pytest.mark.config(root=Hooked)
async def test_the_system_ends_with_its_root(system: ActorSystem, end: str) -> None:  # M11, M14
    assert system.root is not None
    other = system.spawn(Hooked)
    system.root.tell(lambda _: Behaviors.stopped) if end == "behavior" else getattr(system.root, end)()
    await system.stopped()
    assert (await other.terminated()).kind is ExitKind.SHUTDOWN
    assert_ended_once(system, 2)


def test_run_blocks_until_the_system_has_stopped_and_raises_its_failure() -> None:  # J2, M11, M14
    ended = ActorSystem(root=Behaviors.setup(lambda ctx: Behaviors.receive(lambda _, message: Behaviors.stopped)))
    assert ended.root is not None
    ended.root.tell("stop")
    ended.run()
    assert_ended_once(ended, 1)

    failed = ActorSystem(root=Plain, config=SystemConfig(supervision=Supervision(Directive.STOP)))
    assert failed.root is not None
    failed.root.tell(raises(ValueError("on purpose")))
    with pytest.raises(SystemFailed, match="on purpose"):
        failed.run()
    assert_ended_once(failed, 1)


def test_a_plain_with_reports_the_failure_too() -> None:  # M11, M14
    cause = KeyboardInterrupt("on purpose")
    system = ActorSystem()

    def run() -> None:
        with system:
            system.spawn(Plain).tell(raises(cause))
            while system.phase != "stopped":
                threading.Event().wait(0.001)

    with pytest.raises(SystemFailed) as caught:
        run()
    assert caught.value.__cause__ is cause


def test_the_first_cause_is_the_one_that_is_reported(play: Play) -> None:  # M11, M14
    first = KeyboardInterrupt("first")

    async def program(system: ActorSystem) -> None:
        system.spawn(Hooked, None, post_stop=raises(SystemExit("second")))
        other = system.spawn(Hooked)
        await system.settle()
        other.tell(raises(first))
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is first


@pytest.mark.real
def test_a_system_may_be_failed_from_another_thread(play: Play) -> None:  # J5, M11, M14
    cause = ValueError("on purpose")

    async def program(system: ActorSystem) -> None:
        system.spawn(Hooked)
        await asyncio.to_thread(system.fail, cause)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("act", ["stop", "fail"])
def test_a_system_that_runs_elsewhere_can_be_ended_from_here(act: str) -> None:  # M14, M11, J2: it wakes up for that
    cause = ValueError("on purpose")
    system = ActorSystem()
    outcome: list[BaseException | None] = []
    started = threading.Event()

    def run() -> None:
        try:
            system.run()
            outcome.append(None)
        except SystemFailed as exc:
            outcome.append(exc.__cause__)

    system.spawn(Hooked, None, post_start=lambda _: started.set())
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    system.stop() if act == "stop" else system.fail(cause)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert outcome == [None if act == "stop" else cause]
    assert_ended_once(system, 1)


def test_a_system_does_not_outlive_its_asyncio_loop(play: Play) -> None:  # M14, case 59: it ends
    systems: list[ActorSystem] = []
    left: list[str] = []

    async def endless(ctx: Context, message: Any) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            left.append("the handler")

    async def main() -> None:
        async with asyncio.timeout(None) as limit, ActorSystem() as system:
            systems.append(system)
            ref = system.spawn(endless, name="endless")
            ref.tell("in hand")
            ref.tell("queued")
            await until(lambda: system.ledger(ref).in_hand)
            limit.reschedule(asyncio.get_running_loop().time() + 0.05)

    with pytest.raises(TimeoutError):
        play.bare(main)
    (system,) = systems
    assert left == ["the handler"]
    assert system.phase == "stopped"
    assert report_of(system).forced == ("/endless",)
    ledger = assert_ledger_balanced(system)
    assert ledger.queued == ledger.in_hand == 0


class Unspeakable(Exception):
    """What it is cannot be said."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@every_hooked
@pytest.mark.parametrize("step", ["init", "pre_start", "receive"])
async def test_an_exception_that_cannot_be_shown_strands_nobody(system: ActorSystem, kind: Any, step: str) -> None:
    # M3, M8
    cause = Unspeakable()
    probe = TestProbe(system)
    parent = system.spawn(Hooked)
    acts = {} if step == "receive" else {step: raises(cause)}
    ref = system.spawn(kind, None, name="one", parent=parent, **acts)
    await probe.watch(ref)
    waiting = asyncio.ensure_future(ref.terminated())
    replies: list[Any] = []
    asks = [ref.ask(lambda ctx: replies.append(ctx.defer_reply()), timeout=None)]
    ref.tell(raises(cause))
    asks.append(ref.ask("queued", timeout=None))
    assert (await ended(system, ref)).cause is cause
    notice = await probe.expect_terminated(ref)
    assert notice.cause is cause
    async with asyncio.timeout(120.0):
        assert (await waiting).cause is cause
        for asked in asks:
            with pytest.raises(ActorTerminated):
                await asked
    assert_ledger_balanced(system, ref)
    parent.stop()
    await ended(system, parent)


def test_a_system_that_ends_so_says_so(play: Play) -> None:  # M11, M3, M8
    cause = Unspeakable()

    async def program(system: ActorSystem) -> None:
        assert system.root is not None
        system.root.tell(raises(cause))
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program, root=Plain)
    assert caught.value.__cause__ is cause


async def test_a_pact_of_death_with_such_a_one_is_kept(system: ActorSystem) -> None:  # M3, M8
    cause = Unspeakable()
    one, other = system.spawn(Plain), system.spawn(Plain)
    await one.ask(lambda ctx: ctx.watch(other))
    other.fail(cause)
    reason = await ended(system, one)
    assert isinstance(reason.cause, DeathPact)
    assert reason.cause.__cause__ is cause


def test_an_exit_reason_can_always_be_shown() -> None:  # J9, M3, M8
    assert "Unspeakable" in str(ExitReason.of(Unspeakable()))
