"""A restart and those around it: children, parents, siblings, watchers, askers (M6)."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Backoff,
    Behavior,
    Behaviors,
    ChildSpec,
    Context,
    CountChildren,
    Directive,
    Down,
    ExitKind,
    ManualClock,
    MonotonicClock,
    ReceiveTimeout,
    Restart,
    Scope,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
    errors,
)
from greenroom.errors import HandlerBroken, MessageDropped, SettleTimeout
from greenroom.exits import KILLED
from tests.conformance.lives import (
    AT_ONCE,
    BAD,
    CLEARING,
    AsyncPhoenix,
    Book,
    Gate,
    Phoenix,
    Plain,
    Ref,
    assert_legal,
    ended,
    every_phoenix,
    raises,
    report_of,
    runs,
    slow,
    soon,
)
from tests.conformance.sending import outcome, until
from tests.conftest import Play
from tests.gates import turns
from tests.supervision.children import Panic, by_name, child_of, supervise

RESUME = Supervision(Directive.RESUME)
STOP = Supervision(Directive.STOP)


def records(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "greenroom"]


# -- a start that fails and is handed up to somebody who goes on


@every_phoenix
async def test_a_failed_start_that_a_parent_resumes_waits_counts_and_comes_to_an_end(
    system: ActorSystem, clock: ManualClock, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:  # M7, cases 30 and 41
    book = Book(pre_start=raises(BAD))
    up = Supervision(Directive.ESCALATE, max_restarts=3, within=5.0, backoff=Backoff(min=1.0, max=1.0))
    with caplog.at_level(logging.INFO, logger="greenroom"):
        parent: Ref = system.spawn(Plain, supervision=RESUME)
        ref: Ref = system.spawn(kind, book, parent=parent, supervision=up)
        await soon(system, clock.advance(0.0))
        for lives in (1, 2, 3):
            assert (book.lives, ref.state, parent.state) == (lives, State.RESTARTING, State.RUNNING)
            await clock.advance(0.75)
            assert book.lives == lives
            await clock.advance(0.25)
        reason = await ended(system, ref)
        assert (reason.kind, reason.cause) == (ExitKind.FAIL, BAD)
        await clock.advance(100.0)
        assert book.lives == 4
        assert await soon(system, parent.ask("there", timeout=None)) == "there"
        assert system.snapshot().timers == 0
        await system.shutdown()
    assert len(records(caplog)) <= 20


async def test_a_start_that_fails_once_and_is_resumed_above_is_no_end(system: ActorSystem, clock: ManualClock) -> None:
    # M7, case 41
    book = Book()
    book.acts["pre_start 1"] = raises(BAD)
    up = Supervision(Directive.ESCALATE, backoff=Backoff(min=1.0, max=1.0))
    parent: Ref = system.spawn(Plain, supervision=RESUME)
    ref: Ref = system.spawn(Phoenix, book, parent=parent, supervision=up)
    ref.tell("queued")
    await clock.advance(0.5)
    assert (book.lives, ref.state) == (1, State.RESTARTING)
    await clock.advance(0.5)
    assert (book.lives, ref.state, book.heard) == (2, State.RUNNING, ["queued"])


async def test_a_limit_that_is_handed_up_to_a_parent_that_resumes_is_kept_all_the_same(
    system: ActorSystem, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:  # M7, cases 30 and 41
    book = Book(pre_start=raises(BAD))
    with caplog.at_level(logging.INFO, logger="greenroom"):
        supervision = Supervision(Directive.RESUME, on_limit=Directive.ESCALATE)
        parent: Ref = system.spawn(Plain, supervision=supervision)
        ref: Ref = await parent.ask(lambda ctx: ctx.spawn(Phoenix, book))  # it has its parent's
        await soon(system, clock.advance(10.0))
        assert (await ended(system, ref)).cause is BAD
        assert book.lives == 4
        assert runs(parent)
        await system.shutdown()
    assert len(records(caplog)) <= 20


# -- snapshots


async def begin(system: ActorSystem, kind: Any, book: Book, supervised: bool) -> Ref:
    """A running actor, on its own or as the child of a supervisor; restarted at once and without limit."""
    if not supervised:
        ref: Ref = system.spawn(kind, book, supervision=AT_ONCE)
        await ref.started()
        return ref
    return await child_of(await supervise(system, [ChildSpec("a", kind, (book,))], intensity=None), "a")


by_whom = pytest.mark.parametrize("supervised", [False, True], ids=["plain", "by a supervisor"])


@every_phoenix
@by_whom
@pytest.mark.parametrize("failures", [1, 3])
async def test_a_snapshot_outlives_starts_that_fail_before_it_is_restored(
    system: ActorSystem, failures: int, supervised: bool, kind: Any
) -> None:  # M7, M6, decision 014
    book = Book()
    for number in range(failures):
        book.acts[f"pre_start {number + 2}"] = raises(BAD)
    ref = await begin(system, kind, book, supervised)
    ref.tell(BAD)
    assert await soon(system, ref.ask(lambda me: me.number, timeout=None)) == failures + 2
    assert [line for line in book.log if line.startswith("restore")] == [f"restore {failures + 2}"]
    assert book.actors[-1].state == "state of 1"
    assert [line for line in book.log if line.startswith("snapshot")] == ["snapshot 1"]
    ref.tell(BAD)  # and the next has one of its own
    assert await soon(system, ref.ask(lambda me: me.state, timeout=None)) == f"state of {failures + 2}"


@every_phoenix
@by_whom
async def test_a_snapshot_that_could_not_be_restored_is_not_tried_again(
    system: ActorSystem, supervised: bool, kind: Any
) -> None:  # M7, M6, decision 014
    book = Book()
    book.acts["pre_start 2"] = book.acts["restore 3"] = book.acts["pre_start 4"] = raises(BAD)
    ref = await begin(system, kind, book, supervised)
    ref.tell(BAD)
    assert await soon(system, ref.ask(lambda me: me.number, timeout=None)) == 5
    assert [line for line in book.log if line.startswith("restore")] == ["restore 3"]


# -- whose Supervision it is


def obey(ctx: Context, message: Any) -> Any:
    """Raise what can be raised, do what can be done."""
    if isinstance(message, BaseException):
        raise message.with_traceback(None)
    return message(ctx) if callable(message) else message


class Starts:
    """Counts the starts of a behavior."""

    def __init__(self, behavior: Callable[[int], Behavior] = lambda number: Behaviors.receive(obey)) -> None:
        self.count = 0
        self._behavior = behavior

    def behavior(self) -> Behavior:
        def begin(ctx: Context) -> Behavior:
            self.count += 1
            return self._behavior(self.count)

        return Behaviors.setup(begin)


def turn_into(supervision: Supervision) -> Callable[[Context], Any]:
    """A message that makes another behavior of its actor, with a Supervision of its own."""
    return lambda ctx: Behaviors.supervise(Behaviors.receive(obey), supervision)


async def test_the_supervision_of_a_behavior_ends_with_its_incarnation(system: ActorSystem) -> None:  # M7, M13
    starts = Starts()
    ref: Ref = system.spawn(starts.behavior(), supervision=RESUME)
    ref.tell(BAD)
    assert await ref.ask("kept") == "kept"
    assert starts.count == 1
    ref.tell(turn_into(CLEARING))
    ref.tell(BAD)
    cleared = ref.ask("cleared", timeout=None)
    assert isinstance(await soon(system, outcome(cleared)), MessageDropped)
    await system.settle()
    assert starts.count == 2
    ref.tell(BAD)  # the spawn's own word again
    assert await soon(system, outcome(ref.ask("kept", timeout=None))) == "kept"
    assert starts.count == 2
    ref.tell(turn_into(STOP))
    await system.settle()
    ref.restart()
    ref.tell(BAD)
    assert await soon(system, outcome(ref.ask("kept", timeout=None))) == "kept"
    assert starts.count == 3


async def test_the_supervision_of_an_initial_behavior_holds_in_every_incarnation(system: ActorSystem) -> None:
    # M7, M13
    starts = Starts()
    ref: Ref = system.spawn(Behaviors.supervise(starts.behavior(), CLEARING), supervision=STOP)
    for number in range(2, 5):
        ref.tell(BAD)
        cleared = ref.ask("cleared", timeout=None)
        assert isinstance(await soon(system, outcome(cleared)), MessageDropped)
        assert await soon(system, ref.ask("there", timeout=None)) == "there"
        assert starts.count == number
    ref.tell(turn_into(RESUME))
    ref.tell(BAD)
    assert await soon(system, ref.ask("kept", timeout=None)) == "kept"
    assert starts.count == 4
    ref.restart()
    assert await soon(system, ref.ask("there", timeout=None)) == "there"
    ref.tell(BAD)
    cleared = ref.ask("cleared", timeout=None)
    assert isinstance(await soon(system, outcome(cleared)), MessageDropped)
    assert await soon(system, ref.ask("there", timeout=None)) == "there"
    assert starts.count == 6


async def test_a_start_that_fails_before_the_behavior_speaks_is_under_the_spawns_supervision(
    system: ActorSystem,
) -> None:  # M7, M13
    def behavior(number: int) -> Behavior:
        if number == 2:
            raise BAD.with_traceback(None)
        return Behaviors.supervise(Behaviors.receive(obey), AT_ONCE)

    starts = Starts(behavior)
    ref: Ref = system.spawn(starts.behavior(), supervision=STOP)
    ref.tell(BAD)
    assert (await ended(system, ref)).cause is BAD
    assert starts.count == 2


async def test_the_limit_in_force_is_that_of_the_present_supervision(system: ActorSystem) -> None:  # M7, M13, case 30
    def behavior(number: int) -> Behavior:
        if number == 1:
            raise BAD.with_traceback(None)
        return Behaviors.supervise(Behaviors.receive(obey), AT_ONCE)

    starts = Starts(behavior)
    ref: Ref = system.spawn(starts.behavior(), supervision=Supervision(max_restarts=1, within=60.0, backoff=None))
    for _ in range(6):
        ref.tell(BAD)
    assert await soon(system, ref.ask("there", timeout=None)) == "there"
    assert starts.count == 8

    starts = Starts()
    ref = system.spawn(starts.behavior(), supervision=AT_ONCE)
    ref.tell(BAD)
    ref.tell(turn_into(Supervision(max_restarts=0, backoff=None)))
    ref.tell(BAD)
    assert (await ended(system, ref)).cause is BAD
    assert starts.count == 2


# -- strategies that cannot decide, and asks that were cleared


def test_a_strategy_that_would_have_to_be_awaited_escalates_and_leaves_nothing_behind(play: Play) -> None:  # M7, 41
    cause = LookupError("on purpose")

    async def decide(_: BaseException) -> Directive:
        return Directive.STOP

    async def program(system: ActorSystem) -> None:
        strategy: Any = decide
        parent: Ref = system.spawn(Plain, supervision=RESUME)
        ref: Ref = system.spawn(Plain, parent=parent, supervision=Supervision(strategy))
        ref.tell(raises(cause))
        assert await soon(system, ref.ask("there", timeout=None)) == "there"
        assert any("could not decide" in note and "decide" in note for note in cause.__notes__)
        assert any("escalated by" in note for note in cause.__notes__)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(program)
    assert [str(one.message) for one in caught if issubclass(one.category, RuntimeWarning)] == []


@every_phoenix
@pytest.mark.parametrize("stashed", [False, True], ids=["queued", "stashed"])
@pytest.mark.config(supervision=CLEARING)
async def test_who_asked_what_a_restart_cleared_is_told_so(system: ActorSystem, stashed: bool, kind: Any) -> None:
    # case 46, M6, M7
    ref: Ref = system.spawn(kind, Book())
    await ref.started()
    asked = ref.ask(lambda me: me.ctx.stash(), timeout=None) if stashed else None
    ref.tell(BAD)
    if asked is None:
        asked = ref.ask("cleared", timeout=None)
    with pytest.raises(MessageDropped, match="cleared by a restart") as caught:
        await soon(system, asked)
    assert caught.value.ref == ref
    assert "policy" not in str(caught.value)
    assert await soon(system, ref.ask("there", timeout=None)) == "there"


STOP_TIMEOUT = 3.0


# -- settle()


@pytest.mark.parametrize("supervised", [False, True], ids=["plain", "by a supervisor"])
@pytest.mark.config(clock=MonotonicClock())
async def test_settle_waits_for_what_is_queued_behind_a_restart_and_for_no_other_restart(
    play: Play, system: ActorSystem, supervised: bool
) -> None:  # M6
    book = Book()
    resting: Ref = system.spawn(Phoenix, Book(), supervision=slow(60.0))
    resting.tell(BAD)
    ref: Ref
    if supervised:
        child = ChildSpec("a", Phoenix, (book,), backoff=Backoff(min=0.02, max=0.02))
        ref = await child_of(await supervise(system, [child], intensity=None), "a")
    else:
        ref = system.spawn(Phoenix, book, supervision=slow(0.02, max_restarts=None))
    for message in ("first", BAD, "second", BAD, "third"):
        ref.tell(message)
    await system.settle()
    assert book.heard == ["first", "second", "third"]
    assert (book.lives, ref.state, resting.state) == (3, State.RUNNING, State.RESTARTING)
    if play.backend != "spread":  # to look at another loop takes time
        await system.settle(timeout=0.0)
    assert system.ledger().queued == 0


@pytest.mark.config(clock=MonotonicClock())
async def test_settle_that_waits_too_long_for_a_restart_says_whose(system: ActorSystem) -> None:  # M6
    system.spawn(Phoenix, Book(), name="idle", supervision=slow(60.0)).tell(BAD)
    await system.settle()
    ref: Ref = system.spawn(Phoenix, Book(), name="slow", supervision=slow(60.0))
    ref.tell(BAD)
    ref.tell("queued")
    with pytest.raises(SettleTimeout) as caught:
        await system.settle(timeout=0.05)
    assert "/slow" in str(caught.value)
    assert "/slow" in caught.value.busy
    assert "/idle" not in caught.value.busy
    ref.restart()
    await system.settle()
    assert runs(ref)


@pytest.mark.parametrize("how", ["stop", "kill", "restart"])
@pytest.mark.config(clock=MonotonicClock())
async def test_settle_goes_on_when_the_restart_that_it_waits_for_is_given_up_or_comes_sooner(
    system: ActorSystem, how: str
) -> None:  # M6
    ref: Ref = system.spawn(Phoenix, Book(), supervision=slow(60.0))
    ref.tell(BAD)
    ref.tell("queued")
    settling = asyncio.ensure_future(system.settle())
    await until(lambda: ref.state is State.RESTARTING)
    await turns(20)
    assert not settling.done()
    getattr(ref, how)()
    await soon(system, settling)
    assert ref.state is (State.RUNNING if how == "restart" else State.TERMINATED)


async def test_settle_does_not_wait_for_a_clock_that_stands_still(system: ActorSystem, clock: ManualClock) -> None:
    # M6
    book = Book()
    ref: Ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    ref.tell(BAD)
    ref.tell("queued")
    await soon(system, system.settle())
    assert (ref.state, book.heard) == (State.RESTARTING, [])
    await clock.advance(1.0)
    assert (ref.state, book.heard) == (State.RUNNING, ["queued"])


# -- receive timeouts that floating point rounds


class Watchful(ManualClock):
    """Notices that it is read again and again at one moment; then it creeps on, for nobody else would get a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[float, int] = {}
        self.stuck: set[float] = set()

    def now(self) -> float:
        moment = super().now()
        self.reads[moment] = reads = self.reads.get(moment, 0) + 1
        if reads > 10_000:
            self.stuck.add(moment)
            return moment + 1e-6
        return moment


