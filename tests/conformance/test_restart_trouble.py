"""Restarts that fail, hang, are interrupted, or meet what is odd."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, Self

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Directive,
    ExitKind,
    ManualClock,
    MonotonicClock,
    Scope,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
    SystemFailed,
)
from greenroom.errors import StartTimeout
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import (
    ALL,
    AT_ONCE,
    BAD,
    BORN_AGAIN,
    AsyncPhoenix,
    Bird,
    Book,
    Gate,
    Phoenix,
    Plain,
    Ref,
    actor_at,
    assert_is_a_life,
    assert_legal,
    ended,
    every_phoenix,
    raises,
    report_of,
    runs,
    slow,
    soon,
)
from tests.conformance.relations import Panic
from tests.conformance.sending import outcome, until
from tests.conftest import Play

ERRORS = [ValueError, StopAsyncIteration, asyncio.CancelledError, Panic, GeneratorExit]
every_error = pytest.mark.parametrize("error", ERRORS)
LEAVING = ["pre_restart 1", "snapshot 1", "post_stop 1"]
COMING = ["init 2", "pre_start 2", "restore 2", "post_restart 2", "post_start 2"]


@every_phoenix
@every_error
@pytest.mark.parametrize("hook", LEAVING)
@pytest.mark.config(supervision=AT_ONCE, history=True)
async def test_a_hook_that_raises_while_it_leaves_is_logged_and_the_restart_goes_on(
    system: ActorSystem, kind: Any, hook: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:  # cases 48, 58, 59, M3, M6
    book = Book(**{hook: raises(error("in a hook"))})
    with caplog.at_level(logging.WARNING, logger="greenroom"):
        probe = TestProbe(system)
        ref = system.spawn(kind, book)
        await probe.watch(ref)
        child = await ref.ask(lambda me: me.ctx.spawn(Plain))
        book.take()
        ref.tell(BAD)
        assert await soon(system, ref.ask("next")) == "next"
        born = [line for line in BORN_AGAIN if line != "restore 2" or hook != "snapshot 1"]
        assert book.take() == [*LEAVING, *born]
        assert not child.is_alive
        assert_legal(ref.history)
        await probe.expect_no()
        await system.shutdown()
    assert any(hook.split()[0] in record.getMessage() for record in caplog.records)


@every_phoenix
@every_error
@pytest.mark.parametrize("hook", COMING)
@pytest.mark.config(history=True)
async def test_a_hook_that_raises_while_it_starts_again_is_a_failed_start_and_is_tried_again(
    system: ActorSystem, clock: ManualClock, kind: Any, hook: str, error: type[BaseException]
) -> None:  # cases 48, 58, 59, M3, M6, M7: failed starts count as restarts
    cause = error("in a hook")
    book = Book(**{hook: raises(cause)})
    ref = system.spawn(kind, book, supervision=slow(1.0, max_restarts=2, within=100.0))
    await ref.ask("hello")
    ref.tell(BAD)
    ref.tell("queued")
    book.take()
    await clock.advance(1.0)
    gone = [] if hook == "init 2" else ["post_stop 2"]
    assert book.take() == [*LEAVING, *COMING[: COMING.index(hook) + 1], *gone]
    assert ref.state is State.RESTARTING
    assert book.heard == ["hello"]
    await clock.advance(1.0)
    log = book.take()
    # Whatever was kept is gone when its restore has failed; it may be otherwise when another hook has.
    assert [line for line in log if line != "restore 3"] == [
        "init 3",
        "pre_start 3",
        "post_restart 3",
        "post_start 3",
    ]
    assert hook != "restore 2" or "restore 3" not in log
    assert book.heard == ["hello", "queued"]
    ref.tell(BAD)  # the third that counts
    assert (await ended(system, ref)).cause is BAD
    assert_is_a_life(ref.history)


@every_phoenix
@every_error
@pytest.mark.parametrize("hook", ["init 1", "pre_start 1", "post_start 1"])
@pytest.mark.config(supervision=AT_ONCE, history=True)
async def test_a_first_start_that_fails_is_tried_again(
    system: ActorSystem, kind: Any, hook: str, error: type[BaseException]
) -> None:  # cases 48, 58, 59, M3, M6: was never RUNNING, the supervisor decides
    cause = error("in a hook")
    book = Book(**{hook: raises(cause)})
    ref = system.spawn(kind, book)
    asked = ref.ask("hello")
    with pytest.raises((error, RuntimeError)):
        await ref.started()
    assert await asked == "hello"
    await ref.started()
    assert "pre_restart 1" not in book.log
    assert "snapshot 1" not in book.log
    assert book.log.count("post_stop 1") == (0 if hook == "init 1" else 1)
    assert book.log[-3:] == ["pre_start 2", "post_restart 2", "post_start 2"]
    assert State.RUNNING not in ref.history[: ref.history.index(State.FAILED)]
    assert_legal(ref.history)


@every_phoenix
@pytest.mark.parametrize("hook", ["init", "pre_start", "restore", "post_restart", "post_start"])
@pytest.mark.config(history=True)
async def test_one_that_never_starts_again_ends_at_the_limit_and_is_told_once(
    system: ActorSystem, clock: ManualClock, kind: Any, hook: str
) -> None:  # cases 48 and 59, M3, M6
    # case 58, M7
    cause = LookupError("in a hook")
    book = Book()
    probe = TestProbe(system)
    ref = system.spawn(kind, book, name="one", supervision=slow(0.5, max_restarts=3, within=100.0))
    await probe.watch(ref)
    await ref.ask("hello")
    book.acts[hook] = raises(cause)
    ref.tell(BAD)
    asked = ref.ask("queued", timeout=None)
    await clock.advance(10.0)
    if hook == "restore":  # that is not tried twice
        assert await asked == "queued"
        return
    reason = await ended(system, ref)
    assert reason.cause is cause
    assert book.lives == 4
    assert (await probe.expect_terminated(ref)).cause is cause
    await probe.expect_no()
    assert isinstance(await outcome(asked), ActorTerminated)
    with pytest.raises(LookupError):
        await ref.started()
    assert system.actor("/one") is None
    assert system.spawn(Plain, name="one").path == "/one"
    assert_is_a_life(ref.history)


@every_phoenix
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("hook", ["receive", *LEAVING, *COMING])
def test_what_ends_programs_ends_the_system_in_the_middle_of_a_restart(
    play: Play, kind: Any, hook: str, error: type[BaseException]
) -> None:  # cases 48, 58, 59, M3, M6: decision 015: a failure that stops the system is not restarted
    cause = error("on purpose")
    book = Book(**{hook: raises(cause)})
    refs: list[Ref] = []

    async def program(system: ActorSystem) -> None:
        refs.append(system.spawn(kind, book))
        refs[0].tell(cause if hook == "receive" else BAD)
        await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        play(program, supervision=AT_ONCE, history=True)
    assert caught.value.__cause__ is cause
    assert play.raised == []
    assert play.system is not None
    assert play.system.report is not None
    assert (play.system.report.terminated, play.system.report.forced) == (1, ())
    assert_ledger_balanced(play.system)
    assert_is_a_life(refs[0].history)


@every_phoenix
@pytest.mark.parametrize("hook", ["pre_restart", "post_stop"])
def test_a_system_that_is_ending_starts_nobody_again(play: Play, kind: Any, hook: str) -> None:
    # cases 48, 58, 59, M3, M6
    # decision 015: a shutdown ends a waiting restart
    book = Book(**{hook: lambda me: me.ctx.system.fail(LookupError("of the system"))})

    async def program(system: ActorSystem) -> None:
        system.spawn(kind, book).tell(BAD)
        await system.stopped()

    with pytest.raises(SystemFailed):
        play(program, supervision=AT_ONCE)
    assert book.lives == 1


ENDS = ["stop", "kill", "parent", "shutdown"]
every_end = pytest.mark.parametrize("how", ENDS)
KINDS = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED}


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize("hook", LEAVING)
@pytest.mark.config(history=True, stop_timeout=3.0, supervision=AT_ONCE)
async def test_a_hook_of_the_old_instance_that_hangs_does_not_hold_up_its_successor(
    system: ActorSystem, clock: ManualClock, hook: str, stubborn: bool
) -> None:  # cases 48, 58, 59, M3, M6: a hook never strands an actor
    book = Book()
    gate = Gate(stubborn)
    book.acts[hook] = gate.wait
    ref = system.spawn(AsyncPhoenix, book)
    child = await ref.ask(lambda me: me.ctx.spawn(Plain))
    ref.tell(BAD)
    ref.tell("queued")
    await clock.advance(2.5)
    assert ref.state is State.RESTARTING
    assert book.heard == []
    await clock.advance(10.0)
    assert gate.cancelled >= 1
    assert runs(ref)
    assert book.heard == ["queued"]
    assert book.lives == 2
    assert not child.is_alive
    assert_legal(ref.history)
    gate.opened.set()
    await clock.advance(0.0)
    assert book.heard == ["queued"]


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.config(stop_timeout=3.0, supervision=AT_ONCE)
async def test_a_child_that_does_not_stop_is_forced_and_the_restart_goes_on(
    system: ActorSystem, clock: ManualClock, stubborn: bool
) -> None:  # cases 48, 58, 59, M3, M5, M6
    book = Book()
    gate = Gate(stubborn)
    ref = system.spawn(Phoenix, book, name="one")
    child = await ref.ask(lambda me: me.ctx.spawn(AsyncPhoenix, Book(), name="deaf"))
    child.tell(gate.wait)
    await clock.advance(0.0)
    ref.tell(BAD)
    ref.tell("queued")
    await clock.advance(2.5)
    assert book.lives == 1
    await clock.advance(10.0)
    assert not child.is_alive
    assert gate.cancelled >= 1
    assert book.heard == ["queued"]
    gate.opened.set()
    await system.shutdown()
    assert report_of(system).forced == ("/one/deaf",)


@pytest.mark.parametrize("ends", [False, True], ids=["restart", "stop"])
def test_a_post_stop_that_hangs_is_forced_after_a_hook_that_suspended_too(play: Play, ends: bool) -> None:
    # cases 48, 58, 59, M3, M5, M6
    gate = Gate()
    book = Book(**{"post_stop 1": gate.wait})

    async def program(system: ActorSystem) -> None:
        # Its `pre_stop` and `pre_restart` suspend, and return.
        ref = system.spawn(AsyncPhoenix, book, supervision=AT_ONCE)
        await ref.started()
        if ends:
            ref.stop()
        else:
            ref.restart()
        await gate.entered.wait()
        await clock.advance(10.0)
        gone, cancelled = (not ref.is_alive if ends else book.lives == 2), gate.cancelled
        gate.opened.set()
        assert gone
        assert cancelled == 1

    clock = ManualClock()
    play(program, clock=clock, stop_timeout=2.0)


def test_an_instance_that_never_ran_has_no_pre_restart(play: Play) -> None:  # cases 48, 58, 59, M3, M6
    gate = Gate()
    book = Book(**{"pre_start 2": gate.wait})

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(AsyncPhoenix, book, supervision=AT_ONCE)
        ref.tell(BAD)
        await gate.entered.wait()
        ref.restart()
        await clock.advance(10.0)
        assert book.lives == 3
        assert "pre_restart 2" not in book.log
        assert "snapshot 2" not in book.log
        assert "post_stop 2" in book.log

    clock = ManualClock()
    play(program, clock=clock, stop_timeout=2.0)


def test_a_hook_is_cancelled_before_it_is_abandoned_though_another_was_before(play: Play) -> None:
    # cases 48, 58, 59, M3, M5, M6
    start, leave = Gate(), Gate()

    async def return_when_cancelled(bird: Any) -> None:
        with suppress(asyncio.CancelledError):
            await start.wait()

    book = Book()
    book.acts = {"pre_start 2": return_when_cancelled, "pre_restart 2": leave.wait}

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(AsyncPhoenix, book, supervision=AT_ONCE)
        await ref.started()
        ref.restart()
        await start.entered.wait()
        ref.fail(BAD)
        await clock.advance(2.0)
        assert start.cancelled == 1
        await leave.entered.wait()
        await clock.advance(1.5)
        assert (book.lives, leave.cancelled) == (2, 0)  # it has as much time as any hook
        await clock.advance(10.0)
        assert (book.lives, leave.cancelled) == (3, 1)

    clock = ManualClock()
    play(program, clock=clock, stop_timeout=2.0)


UP = Supervision(Directive.ESCALATE)
RESUME = Supervision(Directive.RESUME)


async def resume_in_hand(system: ActorSystem, clock: ManualClock) -> tuple[Ref, Ref]:
    """An actor that was failed with a handler in hand, and goes on; and its child."""
    ref: Ref = system.spawn(AsyncPhoenix, Book(), supervision=RESUME)
    child: Ref = system.spawn(Plain, parent=ref)
    gate = Gate()
    asked = ref.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    ref.fail(BAD)
    await clock.advance(0.0)
    gate.opened.set()
    await soon(system, asked)
    await clock.advance(0.0)
    assert (ref.state, child.state) == (State.RUNNING, State.RUNNING)
    return ref, child


@pytest.mark.config(stop_timeout=3.0)
async def test_the_deadline_of_a_failure_that_was_resumed_breaks_off_no_later_handler(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M6, M7
    ref, _ = await resume_in_hand(system, clock)
    await clock.advance(2.0)
    gate = Gate()
    asked = ref.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    await clock.advance(20.0)
    assert gate.cancelled == 0
    gate.opened.set()
    assert await soon(system, asked) is None
    assert ref.state is State.RUNNING
    await system.shutdown()
    assert report_of(system).forced == ()


@pytest.mark.config(stop_timeout=3.0)
async def test_the_deadline_of_a_failure_that_was_resumed_kills_no_child(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M6, M7
    ref, child = await resume_in_hand(system, clock)
    await clock.advance(20.0)
    assert child.is_alive
    assert await soon(system, child.ask("there", timeout=None)) == "there"
    assert await soon(system, ref.ask("there", timeout=None)) == "there"
    await system.shutdown()
    assert report_of(system).forced == ()


@pytest.mark.config(stop_timeout=3.0)
async def test_the_deadline_of_an_escalation_that_a_parent_is_resumed_after_kills_no_sibling(
    system: ActorSystem, clock: ManualClock
) -> None:  # M5, M6, M7
    book = Book()
    parent: Ref = system.spawn(AsyncPhoenix, book, supervision=Supervision(Directive.RESUME))
    one: Ref = system.spawn(Bird, Book(), parent=parent, supervision=UP)
    other: Ref = system.spawn(Bird, Book(), parent=parent, supervision=UP)
    gate = Gate()
    asked = parent.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    one.tell(BAD)
    await clock.advance(0.0)
    one.stop()
    await ended(system, one)
    gate.opened.set()
    await soon(system, asked)
    await clock.advance(20.0)
    assert (parent.state, other.is_alive, book.lives) == (State.RUNNING, True, 1)
    assert await soon(system, other.ask("there", timeout=None)) == "there"
    await system.shutdown()
    assert report_of(system).forced == ()


async def test_a_child_that_escalates_to_a_parent_at_rest_is_not_stranded(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 41, M6, M7
    parent: Ref = system.spawn(Phoenix, Book(), supervision=slow(2.0))
    parent.tell(BAD)
    await clock.advance(1.0)
    assert parent.state is State.RESTARTING
    child: Ref = system.spawn(Phoenix, Book(), parent=parent, supervision=UP)
    asked = child.ask(BAD, timeout=None)
    queued = child.ask("queued", timeout=None)
    await clock.advance(10.0)
    with pytest.raises(ValueError, match="on purpose"):
        await soon(system, asked)
    with pytest.raises(ActorTerminated):
        await soon(system, queued)
    assert (await ended(system, child)).cause is BAD
    assert await soon(system, parent.ask("there", timeout=None)) == "there"


class Calls:
    """Counts the calls of Python functions in this thread, meanwhile: work, as no clock can tell it."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _called(self, frame: object, event: str, arg: object) -> None:
        if event == "call":
            self.count += 1


