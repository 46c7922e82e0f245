"""Failures that are handed up: level by level, to parents that wait, and to the top (decision 015; M7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    Directive,
    ExitKind,
    ManualClock,
    MonotonicClock,
    State,
    Supervision,
    SystemFailed,
)
from greenroom.errors import HandlerBroken
from greenroom.testing import TestProbe, assert_ledger_balanced
from tests.conformance.lives import (
    AT_ONCE,
    BAD,
    AsyncPhoenix,
    Bird,
    Book,
    Gate,
    Phoenix,
    Ref,
    actor_at,
    assert_is_a_life,
    assert_legal,
    ended,
    every_phoenix,
    raises,
    runs,
    slow,
    soon,
)
from tests.conformance.sending import outcome, until
from tests.conftest import Play
from tests.gates import turns

STOP, RESUME, ESCALATE, RESTART = Directive.STOP, Directive.RESUME, Directive.ESCALATE, Directive.RESTART
UP = Supervision(Directive.ESCALATE)


async def grow(system: ActorSystem, kind: Any, *supervisions: Supervision) -> tuple[list[Ref], list[Book]]:
    """A line of actors named a, b, c..., each the child of the one before."""
    refs: list[Ref] = []
    books: list[Book] = []
    for number, supervision in enumerate(supervisions):
        book = Book()
        name = "abcdefgh"[number]
        above: Any = refs[-1] if refs else None
        refs.append(system.spawn(kind, book, name=name, parent=above, supervision=supervision))
        books.append(book)
    await refs[-1].ask("hello")
    await system.settle()
    for book in books:
        book.take()
        book.heard.clear()
    return refs, books


@every_phoenix
@pytest.mark.config(history=True)
async def test_a_failure_reaches_the_first_supervisor_that_decides_otherwise(system: ActorSystem, kind: Any) -> None:
    # case 41
    cause = LookupError("on purpose")
    told: list[Any] = []

    class Eye:
        def escalated(self, ref: Any, cause: Any) -> None:
            told.append((ref.path, cause))

    system.observers.add(Eye())
    refs, books = await grow(system, kind, AT_ONCE, AT_ONCE, UP, UP)
    probe = TestProbe(system)
    for ref in refs:
        await probe.watch(ref)
    asked = refs[3].ask(cause)
    queued = refs[3].ask("queued", timeout=None)
    assert await outcome(asked) is cause
    await turns(50)
    assert await soon(system, refs[1].ask(lambda me: me.number)) == 2
    assert books[0].log == []
    assert books[1].log[:2] == ["pre_restart 1", "snapshot 1"]
    assert books[1].actors[0].cause is cause  # the same exception, not one around it
    for book in books[2:]:  # taken along: a failed one has no farewell
        assert book.lives == 1
        assert book.log.count("post_stop 1") == 1
        assert "pre_restart 1" not in book.log
    assert isinstance(await outcome(queued), Exception)
    assert {(await probe.receive()).ref for _ in range(2)} == {refs[2], refs[3]}
    await probe.expect_no()
    assert [note for note in cause.__notes__ if "escalated" in note] == [
        "Greenroom: escalated by /a/b/c/d",
        "Greenroom: escalated by /a/b/c",
    ]
    assert told == [("/a/b/c/d", cause), ("/a/b/c", cause)]
    for ref in refs:
        assert_legal(ref.history)


@every_phoenix
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_at_the_top_the_system_stops_with_the_cause(play: Play, kind: Any, depth: int) -> None:  # case 41
    cause = LookupError("on purpose")
    found: list[Ref] = []
    ends: list[Any] = []

    async def program(system: ActorSystem) -> None:
        refs, books = await grow(system, kind, *[UP] * depth)
        found.extend(refs)
        bystander = system.spawn(kind, Book())
        refs[-1].tell(cause)
        refs[-1].tell("queued")
        with suppress(asyncio.CancelledError):  # the body of a failed system's block is cancelled
            await system.stopped()
        await system.stopped()
        assert (await bystander.terminated()).kind is ExitKind.SHUTDOWN
        ends.extend([await ref.terminated() for ref in refs])
        assert all(book.lives == 1 for book in books)
        assert all(book.log.count("post_stop 1") == 1 for book in books)

    with pytest.raises(SystemFailed) as caught:
        play(program, history=True)
    assert caught.value.__cause__ is cause
    assert play.system is not None
    assert play.system.report is not None
    assert (play.system.report.cause, play.system.report.forced) == (cause, ())
    assert play.system.report.terminated == depth + 1
    assert [end.cause for end in ends] == [cause] * depth
    assert len(cause.__notes__) == depth
    assert_ledger_balanced(play.system)
    for ref in found:
        assert_is_a_life(ref.history)


@every_phoenix
@pytest.mark.config(history=True)
async def test_a_parent_that_is_resumed_resumes_the_child_with_it(system: ActorSystem, kind: Any) -> None:
    # case 41, decision 015, case 40
    refs, books = await grow(system, kind, Supervision(RESUME), UP, UP)
    for turn in range(3):
        refs[2].tell(LookupError(f"number {turn}"))
        refs[2].tell(turn)
    refs[0].tell("queued")
    assert await soon(system, refs[2].ask("last")) == "last"
    await system.settle()
    assert books[2].heard == [0, 1, 2, "last"]
    assert books[0].heard == ["queued"]
    assert await refs[1].ask("hello") == "hello"
    for ref, book in zip(refs, books, strict=True):
        assert book.log == []
        assert runs(ref)
        assert_legal(ref.history)


@every_phoenix
async def test_siblings_of_one_that_escalates_are_taken_along_only_by_a_restart(system: ActorSystem, kind: Any) -> None:
    # case 41
    for strategy, lives in ((RESUME, True), (RESTART, False)):
        parent = system.spawn(kind, Book(), supervision=Supervision(strategy, backoff=None))
        one = system.spawn(kind, Book(), parent=parent, supervision=UP)
        two = system.spawn(kind, Book(), parent=parent, supervision=UP)
        await two.ask("hello")
        one.tell(LookupError("on purpose"))
        await turns(50)
        assert await soon(system, parent.ask("hello")) == "hello"
        assert two.is_alive is one.is_alive is lives


@every_phoenix
@pytest.mark.config(history=True)
async def test_a_parent_that_is_stopped_takes_the_child_along(system: ActorSystem, kind: Any) -> None:
    # case 41: decision 015
    cause = LookupError("on purpose")
    refs, books = await grow(system, kind, Supervision(STOP), UP)
    refs[1].tell(cause)
    reasons = [await ended(system, ref) for ref in refs]
    assert [reason.cause for reason in reasons] == [cause, cause]
    assert books[0].log == ["post_stop 1"]  # a failed actor has no pre_stop
    assert books[1].log == ["post_stop 1"]
    for ref in refs:
        assert_is_a_life(ref.history)


@every_phoenix
@pytest.mark.parametrize("on_limit", [STOP, ESCALATE])
async def test_at_the_limit_on_limit_says_what_becomes_of_it(
    system: ActorSystem, kind: Any, on_limit: Directive
) -> None:  # case 41, M7
    limited = Supervision(max_restarts=2, within=10.0, backoff=None, on_limit=on_limit)
    refs, books = await grow(system, kind, AT_ONCE, limited)
    causes = [LookupError(f"number {turn}") for turn in range(3)]
    for cause in causes:
        refs[1].tell(cause)
    assert (await ended(system, refs[1])).cause is causes[2]
    assert books[1].lives == 3
    assert await soon(system, refs[0].ask("hello")) == "hello"
    if on_limit is ESCALATE:
        assert books[0].lives == 2
        assert books[0].actors[0].cause is causes[2]
    else:
        assert books[0].lives == 1


@every_phoenix
@pytest.mark.parametrize("hook", ["init", "pre_start", "post_start"])
@pytest.mark.parametrize("strategy", [RESTART, RESUME, STOP])
@pytest.mark.config(history=True, clock=MonotonicClock())
async def test_a_start_that_fails_may_be_escalated(
    system: ActorSystem, kind: Any, hook: str, strategy: Directive
) -> None:  # case 41, M7
    cause = LookupError("on purpose")
    book, child = Book(), Book()
    child.acts[f"{hook} 1"] = raises(cause)
    book.acts["pre_start"] = lambda me: me.ctx.spawn(kind, child, name="child", supervision=UP)
    ref = system.spawn(kind, book, name="parent", supervision=Supervision(strategy, backoff=None))
    await turns(50)
    if strategy is STOP:
        assert (await ended(system, ref)).cause is cause
    else:
        assert await soon(system, ref.ask("hello")) == "hello"
        below = actor_at(system, "/parent/child")
        assert await soon(system, below.ask("hello")) == "hello"
        assert child.lives == 2
        assert runs(below)
        assert_legal(below.history)
    assert_legal(ref.history)


async def test_a_failure_is_escalated_to_a_parent_that_is_busy_when_its_handler_is_done(system: ActorSystem) -> None:
    # M2, case 41
    refs, books = await grow(system, AsyncPhoenix, AT_ONCE, UP)
    gate = Gate()
    asked = refs[0].ask(gate.wait)
    await gate.entered.wait()
    refs[1].tell(LookupError("on purpose"))
    refs[1].tell("queued")
    await turns()
    assert refs[1].state is State.FAILED
    assert books[0].lives == 1
    gate.opened.set()
    assert await asked is None
    assert await soon(system, refs[0].ask(lambda me: me.number)) == 2
    assert not refs[1].is_alive
    assert books[1].heard == []


@pytest.mark.parametrize("how", ["stop", "kill", "restart", "fail"])
@pytest.mark.config(history=True)
async def test_one_that_waits_for_a_decision_further_up_can_still_be_ended(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # case 41, M1, M7
    refs, books = await grow(system, AsyncPhoenix, Supervision(RESUME), UP)
    gate = Gate()
    refs[0].tell(gate.wait)
    await clock.advance(0.0)
    refs[1].tell(LookupError("on purpose"))
    await clock.advance(0.0)
    assert refs[1].state is State.FAILED
    refs[1].fail(LookupError("again")) if how == "fail" else getattr(refs[1], how)()
    await clock.advance(0.0)
    gate.opened.set()
    await clock.advance(0.0)
    assert await soon(system, refs[0].ask("hello")) == "hello"
    if how in ("stop", "kill"):
        await ended(system, refs[1])
        assert books[1].log.count("post_stop 1") == 1
    else:
        assert await soon(system, refs[1].ask("hello")) == "hello"
    assert_legal(refs[1].history, killed=how == "kill")
    assert_legal(refs[0].history)


@pytest.mark.config(history=True)
async def test_two_children_that_escalate_at_once_are_two_failures_of_a_parent_that_resumes(
    system: ActorSystem,
) -> None:  # case 41
    parent = system.spawn(Phoenix, Book(), supervision=Supervision(RESUME))
    children = [system.spawn(Bird, Book(), parent=parent, supervision=UP) for _ in range(3)]
    await children[2].ask("hello")
    for child in children:
        child.tell(LookupError("on purpose"))
    assert await soon(system, parent.ask("hello")) == "hello"
    for child in children:
        assert await soon(system, child.ask("hello")) == "hello"
        assert_legal(child.history)
    assert_legal(parent.history)


@pytest.mark.config(history=True)
async def test_two_children_that_escalate_at_once_restart_their_parent_no_more_than_twice(system: ActorSystem) -> None:
    # case 41
    book = Book()
    parent = system.spawn(Phoenix, book, supervision=AT_ONCE)
    children = [system.spawn(Bird, Book(), parent=parent, supervision=UP) for _ in range(2)]
    await children[1].ask("hello")
    for child in children:
        child.tell(LookupError("on purpose"))
    for child in children:
        await ended(system, child)
    assert await soon(system, parent.ask("hello")) == "hello"
    assert book.lives == 2, "the second failure is one of a child that is gone with the first incarnation"
    assert_legal(parent.history)


async def test_children_that_escalate_in_one_tick_cost_their_parent_one_restart_of_its_limit(
    system: ActorSystem,
) -> None:  # case 41, M7
    book = Book()
    parent = system.spawn(Phoenix, book, supervision=Supervision(max_restarts=1, within=10.0, backoff=None))
    children = [system.spawn(Bird, Book(), parent=parent, supervision=UP) for _ in range(2)]
    await children[1].ask("hello")
    for child in children:
        child.tell(LookupError("on purpose"))
    for child in children:
        await ended(system, child)
    assert await soon(system, parent.ask("hello")) == "hello"
    assert book.lives == 2


async def test_an_escalation_to_a_parent_that_waits_for_its_own_restart_cannot_come(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 41 and 47
    book = Book()
    parent = system.spawn(Phoenix, book, supervision=slow(1.0))
    child = system.spawn(Bird, Book(), parent=parent, supervision=UP)
    await child.ask("hello")
    child.tell(LookupError("the child's"))
    parent.fail(LookupError("the parent's"))
    await clock.advance(0.5)
    assert parent.state is State.RESTARTING
    assert not child.is_alive
    await clock.advance(0.5)
    assert runs(parent)
    assert book.lives == 2


@pytest.mark.config(history=True)
async def test_a_shutdown_while_a_failure_is_on_its_way_up_ends_everybody_once(system: ActorSystem) -> None:
    # cases 41 and 59
    refs, _ = await grow(system, AsyncPhoenix, Supervision(RESUME), UP, UP)
    gate = Gate()
    refs[0].tell(gate.wait)
    await gate.entered.wait()
    refs[2].tell(LookupError("on purpose"))
    await turns()
    shutdown = asyncio.ensure_future(system.shutdown())
    await turns()
    gate.opened.set()
    await shutdown
    for ref in refs:
        assert_is_a_life(ref.history)
    await system.shutdown()
    assert system.report is not None
    assert (system.report.terminated, system.report.forced) == (3, ())


RESUMES = Supervision(Directive.RESUME)


class Parent(Actor[Any, Any]):
    """Does what it is sent, and awaits what that returns; writes down what the handler raised."""

    def __init__(self, book: Book) -> None:
        book.lives += 1
        self.book = book
        self.number = book.lives

    async def receive(self, message: Callable[[Any], Awaitable[Any]]) -> Any:
        try:
            return await message(self)
        except Exception as exc:
            self.book.heard.append(exc)
            raise


async def number_of(me: Any) -> int:
    number: int = me.number
    return number


def family(system: ActorSystem, supervision: Supervision) -> tuple[Ref, Ref, Book]:
    book = Book()
    parent = system.spawn(Parent, book, name="parent", supervision=supervision)
    return parent, system.spawn(Bird, Book(), name="child", parent=parent, supervision=UP), book


async def fails_then_is_asked(child: Ref) -> Any:
    """The failing message is before the one that asks."""
    child.tell(BAD)
    return await child.ask("hello", timeout=None)


async def defers(child: Ref) -> Any:
    """It has taken the question, and put its reply off."""
    asked = child.ask(lambda me: me.ctx.defer_reply() and None, timeout=None)
    child.tell(BAD)
    return await asked


WAITS = {one.__name__: one for one in (fails_then_is_asked, defers)}


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("kind", ["restart", "resume", "stop", "escalate"])
async def test_a_parent_that_waits_for_a_child_that_escalates_waits_no_longer(
    system: ActorSystem, clock: ManualClock, wait: str, kind: str
) -> None:  # M7, decision 015: no deadline passes
    # which stands still: a stop_timeout would never pass
    supervision = {"restart": AT_ONCE, "resume": RESUMES, "stop": Supervision(Directive.STOP), "escalate": UP}[kind]
    top = system.spawn(Phoenix, Book(), supervision=AT_ONCE)
    await top.started()
    book = Book()
    parent = system.spawn(Parent, book, parent=top, supervision=supervision)
    child = system.spawn(Bird, Book(), parent=parent, supervision=UP)
    await child.started()
    with pytest.raises(HandlerBroken, match="waits for this answer") as caught:
        await soon(system, parent.ask(lambda me: WAITS[wait](child), timeout=None))
    assert caught.value.__cause__ is BAD
    assert [type(heard) for heard in book.heard] == [HandlerBroken]
    if kind in ("restart", "resume"):
        assert await soon(system, parent.ask(number_of)) == (2 if kind == "restart" else 1)
        assert child.is_alive is (kind == "resume")
    else:
        reason = await ended(system, parent)
        if kind == "stop":
            assert reason.cause is BAD, "it fails with what the child has escalated"


async def test_a_parent_that_begins_to_wait_after_the_escalation_is_refused(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7
    parent, child, book = family(system, AT_ONCE)
    await child.started()
    gate = Gate()

    async def wait_then_ask(me: Any) -> Any:
        await gate.wait()
        return await child.ask("hello", timeout=None)

    asked = parent.ask(wait_then_ask, timeout=None)
    await gate.entered.wait()
    child.tell(BAD)
    await until(lambda: child.state is State.FAILED)
    gate.opened.set()
    with pytest.raises(HandlerBroken):
        await soon(system, asked)
    assert await soon(system, parent.ask(number_of)) == 2
    assert [type(heard) for heard in book.heard] == [HandlerBroken]


async def test_a_parent_that_takes_the_refusal_finishes_its_message_and_fails_then(
    system: ActorSystem, clock: ManualClock
) -> None:  # M2, M7
    parent, child, book = family(system, AT_ONCE)
    await child.started()

    async def take_it(me: Any) -> str:
        child.tell(BAD)
        with pytest.raises(HandlerBroken):
            await child.ask("hello", timeout=None)
        return "taken"

    assert await soon(system, parent.ask(take_it, timeout=None)) == "taken"
    assert await soon(system, parent.ask(number_of)) == 2
    assert book.heard == []


async def test_a_parent_that_waits_for_the_child_through_another_actor_waits_no_longer(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7
    parent, child, _ = family(system, AT_ONCE)
    middle_book = Book()
    middle = system.spawn(Parent, middle_book, supervision=RESUMES)
    await child.started()

    async def ask_child(me: Any) -> Any:
        child.tell(BAD)
        return await child.ask("hello", timeout=None)

    async def ask_middle(me: Any) -> Any:
        return await middle.ask(ask_child, timeout=None)

    with pytest.raises(HandlerBroken):
        await soon(system, parent.ask(ask_middle, timeout=None))
    assert await soon(system, parent.ask(number_of)) == 2
    assert [type(heard) for heard in middle_book.heard] == [HandlerBroken]


@pytest.mark.parametrize("links", [1, 3])
async def test_one_that_begins_to_wait_through_others_after_the_escalation_is_let_go(
    system: ActorSystem, clock: ManualClock, links: int
) -> None:  # M7
    parent, child, _ = family(system, AT_ONCE)
    books = [Book() for _ in range(links)]
    line = [system.spawn(Parent, book, supervision=RESUMES) for book in books]
    await child.started()
    gate = Gate()

    def ask_next(number: int) -> Any:
        if number == links:
            return fails_then_is_asked(child)
        return line[number].ask(lambda me: ask_next(number + 1), timeout=None)

    async def ask_then_wait(me: Any) -> Any:
        asked = ask_next(0)
        await gate.wait()
        return await asked

    asked = parent.ask(ask_then_wait, timeout=None)
    await gate.entered.wait()
    await until(lambda: child.state is State.FAILED)
    gate.opened.set()
    with pytest.raises(HandlerBroken):
        await soon(system, asked)
    assert await soon(system, parent.ask(number_of)) == 2
    assert [type(heard) for book in books for heard in book.heard] == [HandlerBroken] * links


async def test_a_grandparent_that_waits_for_the_grandchild_is_let_go_when_the_failure_comes_to_it(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7
    book = Book()
    top = system.spawn(Parent, book, supervision=AT_ONCE)
    middle = system.spawn(Bird, Book(), parent=top, supervision=UP)
    child = system.spawn(Bird, Book(), parent=middle, supervision=UP)
    await child.started()
    with pytest.raises(HandlerBroken):
        await soon(system, top.ask(lambda me: fails_then_is_asked(child), timeout=None))
    assert await soon(system, top.ask(number_of)) == 2


async def test_others_who_asked_a_child_that_escalates_are_answered_if_it_is_resumed(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7
    parent, child, _ = family(system, RESUMES)
    await child.started()
    gate = Gate()
    held = parent.ask(gate.wait, timeout=None)
    await gate.entered.wait()
    child.tell(BAD)
    asked = child.ask("hello", timeout=None)
    gate.opened.set()
    await held
    assert await soon(system, asked) == "hello"


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("then", ["restart", "resume", "stop"])
async def test_a_parent_fails_with_a_child_that_escalated_and_ended_since(
    system: ActorSystem, clock: ManualClock, how: str, then: str
) -> None:  # M7
    supervision = {"restart": AT_ONCE, "resume": RESUMES, "stop": Supervision(Directive.STOP)}[then]
    seen: list[BaseException] = []

    def strategy(cause: BaseException) -> Directive:
        seen.append(cause)
        directive = supervision.strategy
        assert isinstance(directive, Directive)
        return directive

    book = Book()
    parent = system.spawn(
        AsyncPhoenix, book, supervision=Supervision(strategy, max_restarts=None, backoff=None), name="parent"
    )
    child = system.spawn(Bird, Book(), parent=parent, supervision=UP)
    await child.started()
    gate = Gate()
    parent.tell(gate.wait)
    await gate.entered.wait()
    child.tell(BAD)
    await until(lambda: child.state is State.FAILED)
    getattr(child, how)()
    await ended(system, child)
    assert seen == []
    gate.opened.set()
    if then == "stop":
        assert (await ended(system, parent)).cause is BAD
    else:
        assert await soon(system, parent.ask(lambda me: me.number)) == (2 if then == "restart" else 1)
        assert runs(parent)
    assert seen == [BAD]


async def test_an_escalation_that_was_settled_with_another_is_not_acted_on_when_the_child_ends(
    system: ActorSystem, clock: ManualClock
) -> None:  # M7
    seen: list[BaseException] = []

    def resume(cause: BaseException) -> Directive:
        seen.append(cause)
        return Directive.RESUME

    parent = system.spawn(Parent, Book(), supervision=Supervision(resume))
    children = [system.spawn(Bird, Book(), parent=parent, supervision=UP) for _ in range(2)]
    for child in children:
        await child.started()
    gate = Gate()
    parent.tell(gate.wait)
    await gate.entered.wait()
    for child in children:
        child.tell(BAD)
    await until(lambda: all(child.state is State.FAILED for child in children))
    gate.opened.set()
    assert await soon(system, parent.ask(number_of)) == 1
    for child in children:
        assert await soon(system, child.ask("hello")) == "hello"
        child.stop()
        await ended(system, child)
    assert await soon(system, parent.ask(number_of)) == 1
    assert seen == [BAD]