@pytest.mark.parametrize("by", ["setting", "message"])
def test_a_receive_timeout_comes_once_whatever_its_time_is_rounded_to(play: Play, by: str) -> None:  # M6, J11
    tenths = [number / 10 for number in range(1, 21)]
    came: list[tuple[float, float, float]] = []

    class Silent(Actor[Any, Any]):
        def __init__(self, start: float, seconds: float) -> None:
            self.start, self.seconds = start, seconds

        def receive(self, message: Any) -> None:
            if message == ReceiveTimeout():
                came.append((self.start, self.seconds, self.ctx.now()))
                self.ctx.set_receive_timeout(None)
            elif message == "set":
                self.ctx.set_receive_timeout(self.seconds)

    for start in tenths:
        clock = Watchful()

        async def program(system: ActorSystem, start: float = start, clock: Watchful = clock) -> None:
            # By a message, the timeout has begun before, and begins anew.
            waits = tenths if by == "setting" else [seconds for seconds in tenths if seconds > start]
            refs: list[Ref] = [system.spawn(Silent, start, seconds) for seconds in waits]
            if by == "message":
                for ref in refs:
                    ref.tell("set")
            await clock.advance(start)
            for ref in refs:
                ref.tell("set" if by == "setting" else "hello")
            await clock.advance(5.0)
            assert clock.stuck == set()
            assert [seconds for _, seconds, _ in came] == waits
            for begun, seconds, moment in came:
                assert moment == pytest.approx(begun + seconds, abs=1e-9)
            came.clear()

        play(program, clock=clock)