@pytest.mark.at_home
def test_the_end_of_a_group_that_waits_costs_no_more_for_each_when_there_are_many(play: Play) -> None:  # M20, M6, M7
    each: dict[int, float] = {}
    for many in (50, 400):
        clock = ManualClock()

        async def program(system: ActorSystem, many: int = many, clock: ManualClock = clock) -> None:
            waits = slow(60.0, scope=Scope.ONE_FOR_ALL)
            refs: list[Ref] = [system.spawn(Bird, Book(), supervision=waits) for _ in range(many)]
            await system.settle()
            refs[0].tell(BAD)
            await clock.advance(1.0)
            assert {ref.state for ref in refs} == {State.RESTARTING}
            with Calls() as calls:
                await system.shutdown()
            each[many] = calls.count / many

        play(program, clock=clock)
    assert each[400] < each[50] * 2, each


@pytest.mark.fifo
@pytest.mark.parametrize("budget", [1, 3])
def test_siblings_that_fail_one_tick_after_another_start_a_few_times_each(play: Play, budget: int) -> None:
    # M20, M6, M7
    many, starts = 60, 0

    class Sibling(Plain):
        def pre_start(self) -> None:
            nonlocal starts
            starts += 1

    async def program(system: ActorSystem) -> None:
        nonlocal starts
        refs: list[Ref] = [system.spawn(Sibling, supervision=ALL) for _ in range(many)]
        await refs[-1].started()
        starts = 0
        for ref in refs:
            ref.tell(raises(LookupError("on purpose")))
        await soon(system, system.settle())
        for ref in refs:
            assert await soon(system, ref.ask("there", timeout=None)) == "there"
        assert many <= starts
        if not play.is_elsewhere:  # on other threads, how many start before the next fails is up to them
            assert starts <= 4 * many

    play(program, max_actors_per_tick=budget, max_tick_time=10.0)


