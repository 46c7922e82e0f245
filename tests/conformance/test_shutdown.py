"""The end of a system: asked for anywhere, once, in time, with an exact account (case 59, M11)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    Context,
    ExitKind,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    State,
    SystemConfig,
    SystemFailed,
    SystemStopped,
)
from greenroom.errors import GreenroomError, NotStarted, WaitsForItself
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import Hooked, HookedAsync, Plain, PlainAsync, assert_is_a_life, raises

if TYPE_CHECKING:
    from tests.conftest import Play

PATIENCE = 15.0


class Counter:
    """Counts what an observer hears of the actors' ends."""

    def __init__(self) -> None:
        self.started = 0
        self.stopped: list[Any] = []

    def actor_started(self, ref: Any) -> None:
        self.started += 1

    def actor_stopped(self, ref: Any, reason: Any) -> None:
        self.stopped.append((ref, reason.kind))


def assert_ended_once(system: ActorSystem, actors: int, counter: Counter | None = None) -> None:
    report = system.report
    assert report is not None
    assert (report.started, report.terminated, report.forced) == (actors, actors, ())
    assert system.phase == "stopped"
    assert system.actors() == []
    assert_ledger_balanced(system)
    if counter is not None:
        assert len(counter.stopped) == len({ref for ref, _ in counter.stopped}) == actors


@pytest.mark.parametrize("kind", [Plain, PlainAsync, Hooked, HookedAsync])
def test_a_shutdown_stops_every_actor_and_says_how_many(play: Play, kind: Any) -> None:  # M11
    counter = Counter()

    async def program(system: ActorSystem) -> None:
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

    system = play(program, history=True)
    assert_ended_once(system, 20, counter)
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
def test_a_handler_may_ask_for_the_shutdown(play: Play, act: Callable[[Context], Any]) -> None:  # case 59
    log: list[str] = []

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(HookedAsync, log)
        ref.tell("before")
        asked = ref.ask(act, timeout=None)
        assert await asked == "asked"  # what is in hand comes to its end
        await system.stopped()

    assert_ended_once(play(program), 1)
    assert log[-2:] == ["pre_stop", "post_stop"]


@pytest.mark.parametrize("hook", ["pre_start", "post_start", "pre_stop", "post_stop"])
@pytest.mark.parametrize("act", [ask_for_it_sync, ask_for_it_async])
def test_a_hook_may_ask_for_the_shutdown(play: Play, hook: str, act: Callable[[Context], Any]) -> None:  # case 59
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(HookedAsync, None, **{hook: act})
        if "stop" in hook:
            ref.stop()
        await system.stopped()
        assert_is_a_life(ref.history)

    assert_ended_once(play(program, history=True), 1)


def test_an_actor_cannot_wait_for_its_own_system(play: Play) -> None:  # case 59
    async def program(system: ActorSystem) -> None:
        with pytest.raises(WaitsForItself):
            await system.spawn(HookedAsync).ask(lambda ctx: ctx.system.stopped())

    play(program)


def test_a_shutdown_asked_for_many_times_happens_once(play: Play) -> None:  # case 59
    counter = Counter()

    async def program(system: ActorSystem) -> None:
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

    assert_ended_once(play(program), 5, counter)


def test_a_shutdown_may_be_asked_for_by_many_threads(play: Play) -> None:  # case 59
    async def program(system: ActorSystem) -> None:
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

    assert_ended_once(play(program), 5)


def test_a_shutdown_may_be_given_up_and_goes_on_all_the_same(play: Play) -> None:  # case 59
    async def program(system: ActorSystem) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        system.spawn(HookedAsync, None, pre_stop=lambda _: gate)
        await system.settle()
        waiting = asyncio.ensure_future(system.shutdown())
        for _ in range(5):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert system.phase == "stopping"
        gate.set_result(None)
        await system.stopped()

    assert_ended_once(play(program), 1)


@pytest.mark.parametrize("kind", [Plain, PlainAsync])
def test_a_shutdown_ends_a_system_that_goes_on_spawning(play: Play, kind: Any) -> None:  # case 59
    refused: list[Exception] = []

    def multiply(ctx: Context) -> None:
        try:
            for _ in range(2):
                ctx.spawn(kind).tell(multiply)
                ctx.system.spawn(kind, name=None).tell("hello")
        except SystemStopped as exc:
            refused.append(exc)
        ctx.self.tell(multiply)

    async def program(system: ActorSystem) -> None:
        system.spawn(kind).tell(multiply)
        system.spawn(kind).tell(multiply)
        while len(system.actors()) < 200:  # noqa: ASYNC110 - nothing else tells when it has come so far
            await asyncio.sleep(0)
        await system.shutdown()

    system = play(program, max_actors_per_tick=8)
    assert system.report is not None
    assert_ended_once(system, system.report.started)
    assert system.report.started >= 200


