"""What restarts leave to others, and take with them: escalations, limits, snapshots, behaviors, monitors (M6, M7)."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    Backoff,
    Behavior,
    Behaviors,
    ChildSpec,
    Context,
    Directive,
    ExitKind,
    ManualClock,
    State,
    Supervision,
)
from greenroom.errors import MessageDropped
from tests.conformance.askers import outcome
from tests.conformance.incarnations import (
    AT_ONCE,
    BAD,
    CLEARING,
    Book,
    Phoenix,
    Ref,
    every_phoenix,
    runs,
    soon,
)
from tests.conformance.lives import Plain, ended, raises
from tests.supervision.staff import child_of, supervise

if TYPE_CHECKING:
    from tests.conftest import Play

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


async def test_a_start_that_fails_once_and_is_resumed_above_is_no_end(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7, case 41
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
) -> None:  # M6, decision 014
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
) -> None:  # M6, decision 014
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


async def test_the_supervision_of_an_initial_behavior_holds_in_every_incarnation(
    system: ActorSystem,
) -> None:  # M7, M13
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
async def test_who_asked_what_a_restart_cleared_is_told_so(
    system: ActorSystem, stashed: bool, kind: Any
) -> None:  # M6, case 46
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