@dataclass(frozen=True)
class Refused(Exception):
    """No note can be added to it."""

    code: int


@pytest.mark.parametrize("how", ["tell", "fail"])
def test_an_exception_that_takes_no_note_escalates_like_others(play: Play, how: str) -> None:  # M3, M6, M7
    cause = Refused(3)

    async def program(system: ActorSystem) -> None:
        parent: Ref = system.spawn(Plain, supervision=UP)
        ref: Ref = system.spawn(Plain, parent=parent, supervision=UP)
        await ref.started()
        ref.tell(raises(cause)) if how == "tell" else ref.fail(cause)
        await soon(system, system.stopped())

    with pytest.raises(SystemFailed) as caught:
        play(program)
    assert caught.value.__cause__ is cause
    assert play.system is not None
    assert_ledger_balanced(play.system)


class Uncounted(Exception):
    """Whether it is empty cannot be said."""

    def __len__(self) -> int:
        raise RuntimeError("no length")


@pytest.mark.parametrize("cause", [Uncounted(), BAD], ids=["by the exception", "by a filter"])
def test_a_failure_that_cannot_be_logged_is_followed_by_a_restart(play: Play, cause: Exception) -> None:  # M3, M6, M7
    book = Book()
    logger = logging.getLogger("greenroom")

    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError("in a filter")

    async def program(system: ActorSystem) -> None:
        ref: Ref = system.spawn(Phoenix, book)
        ref.tell(cause)
        await system.settle()
        assert ref.state is State.RUNNING
        assert book.lives == 2
        assert await soon(system, ref.ask("there", timeout=None)) == "there"

    if cause is BAD:
        logger.addFilter(refuse)
    try:
        play(program, supervision=AT_ONCE)
    finally:
        logger.removeFilter(refuse)


