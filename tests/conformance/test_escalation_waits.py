"""Escalations to a parent whose handler waits, for the child or for somebody else; and from a child that ends (M7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Directive, ManualClock, State, Supervision
from greenroom.errors import HandlerBroken
from tests.conformance.askers import until
from tests.conformance.incarnations import AT_ONCE, BAD, AsyncPhoenix, Bird, Book, Gate, Phoenix, Ref, runs, soon
from tests.conformance.lives import ended

UP = Supervision(Directive.ESCALATE)
RESUME = Supervision(Directive.RESUME)


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
    supervision = {"restart": AT_ONCE, "resume": RESUME, "stop": Supervision(Directive.STOP), "escalate": UP}[kind]
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
    middle = system.spawn(Parent, middle_book, supervision=RESUME)
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
    line = [system.spawn(Parent, book, supervision=RESUME) for book in books]
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
    parent, child, _ = family(system, RESUME)
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
    supervision = {"restart": AT_ONCE, "resume": RESUME, "stop": Supervision(Directive.STOP)}[then]
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