# -- handlers that were broken off


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_who_asked_what_was_broken_off_for_a_restart_is_told_so_and_of_no_end(
    system: ActorSystem, clock: ManualClock, stubborn: bool
) -> None:  # M6, case 26
    ref: Ref = system.spawn(AsyncPhoenix, Book())
    gate = Gate(stubborn)
    asked = ref.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    ref.restart()
    await clock.advance(STOP_TIMEOUT + 2.0)
    error = await soon(system, outcome(asked))
    gate.opened.set()
    assert isinstance(error, errors.HandlerBroken), error
    assert (error.code, error.ref) == ("handler_broken", ref)
    if not stubborn:
        assert isinstance(error.__cause__, asyncio.CancelledError)
    assert runs(ref)
    assert await soon(system, ref.ask("there", timeout=None)) == "there"


CAUSES: list[BaseException] = [Panic("on purpose"), asyncio.CancelledError("on purpose"), GeneratorExit("on purpose")]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: type(cause).__name__)
@pytest.mark.parametrize("kind", [Phoenix, AsyncPhoenix], ids=["sync", "async"])
async def test_what_is_no_exception_reaches_an_asker_wrapped_and_as_an_end_only_if_it_is_one(
    system: ActorSystem, kind: Any, cause: BaseException
) -> None:  # M6, M7, case 26
    def fail(_: Any) -> None:
        raise cause.with_traceback(None)

    ended_too: Ref = system.spawn(kind, Book())
    error = await soon(system, outcome(ended_too.ask(fail, timeout=None)))
    assert isinstance(error, ActorTerminated), error
    assert error.__cause__ is cause
    ref: Ref = system.spawn(kind, Book(), supervision=AT_ONCE)
    error = await soon(system, outcome(ref.ask(fail, timeout=None)))
    assert isinstance(error, errors.HandlerBroken), error
    assert (error.ref, error.__cause__) == (ref, cause)
    assert type(cause).__name__ in str(error)
    assert await soon(system, ref.ask(lambda me: me.number, timeout=None)) == 2


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_who_asked_one_that_was_told_to_stop_hears_of_its_end_though_a_restart_was_asked_for_too(
    system: ActorSystem,
    clock: ManualClock,
) -> None:  # M5, M6, case 57
    async def broken_off(system: ActorSystem, *orders: str) -> tuple[Ref, Any]:
        ref: Ref = system.spawn(AsyncPhoenix, Book())
        gate = Gate()
        asked = ref.ask(gate.wait, timeout=None)
        await gate.entered.wait()
        for order in orders:
            getattr(ref, order)()
        await clock.advance(STOP_TIMEOUT + 2.0)
        return ref, await soon(system, outcome(asked))

    ref, error = await broken_off(system, "stop")
    assert isinstance(error, ActorTerminated), error
    assert (await ended(system, ref)).kind is ExitKind.KILLED
    ref, error = await broken_off(system, "restart")
    assert isinstance(error, errors.HandlerBroken), error
    assert runs(ref)
    ref, error = await broken_off(system, "stop", "restart")
    assert isinstance(error, ActorTerminated), error
    assert (await ended(system, ref)).kind is ExitKind.KILLED