@pytest.mark.config(supervision=AT_ONCE)
async def test_a_restart_lets_go_of_the_incarnation_before(
    system: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:  # M6, M7
    caplog.set_level(logging.CRITICAL + 1, logger="greenroom")  # pytest keeps what is logged, and its traceback
    lives: list[weakref.ref[Actor[Any, Any]]] = []
    messages: list[weakref.ref[object]] = []

    class Bad:
        pass

    class Mortal(Actor[Any, Any]):
        def __init__(self) -> None:
            lives.append(weakref.ref(self))

        def receive(self, message: Any) -> Any:
            if isinstance(message, Bad):
                messages.append(weakref.ref(message))
                raise LookupError("on purpose")
            return message

    ref: Ref = system.spawn(Mortal)
    ref.tell(Bad())
    assert await soon(system, ref.ask("there", timeout=None)) == "there"
    await system.settle()
    await until(lambda: gc.collect() is not None and lives[0]() is None)
    assert [life() is None for life in lives] == [True, False]
    assert [message() for message in messages] == [None]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_strategy_that_raises_what_ends_programs_ends_the_system_in_order(
    play: Play, error: type[BaseException]
) -> None:  # M11, M6, M7
    cause = error("on purpose")
    book = Book()

    async def program(system: ActorSystem) -> None:
        ref: Ref = system.spawn(Phoenix, book, supervision=Supervision(raises(cause)))
        ref.tell(BAD)
        await soon(system, system.stopped())

    with pytest.raises(BaseException) as caught:  # what ends programs would end the tests
        play(program)
    assert isinstance(caught.value, SystemFailed)
    assert caught.value.__cause__ is cause
    assert book.log.count("post_stop 1") == 1
    assert play.system is not None
    assert play.system.report is not None
    assert (play.system.report.terminated, play.system.report.forced) == (1, ())


HOOKS = ["pre_start", "post_start"]
STOP = Supervision(Directive.STOP)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
async def test_a_start_that_never_ends_is_cancelled_and_fails_the_actor(
    system: ActorSystem, clock: ManualClock, hook: str, stubborn: bool
) -> None:  # M3, M4, M7
    gate = Gate(stubborn)
    ref = system.spawn(AsyncPhoenix, Book(**{hook: gate.wait}), name="slow", supervision=STOP)
    started = asyncio.ensure_future(ref.started())
    await gate.entered.wait()
    await clock.advance(599.0)
    assert (ref.state, gate.cancelled) == (State.STARTING, 0)
    await clock.advance(1.0)
    assert gate.cancelled == 1
    await clock.advance(1.0)  # after which one that takes no notice is abandoned
    with pytest.raises(StartTimeout, match=r"/slow .* 600 s.*`SystemConfig\(start_timeout=...\)`"):
        await started
    reason = await ended(system, ref)
    assert isinstance(reason.cause, StartTimeout)
    assert system.snapshot().timers == 0
    gate.opened.set()


@pytest.mark.parametrize("hook", ["pre_start 1", "post_start 1", "pre_start 2", "restore 2", "post_restart 2"])
@pytest.mark.config(start_timeout=10.0)
async def test_a_start_that_never_ends_leads_to_the_next_one(
    system: ActorSystem, clock: ManualClock, hook: str
) -> None:  # M3, M4, M6, M7
    gate = Gate()
    book = Book()
    book.acts[hook] = gate.wait
    ref = system.spawn(AsyncPhoenix, book, supervision=AT_ONCE)
    if hook.endswith("2"):
        await ref.started()
        ref.tell(BAD)
    ref.tell("queued")
    await gate.entered.wait()
    await clock.advance(10.0)
    assert gate.cancelled == 1
    number = 1 + int(hook[-1])
    assert await soon(system, ref.ask(lambda me: me.number)) == number
    assert book.heard == ["queued"]
    await clock.advance(100.0)
    assert runs(ref)
    assert book.lives == number


@pytest.mark.parametrize("setting", [None, inf])
def test_without_a_start_timeout_a_start_may_take_for_ever(play: Play, setting: float | None) -> None:  # J1, M3, M4, M7
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        gate = Gate()
        ref = system.spawn(AsyncPhoenix, Book(pre_start=gate.wait))
        await gate.entered.wait()
        assert system.snapshot().timers == 0
        await clock.advance(1e6)
        assert ref.state is State.STARTING
        gate.opened.set()
        await soon(system, ref.started())

    play(program, clock=clock, start_timeout=setting)


@pytest.mark.config(start_timeout=10.0)
async def test_a_start_that_ends_in_time_leaves_no_deadline(system: ActorSystem, clock: ManualClock) -> None:
    # J11, M3, M4, M7
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, Book(pre_start=gate.wait))
    await gate.entered.wait()
    await clock.advance(9.0)
    gate.opened.set()
    await soon(system, ref.started())
    assert system.snapshot().timers == 0
    await clock.advance(100.0)
    assert runs(ref)


