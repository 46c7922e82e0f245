"""What a restart keeps, because it is between the actor and others, and what ends with the old instance (M6, 014)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Behaviors,
    Context,
    Down,
    Exit,
    ExitKind,
    ManualClock,
    ReceiveTimeout,
    Reply,
    State,
    Supervision,
)
from greenroom.testing import TestProbe
from tests.conformance.incarnations import AT_ONCE, BAD, Bird, Book, Gate, Phoenix, every_phoenix, slow, turns
from tests.conformance.lives import ended

if TYPE_CHECKING:
    from tests.conftest import Play


@every_phoenix
@pytest.mark.parametrize("how", ["failure", "restart"])
def test_a_receive_timeout_stays_set_and_begins_anew(play: Play, kind: Any, how: str) -> None:  # M6, decision 014
    clock = ManualClock()
    book = Book()

    async def program(system: ActorSystem) -> None:
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

    play(program, clock=clock)


def test_a_receive_timeout_does_not_run_during_the_backoff_and_a_new_one_wins(play: Play) -> None:  # M6
    clock = ManualClock()
    book = Book()
    book.acts["pre_start 3"] = lambda me: me.ctx.set_receive_timeout(5.0)

    async def program(system: ActorSystem) -> None:
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

    play(program, clock=clock)


def test_behaviors_it_became_end_with_it(play: Play) -> None:  # M6, M13
    async def program(system: ActorSystem) -> None:
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

    play(program, supervision=AT_ONCE)


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "stubborn"])
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_a_piped_awaitable_of_the_old_instance_never_reaches_the_new_one(
    play: Play, fails: bool, stubborn: bool
) -> None:  # M6, decision 014
    book = Book()

    async def program(system: ActorSystem) -> None:
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

    play(program, supervision=AT_ONCE)


@every_phoenix
def test_replies_it_owes_can_still_be_given(play: Play, kind: Any) -> None:  # case 26, decision 014
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(kind, Book())
        kept: list[Reply] = []
        asked = [ref.ask(lambda me: kept.append(me.ctx.defer_reply()), timeout=None) for _ in range(3)]
        ref.tell(BAD)
        assert await ref.ask(lambda me: me.number) == 2
        kept[0].send("late, but given")
        kept[1].fail(LookupError("refused"))
        assert await asked[0] == "late, but given"
        with pytest.raises(LookupError):
            await asked[1]
        assert not asked[2].done()
        ref.stop()
        with pytest.raises(ActorTerminated):
            await asked[2]

    play(program, supervision=AT_ONCE)


@every_phoenix
def test_watches_survive_in_both_directions_and_so_do_monitors_of_it(play: Play, kind: Any) -> None:  # case 17, 014
    book = Book()

    async def program(system: ActorSystem) -> None:
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

    play(program, supervision=AT_ONCE)
    assert book.heard == []


@every_phoenix
def test_what_the_old_instance_watched_is_told_to_the_new_one(play: Play, kind: Any) -> None:  # M8, decision 014
    book = Book()

    async def program(system: ActorSystem) -> None:
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

    play(program, supervision=AT_ONCE)


def test_a_notice_that_comes_during_the_backoff_waits(play: Play) -> None:  # M8: notices are never refused
    clock = ManualClock()
    book = Book()

    async def program(system: ActorSystem) -> None:
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

    play(program, clock=clock)


def test_a_link_outlives_restarts_and_fires_at_the_end(play: Play) -> None:  # case 19, decision 017
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Phoenix, Book())
        peer = system.spawn(Phoenix, Book(), supervision=Supervision(max_restarts=0))
        await peer.started()
        await ref.ask(lambda me: me.ctx.link(peer))
        ref.tell(BAD)
        assert await ref.ask(lambda me: me.number) == 2
        assert peer.state is State.RUNNING
        ref.kill()
        assert (await ended(system, peer)).kind is ExitKind.FAIL

    play(program, supervision=AT_ONCE)


def test_exits_are_trapped_by_the_instance_that_said_so(play: Play) -> None:  # case 19, decision 014
    book = Book()

    async def program(system: ActorSystem) -> None:
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

    play(program)