@pytest.mark.config(stop_timeout=STOP_TIMEOUT, supervision=Supervision(max_restarts=None))
async def test_only_those_are_reported_as_forced_whose_end_was(system: ActorSystem, clock: ManualClock) -> None:
    # M11, M6, case 57
    async def break_off(ref: Ref, order: str) -> None:
        gate = Gate()
        asked = ref.ask(gate.wait, timeout=None)
        await gate.entered.wait()
        getattr(ref, order)()
        await clock.advance(STOP_TIMEOUT + 2.0)
        assert gate.cancelled == 1
        assert isinstance(await soon(system, outcome(asked)), Exception)

    gentle, forced, both = (system.spawn(AsyncPhoenix, Book(), name=name) for name in ("gentle", "forced", "both"))
    await break_off(gentle, "restart")
    await break_off(forced, "stop")
    await break_off(both, "restart")
    await break_off(both, "stop")
    assert [runs(ref) for ref in (gentle, forced, both)] == [True, False, False]
    assert await soon(system, gentle.ask("there", timeout=None)) == "there"
    await system.shutdown()
    assert sorted(report_of(system).forced) == ["/both", "/forced"]


ESCALATE = Supervision(Directive.ESCALATE)


# -- children that have escalated


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.config(history=True)
async def test_a_child_that_is_ending_is_not_resumed_with_its_parent(system: ActorSystem, how: str) -> None:
    # M7, M1, M5, M8, 58
    parent: Ref = system.spawn(AsyncPhoenix, Book(), supervision=RESUME)
    child: Ref = await parent.ask(lambda me: me.ctx.spawn(Phoenix, Book(), supervision=ESCALATE))
    slow = Gate()
    await child.ask(lambda me: me.ctx.spawn(AsyncPhoenix, Book(post_stop=slow.wait)))
    watching = Book()
    watcher: Ref = system.spawn(Phoenix, watching)
    mref = await watcher.ask(lambda me: (me.ctx.watch(child), me.ctx.monitor(child))[1])
    busy = Gate()
    parent.tell(busy.wait)
    await busy.entered.wait()
    child.tell(BAD)
    await turns()
    getattr(child, how)()
    if how == "stop":
        await slow.entered.wait()
    busy.opened.set()
    await turns(20)
    assert runs(parent)
    assert not runs(child)
    slow.opened.set()
    reason = await ended(system, child)
    assert reason.abnormal
    assert_legal(child.history, killed=how == "kill")
    await system.settle()
    notice, down = watching.heard
    assert notice == ("terminated", child)
    assert isinstance(down, Down)
    assert (down.mref, down.reason) == (mref, reason)