@pytest.mark.config(start_timeout=10.0, stop_timeout=5.0)
async def test_an_actor_that_is_stopped_while_it_starts_has_the_time_of_a_stop(
    system: ActorSystem, clock: ManualClock
) -> None:  # M3, M4, M5, M7
    gate = Gate()
    ref = system.spawn(AsyncPhoenix, Book(pre_start=gate.wait))
    await gate.entered.wait()
    await clock.advance(9.0)
    ref.stop()
    await clock.advance(4.0)
    assert gate.cancelled == 0
    await clock.advance(1.0)
    assert (await ended(system, ref)).cause is None
    assert gate.cancelled == 1


@pytest.mark.config(start_timeout=10.0)
async def test_a_supervisor_counts_a_start_that_never_ends(system: ActorSystem, clock: ManualClock) -> None:
    # J10, M3, M4, M7
    gate = Gate()
    book = Book()
    book.acts.update({"pre_start 2": gate.wait, "pre_start 3": gate.wait})
    spec = Supervisor.spec([ChildSpec("one", AsyncPhoenix, (book,), backoff=None)], intensity=2, period=100.0)
    supervisor = system.spawn(Supervisor, spec, supervision=STOP)
    await supervisor.started()
    child = actor_at(system, f"{supervisor.path}/one")
    child.tell(BAD)
    await clock.advance(10.0)
    assert (book.lives, gate.cancelled) == (3, 1)
    await clock.advance(10.0)
    reason = await ended(system, supervisor)
    assert isinstance(reason.cause, StartTimeout)
    assert gate.cancelled == 2