@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
def test_nothing_can_be_spawned_while_a_system_stops(play: Play, hook: str) -> None:  # case 59, M11
    raised: list[BaseException] = []

    def spawn(ctx: Context) -> None:
        for where in (ctx, ctx.system):
            try:
                where.spawn(Plain)
            except SystemStopped as exc:
                raised.append(exc)

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Hooked, None, **{hook: spawn})
        await ref.started()

    assert_ended_once(play(program), 1)
    assert [type(exc).code for exc in raised] == ["system_stopped"] * 2  # type: ignore[attr-defined]


def test_a_system_that_has_stopped_takes_nothing_more(play: Play) -> None:  # M11
    refs: list[ActorRef[Any, Any]] = []

    async def program(system: ActorSystem) -> None:
        refs.append(system.spawn(Plain, name="one"))
        await system.shutdown()
        (ref,) = refs
        with pytest.raises(SystemStopped):
            system.spawn(Plain)
        with pytest.raises(SystemStopped):
            await asyncio.to_thread(system.spawn, Plain)
        ref.tell("told")
        await asyncio.to_thread(ref.tell, "told")
        await ref.send("sent")
        with pytest.raises(ActorTerminated):
            await ref.ask("asked", timeout=None)
        with pytest.raises(ActorTerminated):
            await asyncio.to_thread(ref.ask_sync, "asked", timeout=PATIENCE)
        for act in (ref.stop, ref.kill, lambda: ref.fail(ValueError()), lambda: ref.stop(after_queued=True)):
            act()
            await asyncio.to_thread(act)
        assert (await ref.terminated()).kind is ExitKind.SHUTDOWN
        with pytest.raises(ActorTerminated):
            await ref.started()
        with pytest.raises(GreenroomError):
            await ref.inspect()
        await system.settle()
        assert system.actor("one") is None
        assert system.actor(ref.id) is None
        assert system.dead_letters.count == 5
        assert system.ledger(ref).dead_lettered == system.ledger().dead_lettered == 5

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


def test_an_empty_system_shuts_down(play: Play) -> None:  # case 59
    async def program(system: ActorSystem) -> None:
        await system.shutdown()

    assert_ended_once(play(program), 0)
    assert_ended_once(play(lambda system: asyncio.sleep(0)), 0)


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


def test_ten_thousand_actors_with_full_mailboxes_end_with_an_exact_account(play: Play) -> None:  # M11, B4
    actors, room = 10_000, 3

    class Slow(Actor[int, int]):
        async def receive(self, message: int) -> int:
            await asyncio.sleep(0)
            return message

    async def program(system: ActorSystem) -> None:
        refs = [system.spawn(Slow, mailbox=MailboxConfig(capacity=room)) for _ in range(actors)]
        for ref in refs:
            for number in range(room):
                ref.tell(number)
        with pytest.raises(MailboxFull):
            refs[-1].tell(room)
        asked = [ref.ask(room, timeout=None) for ref in refs[:100]]
        sending = asyncio.ensure_future(refs[0].send(room))
        await asyncio.sleep(0)
        await system.shutdown()
        await sending
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(result, MailboxFull | ActorTerminated | int) for result in results)
        ledger = system.ledger()
        assert ledger.sent == actors * room + 1
        assert ledger.handled + ledger.failed + ledger.dead_lettered == ledger.sent
        assert ledger.failed == 0
        assert system.dead_letters.count == ledger.dead_lettered

    assert_ended_once(play(program), actors)


def test_no_message_goes_missing_when_threads_send_into_a_shutdown(play: Play) -> None:  # M11, B4
    sent: list[int] = []

    async def program(system: ActorSystem) -> None:
        refs = [system.spawn(kind, mailbox=MailboxConfig(capacity=8)) for kind in (Plain, PlainAsync) * 5]
        under_way, over = threading.Barrier(4), threading.Event()

        def flood() -> None:
            under_way.wait(PATIENCE)
            number = 0
            while not over.is_set() or number == 0:
                for ref in refs:
                    try:
                        ref.tell(number)
                        number += 1
                    except MailboxFull:
                        pass
            sent.append(number)

        floods = [asyncio.create_task(asyncio.to_thread(flood)) for _ in range(3)]
        await asyncio.to_thread(under_way.wait, PATIENCE)
        for _ in range(20):
            await asyncio.sleep(0)
        await system.shutdown()
        over.set()
        await asyncio.gather(*floods)

    system = play(program)
    assert system.ledger().sent == sum(sent)
    assert_ended_once(system, 10)


@pytest.mark.parametrize("kind", [Plain, PlainAsync])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_programs_ends_the_system_with_that_cause(play: Play, kind: Any, error: Any) -> None:  # M11
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
    assert play.system.report is not None
    assert play.system.report.cause is cause