async def test_a_supervisor_that_gave_up_is_restarted_when_its_parent_is_resumed(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M7, J10, 37
    parent: Ref = system.spawn(Phoenix, Book(), supervision=RESUME)
    spec = Supervisor.spec([ChildSpec(name, Phoenix, (Book(),)) for name in "ab"], intensity=0)
    supervision = Supervision(Directive.ESCALATE, backoff=Backoff(min=1.0))
    supervisor: Ref = await parent.ask(lambda me: me.ctx.spawn(Supervisor, spec, supervision=supervision))
    (await child_of(supervisor, "a")).tell(BAD)
    await system.settle()
    assert (parent.state, supervisor.state) == (State.RUNNING, State.RESTARTING)
    await clock.advance(1.0)
    assert (await soon(system, supervisor.ask(CountChildren(), timeout=None))).active == 2


@pytest.mark.config(history=True, stop_timeout=STOP_TIMEOUT)
async def test_a_start_that_was_cancelled_for_an_escalation_fails_though_that_is_settled(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M7, M1, M3, 54
    kids: list[Ref] = []
    gate = Gate()

    async def start(me: Any) -> None:
        kids.append(me.ctx.spawn(Phoenix, Book(pre_start=fail), supervision=ESCALATE))
        await gate.wait()

    def fail(_: Any) -> None:
        raise BAD.with_traceback(None)

    book = Book(**{"pre_start 1": start})
    parent: Ref = system.spawn(AsyncPhoenix, book, supervision=Supervision(backoff=None))
    asked = parent.ask("early", timeout=None)
    await gate.entered.wait()
    await turns()
    kids[0].stop()
    await clock.advance(STOP_TIMEOUT)
    assert await soon(system, asked) == "early"
    assert (parent.state, book.lives) == (State.RUNNING, 2)
    assert_legal(parent.history)


# -- groups


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_a_group_goes_on_when_one_that_hangs_in_its_start_is_restarted(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M6, M7, 34
    gate = Gate()
    books = [Book(**{"pre_start 2": gate.wait}), Book(), Book()]
    all_of_them = Supervision(scope=Scope.ONE_FOR_ALL, backoff=None)
    refs: list[Ref] = [system.spawn(AsyncPhoenix, book, supervision=all_of_them) for book in books]
    await refs[2].started()
    refs[1].tell(BAD)
    await gate.entered.wait()
    refs[0].restart()
    await clock.advance(STOP_TIMEOUT)
    await soon(system, asyncio.gather(*(ref.ask("there", timeout=None) for ref in refs)))
    assert [book.lives for book in books] == [3, 2, 2]


# -- orders beside a failure, under a supervisor

ORDERS = [
    ("stop",),
    ("stop", "stop"),
    ("restart",),
    ("restart", "restart"),
    ("restart", "restart", "restart"),
    ("restart", "stop"),
    ("stop", "restart"),
    ("stop", "restart", "stop"),
]


@pytest.mark.parametrize("restart", [Restart.TRANSIENT, Restart.PERMANENT])
@pytest.mark.parametrize("orders", ORDERS, ids="-".join)
async def test_a_failure_comes_before_the_orders_that_wait_behind_it(
    system: ActorSystem, orders: tuple[str, ...], restart: Restart
) -> None:  # M5, M7, M6, 35, 45
    book = Book()
    supervisor = await supervise(system, [ChildSpec("a", AsyncPhoenix, (book,), restart=restart)])
    child = await child_of(supervisor, "a")
    gate = Gate()

    async def fail(_: Any) -> None:
        await gate.wait()
        raise BAD.with_traceback(None)

    child.tell(fail)
    child.tell("queued")
    await gate.entered.wait()
    for order in orders:
        getattr(child, order)()
    gate.opened.set()
    assert await soon(system, child.ask("there", timeout=None)) == "there"
    await system.settle()
    assert book.heard == ["queued", "there"]
    assert book.actors[1].state == "state of 1"
    assert [info.state for info in (await by_name(supervisor)).values()] == [State.RUNNING]


# -- what askers are told

SPARED = [("stop", Restart.PERMANENT), ("kill", Restart.PERMANENT), ("kill", Restart.TRANSIENT)]
ENDED = [("stop", Restart.TRANSIENT), ("stop", Restart.TEMPORARY), ("kill", Restart.TEMPORARY)]


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize(("order", "restart"), [*SPARED, *ENDED])
async def test_who_asked_a_supervisors_child_is_told_of_an_end_only_if_it_is_one(
    system: ActorSystem, clock: ManualClock, order: str, restart: Restart, stubborn: bool
) -> None:  # M5, M7, M6, 24, 35
    spec = ChildSpec("a", AsyncPhoenix, (Book(),), restart=restart, shutdown=STOP_TIMEOUT)
    child = await child_of(await supervise(system, [spec]), "a")
    gate = Gate(stubborn)
    asked = child.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    getattr(child, order)()
    await clock.advance(STOP_TIMEOUT + 2.0)
    error = await soon(system, outcome(asked))
    gate.opened.set()
    await system.settle()
    comes_back = (order, restart) in SPARED or restart is Restart.TRANSIENT  # one that was forced was killed
    assert isinstance(error, HandlerBroken if comes_back else ActorTerminated), error
    assert child.is_alive is comes_back


@pytest.mark.config(stop_timeout=STOP_TIMEOUT)
async def test_who_asked_one_that_missed_its_stop_is_told_the_reason_of_its_end(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M7: 24, 57
    ref: Ref = system.spawn(AsyncPhoenix, Book())
    gate = Gate()
    asked = ref.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    ref.stop()
    await clock.advance(STOP_TIMEOUT)
    error: Any = await soon(system, outcome(asked))
    assert isinstance(error, ActorTerminated)
    assert error.reason == await ended(system, ref) == KILLED


async def test_who_asked_by_way_of_another_system_is_told_what_that_one_knows(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M7: 24, 26
    config = SystemConfig(clock=clock, stop_timeout=STOP_TIMEOUT)
    async with ActorSystem("other", config=config) as other:
        ref: Ref = other.spawn(AsyncPhoenix, Book())
        gate = Gate()
        clerk: Ref = system.spawn(lambda ctx, message: ctx.forward(ref))
        asked = clerk.ask(gate.wait, timeout=None)
        await gate.entered.wait()
        ref.stop()
        await clock.advance(STOP_TIMEOUT)
        error = await soon(system, outcome(asked))
        assert isinstance(error, ActorTerminated), error


# -- snapshots


@pytest.mark.parametrize("hook", ["post_restart", "post_start"])
async def test_a_snapshot_that_was_restored_outlives_a_start_that_fails_after_it(
    system: ActorSystem, hook: str
) -> None:  # M5, M6, M7
    def fail(_: Any) -> None:
        raise BAD.with_traceback(None)

    book = Book(**{f"{hook} 2": fail})
    ref: Ref = system.spawn(Phoenix, book, supervision=Supervision(backoff=None))
    ref.tell(BAD)
    await system.settle()
    assert runs(ref)
    assert [actor.state for actor in book.actors[1:]] == ["state of 1", "state of 1"]