@pytest.mark.config(start_timeout=10.0)
async def test_a_supervisor_fails_with_the_child_that_does_not_start_and_not_before(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10, M3, M4, M7
    gates = [Gate(), Gate()]
    specs = [ChildSpec(f"c{n}", AsyncPhoenix, (Book(pre_start=gate.wait),)) for n, gate in enumerate(gates)]
    supervisor = system.spawn(Supervisor, Supervisor.spec(specs), name="top", supervision=STOP)
    await gates[0].entered.wait()
    await clock.advance(6.0)
    gates[0].opened.set()
    await clock.advance(6.0)  # each child has its own time
    assert supervisor.state is State.STARTING
    await clock.advance(4.0)
    reason = await ended(system, supervisor)
    assert isinstance(reason.cause, StartTimeout)
    assert str(reason.cause).startswith("/top/c1 ")


class Blocking(Actor[Any, Any]):
    """Its constructor blocks the thread it runs on."""

    def __init__(self, released: threading.Event) -> None:
        released.wait(120.0)

    def receive(self, message: Any) -> Any:
        return message


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
async def test_a_constructor_that_blocks_another_thread_is_given_up(dispatcher: str) -> None:  # M3, M4, M7, M9
    released = threading.Event()
    config = SystemConfig(start_timeout=0.01, supervision=STOP, clock=MonotonicClock())
    async with ActorSystem(config=config) as system:
        ref = system.spawn(Blocking, released, dispatcher=dispatcher)
        with pytest.raises(StartTimeout):
            await ref.started()
        assert isinstance((await ref.terminated()).cause, StartTimeout)
        released.set()
