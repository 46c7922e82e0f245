"""What a restart keeps, because it is between the actor and others, and what ends with the old instance (M6, 014)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Behaviors,
    ChildSpec,
    Context,
    Directive,
    Down,
    Exit,
    ExitKind,
    ManualClock,
    ReceiveTimeout,
    Reply,
    State,
    Supervision,
    Supervisor,
)
from greenroom.errors import HandlerBroken
from greenroom.testing import TestProbe
from tests.conformance.incarnations import (
    AT_ONCE,
    BAD,
    Bird,
    Book,
    Gate,
    Phoenix,
    Ref,
    every_phoenix,
    slow,
    soon,
    turns,
)
from tests.conformance.lives import ended


@every_phoenix
@pytest.mark.parametrize("how", ["failure", "restart"])
async def test_a_receive_timeout_stays_set_and_begins_anew(
    system: ActorSystem, clock: ManualClock, kind: Any, how: str
) -> None:  # M6, decision 014
    book = Book()
    ref = system.spawn(kind, book, supervision=AT_ONCE)
    await ref.ask(lambda me: me.ctx.set_receive_timeout(2.0))
    await clock.advance(1.5)
    ref.restart() if how == "restart" else ref.fail(BAD)
    await clock.advance(1.5)
    assert book.lives == 2
    assert book.heard == []
    await clock.advance(0.5)
    assert book.heard == [ReceiveTimeout()]
    await clock.advance(2.0)
    assert book.heard == [ReceiveTimeout()] * 2


async def test_a_receive_timeout_does_not_run_during_the_backoff_and_a_new_one_wins(
    system: ActorSystem, clock: ManualClock
) -> None:  # M6
    book = Book()
    book.acts["pre_start 3"] = lambda me: me.ctx.set_receive_timeout(5.0)
    ref = system.spawn(Phoenix, book, supervision=slow(10.0, max_restarts=None))
    await ref.ask(lambda me: me.ctx.set_receive_timeout(2.0))
    ref.fail(BAD)
    await clock.advance(11.5)
    assert book.heard == []
    await clock.advance(0.5)
    assert book.heard == [ReceiveTimeout()]
    ref.fail(BAD)
    await clock.advance(14.5)
    assert book.heard == [ReceiveTimeout()]
    await clock.advance(0.5)
    assert book.heard == [ReceiveTimeout()] * 2


@pytest.mark.config(supervision=AT_ONCE)
async def test_behaviors_it_became_end_with_it(system: ActorSystem) -> None:  # M6, M13
    def other(ctx: Context, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return "other"

    for turn_into in (lambda me: me.ctx.become(other), lambda _: Behaviors.receive(other)):
        book = Book()
        ref = system.spawn(Phoenix, book)
        await ref.ask(turn_into)
        assert await ref.ask("x") == "other"
        ref.tell(BAD)
        assert await ref.ask("x") == "x"
        assert book.log.count("pre_restart 1") == book.log.count("post_stop 1") == 1
        assert await ref.ask(lambda me: me.ctx.unbecome()) is None
        assert await ref.ask("y") == "y"


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
@pytest.mark.config(supervision=AT_ONCE)
async def test_a_piped_awaitable_of_the_old_instance_never_reaches_the_new_one(
    system: ActorSystem, fails: bool, stubborn: bool
) -> None:  # M6, decision 014
    book = Book()
    gate = Gate(stubborn)

    async def work() -> str:
        await gate.wait()
        if fails:
            raise LookupError("of the old instance")
        return "result"

    ref = system.spawn(Phoenix, book)
    await ref.ask(lambda me: me.ctx.pipe_to_self(work()) and None)
    await gate.entered.wait()
    ref.tell(BAD)
    await ref.ask("next")
    await turns()
    assert gate.cancelled == 1
    gate.opened.set()  # it has swallowed its cancellation, and ends all the same
    await turns()
    await system.settle()
    assert book.heard == ["next"]
    assert book.lives == 2


RESTARTS: dict[str, Callable[[Ref], object]] = {
    "failure": lambda ref: ref.tell(BAD),
    "told to fail": lambda ref: ref.fail(BAD),
    "restart": lambda ref: ref.restart(BAD),
    "restart without a cause": lambda ref: ref.restart(),
}


@every_phoenix
@pytest.mark.parametrize("how", RESTARTS)
async def test_replies_it_owes_fail_with_the_old_instance(
    system: ActorSystem, clock: ManualClock, kind: Any, how: str
) -> None:  # case 26, decision 014
    book = Book()
    ref = system.spawn(kind, book, supervision=slow(10.0))
    kept: list[Reply] = []
    asked = [ref.ask(lambda me: kept.append(me.ctx.defer_reply()), timeout=None) for _ in range(3)]
    book.acts["post_stop 1"] = lambda me: kept[0].send("the last word")
    await system.settle()
    RESTARTS[how](ref)
    await clock.advance(0.0)
    assert await soon(system, asked[0]) == "the last word"
    for question in asked[1:]:  # at once, not when the backoff is over
        with pytest.raises(HandlerBroken, match="deferred") as caught:
            await soon(system, question)
        assert caught.value.__cause__ is (None if "without" in how else BAD)
    kept[1].send("too late")
    await clock.advance(10.0)
    assert await soon(system, ref.ask(lambda me: me.number)) == 2
    assert [(letter.message, letter.reason) for letter in system.dead_letters.recent()] == [("too late", "late reply")]


async def test_replies_it_owes_can_still_be_given_by_one_that_is_resumed(system: ActorSystem) -> None:  # M7, case 26
    ref = system.spawn(Phoenix, Book(), supervision=Supervision(Directive.RESUME))
    kept: list[Reply] = []
    asked = [ref.ask(lambda me: kept.append(me.ctx.defer_reply()), timeout=None) for _ in range(2)]
    ref.tell(BAD)
    assert await ref.ask(lambda me: me.number) == 1
    kept[0].send("late, but given")
    assert await asked[0] == "late, but given"
    assert not asked[1].done()
    ref.stop()
    with pytest.raises(ActorTerminated):
        await asked[1]


async def test_a_reply_that_a_supervisors_child_owes_fails_when_it_comes_back(system: ActorSystem) -> None:  # J10, 014
    for end in (lambda ref: ref.stop(), lambda ref: ref.kill(), lambda ref: ref.tell(BAD)):
        book = Book()
        spec = Supervisor.spec([ChildSpec("one", Phoenix, (book,), backoff=None)])
        supervisor = system.spawn(Supervisor, spec)
        await supervisor.started()
        child = system.actor(f"{supervisor.path}/one")
        assert child is not None
        kept: list[Reply] = []
        asked = child.ask(lambda me, kept=kept: kept.append(me.ctx.defer_reply()), timeout=None)
        await system.settle()
        end(child)
        with pytest.raises(HandlerBroken, match="deferred"):
            await soon(system, asked)
        assert await soon(system, child.ask(lambda me: me.number)) == 2


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_watches_survive_in_both_directions_and_so_do_monitors_of_it(
    system: ActorSystem, kind: Any
) -> None:  # case 17, 014
    book = Book()
    probe = TestProbe(system)
    ref = system.spawn(kind, book)
    other_book = Book()
    other, holder = system.spawn(Phoenix, Book()), system.spawn(Phoenix, other_book)
    await probe.watch(ref)
    mref = await holder.ask(lambda me: me.ctx.monitor(ref))
    await ref.ask(lambda me: me.ctx.watch(other))
    for _ in range(3):
        ref.tell(BAD)
    ref.restart()
    assert await ref.ask(lambda me: me.number) == 5
    await probe.expect_no()
    assert other_book.heard == []
    other.restart()
    await other.ask("still there")
    await system.settle()
    assert book.heard == []
    ref.tell(lambda _: Behaviors.stopped)
    await probe.expect_terminated(ref)
    await system.settle()
    down = [heard for heard in other_book.heard if isinstance(heard, Down)]
    assert [(one.mref, one.ref) for one in down] == [(mref, ref)]
    await system.shutdown()
    assert book.heard == []


@every_phoenix
@pytest.mark.config(supervision=AT_ONCE)
async def test_what_the_old_instance_watched_is_told_to_the_new_one(
    system: ActorSystem, kind: Any
) -> None:  # M8, decision 014
    book = Book()
    ref = system.spawn(kind, book)
    other = system.spawn(Phoenix, Book())
    await ref.ask(lambda me: me.ctx.watch(other))
    await ref.ask(lambda me: me.ctx.monitor(other))
    ref.tell(BAD)
    await system.settle()
    other.stop()
    await ended(system, other)
    await system.settle()
    assert book.lives == 2
    assert book.heard == [("terminated", other)]


async def test_a_notice_that_comes_during_the_backoff_waits(
    system: ActorSystem, clock: ManualClock
) -> None:  # M8: notices are never refused
    book = Book()
    ref = system.spawn(Phoenix, book, supervision=slow(1.0))
    other = system.spawn(Phoenix, Book())
    await ref.ask(lambda me: me.ctx.watch(other))
    ref.tell(BAD)
    await clock.advance(0.5)
    other.stop()
    await clock.advance(0.25)
    assert book.heard == []
    await clock.advance(0.25)
    assert book.heard == [("terminated", other)]


@pytest.mark.config(supervision=AT_ONCE)
async def test_a_link_outlives_restarts_and_fires_at_the_end(system: ActorSystem) -> None:  # case 19, decision 017
    ref = system.spawn(Phoenix, Book())
    peer = system.spawn(Phoenix, Book(), supervision=Supervision(max_restarts=0))
    await peer.started()
    await ref.ask(lambda me: me.ctx.link(peer))
    ref.tell(BAD)
    assert await ref.ask(lambda me: me.number) == 2
    assert peer.state is State.RUNNING
    ref.kill()
    assert (await ended(system, peer)).kind is ExitKind.FAIL


async def test_exits_are_trapped_by_the_instance_that_said_so(system: ActorSystem) -> None:  # case 19, decision 014
    book = Book()

    def trap(me: Any) -> None:
        me.ctx.trap_exit = True

    ref = system.spawn(Phoenix, book, supervision=Supervision(backoff=None))
    peers = [system.spawn(Bird, Book()) for _ in range(2)]
    await ref.ask(trap)
    await ref.ask(lambda me: [me.ctx.link(peer) for peer in peers])
    peers[0].fail(LookupError("trapped"))
    await ended(system, peers[0])
    await system.settle()
    assert [type(heard) for heard in book.heard] == [Exit]
    ref.restart()
    assert await ref.ask(lambda me: me.ctx.trap_exit) is False
    peers[1].fail(BAD)
    await ended(system, peers[1])
    await system.settle()
    assert book.lives == 3
    assert book.actors[1].cause is BAD