def test_a_failure_of_the_program_itself_is_not_hidden_by_the_systems(play: Play) -> None:  # M11
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
def test_the_system_ends_with_its_root(play: Play, end: str) -> None:  # M11, M14
    async def program(system: ActorSystem) -> None:
        assert system.root is not None
        other = system.spawn(Hooked)
        system.root.tell(lambda _: Behaviors.stopped) if end == "behavior" else getattr(system.root, end)()
        await system.stopped()
        assert (await other.terminated()).kind is ExitKind.SHUTDOWN

    assert_ended_once(play(program, root=Hooked), 2)


def test_run_blocks_until_the_system_has_stopped_and_raises_its_failure() -> None:  # M11, J2
    ended = ActorSystem(root=Behaviors.setup(lambda ctx: Behaviors.receive(lambda _, message: Behaviors.stopped)))
    assert ended.root is not None
    ended.root.tell("stop")
    ended.run()
    assert_ended_once(ended, 1)

    failed = ActorSystem(root=Plain)
    assert failed.root is not None
    failed.root.tell(raises(ValueError("on purpose")))
    with pytest.raises(SystemFailed, match="on purpose"):
        failed.run()
    assert_ended_once(failed, 1)


def test_a_plain_with_reports_the_failure_too() -> None:  # M11
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


def test_the_first_cause_is_the_one_that_is_reported(play: Play) -> None:  # M11
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


def test_a_system_may_be_failed_from_another_thread(play: Play) -> None:  # M11, J5
    cause = ValueError("on purpose")

    async def program(system: ActorSystem) -> None:
        system.spawn(Hooked)
        await asyncio.to_thread(system.fail, cause)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_actors_that_wait_for_one_another_do_not_hold_up_a_shutdown(
    play: Play, timeout: float | None
) -> None:  # case 59
    class Link(Actor[Any, Any]):
        def __init__(self, after: ActorRef[Any, Any] | None) -> None:
            self.after = after

        async def receive(self, message: Any) -> Any:
            if self.after is None:
                return await asyncio.get_running_loop().create_future()
            return await self.after.ask(message, timeout=timeout)

    async def program(system: ActorSystem) -> None:
        last = ref = system.spawn(Link, None)
        for _ in range(5):
            ref = system.spawn(Link, ref)
        asked = ref.ask("hello", timeout=None)
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(system.shutdown())
        await asyncio.sleep(0)
        last.kill()  # the only one that really hangs
        await waiting
        with pytest.raises(ActorTerminated):
            await asked

    assert_ended_once(play(program), 6)


def test_pipes_and_timers_end_with_the_system(play: Play) -> None:  # case 59
    cancelled: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.append("pipe")

    def begin(ctx: Context) -> None:
        ctx.pipe_to_self(endless())
        ctx.send_every(0.001, ctx.self, "tick")
        ctx.timers.start("key", 100.0, "tock")
        ctx.set_receive_timeout(100.0)

    async def program(system: ActorSystem) -> None:
        await system.spawn(Plain).ask(begin)
        await asyncio.sleep(0)
        await system.shutdown()
        await asyncio.sleep(0)
        assert system.snapshot().timers == 0
        assert cancelled == ["pipe"]

    assert_ended_once(play(program), 1)


def test_an_actor_that_hears_of_dead_letters_does_not_hold_up_a_shutdown(play: Play) -> None:  # M10, M11
    async def program(system: ActorSystem) -> None:
        system.dead_letters.subscribe(system.spawn(PlainAsync, mailbox=MailboxConfig(capacity=2)))
        refs = [system.spawn(PlainAsync) for _ in range(10)]
        for ref in refs:
            for number in range(10):
                ref.tell(number)
        await system.shutdown()

    assert_ended_once(play(program), 11)


def test_the_log_has_the_totals(play: Play, caplog: pytest.LogCaptureFixture) -> None:  # M11
    async def program(system: ActorSystem) -> None:
        for _ in range(3):
            system.spawn(Plain)

    with caplog.at_level(logging.INFO, logger="greenroom"):
        play(program)
    last = caplog.records[-1]
    assert last.levelno == logging.INFO
    assert "3 actors started, 3 terminated, 0 forced" in last.getMessage()


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "soon", True])
def test_a_shutdown_needs_a_sensible_timeout(play: Play, timeout: Any) -> None:  # M11
    async def program(system: ActorSystem) -> None:
        with pytest.raises(ValueError, match="timeout"):
            await system.shutdown(timeout=timeout)
        assert system.phase == "running"
        assert await system.spawn(Plain).ask("still there") == "still there"

    play(program)


def test_time_spent_stopping_is_the_clocks(play: Play) -> None:  # M11
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        system.spawn(HookedAsync, None, pre_stop=lambda _: gate)
        await system.settle()
        waiting = asyncio.ensure_future(system.shutdown())
        for _ in range(5):
            await asyncio.sleep(0)
        await clock.advance(2.5)
        assert not waiting.done()
        gate.set_result(None)
        await waiting

    system = play(program, clock=clock)
    assert system.report is not None
    assert system.report.seconds == 2.5
