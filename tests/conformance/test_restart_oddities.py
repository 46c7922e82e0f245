"""Restarts that cross other things: deadlines, escalations, logs that fail, and many siblings at once (M6, M7)."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Directive,
    ManualClock,
    Scope,
    State,
    Supervision,
    SystemFailed,
)
from greenroom.testing import assert_ledger_balanced
from tests.conformance.askers import until
from tests.conformance.incarnations import AT_ONCE, AsyncPhoenix, Bird, Book, Gate, Phoenix, Ref, slow, soon
from tests.conformance.lives import Plain, ended, raises
from tests.conformance.troupe import ALL, BAD

if TYPE_CHECKING:
    from tests.conftest import Play

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
) -> None:  # M7, M5
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
    assert system.report is not None
    assert system.report.forced == ()


@pytest.mark.config(stop_timeout=3.0)
async def test_the_deadline_of_a_failure_that_was_resumed_kills_no_child(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7, M5
    ref, child = await resume_in_hand(system, clock)
    await clock.advance(20.0)
    assert child.is_alive
    assert await soon(system, child.ask("there", timeout=None)) == "there"
    assert await soon(system, ref.ask("there", timeout=None)) == "there"
    await system.shutdown()
    assert system.report is not None
    assert system.report.forced == ()


@pytest.mark.config(stop_timeout=3.0)
async def test_the_deadline_of_an_escalation_that_a_parent_is_resumed_after_kills_no_sibling(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7, M5
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
    assert system.report is not None
    assert system.report.forced == ()


async def test_a_child_that_escalates_to_a_parent_at_rest_is_not_stranded(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7, case 41
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
def test_the_end_of_a_group_that_waits_costs_no_more_for_each_when_there_are_many(play: Play) -> None:  # M7, M20
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
def test_siblings_that_fail_one_tick_after_another_start_a_few_times_each(play: Play, budget: int) -> None:  # M7, M20
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
def test_an_exception_that_takes_no_note_escalates_like_others(play: Play, how: str) -> None:  # M7, M3
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
def test_a_failure_that_cannot_be_logged_is_followed_by_a_restart(play: Play, cause: Exception) -> None:  # M7, M3
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
) -> None:  # M6
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
) -> None:  # M7, M11
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
