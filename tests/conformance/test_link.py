"""Links: two actors share their fate when one of them ends abnormally, for good (E11, cases 19 to 22, decision 017)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Context,
    Exit,
    ExitKind,
    ExitReason,
    LinkBroken,
    handles,
)
from tests.conformance.bonded import ENDS, AsyncDoer, AsyncTrapper, Busy, Panic, Trapper, exits, link
from tests.conformance.watchers import BAD, Doer, Plain, Ref, end
from tests.gates import Event

KINDS = pytest.mark.parametrize("kind", [Doer, AsyncDoer])
SIDES = pytest.mark.parametrize("side", ["mine", "theirs", "both"])


@SIDES
@KINDS
async def test_a_linked_peer_ends_normally_and_i_live(
    system: ActorSystem, kind: type[Doer], side: str
) -> None:  # case 19
    log: list[Any] = []
    me, peer = system.spawn(kind, log), system.spawn(Doer)
    await link(me, peer, side)
    await end(peer)
    await system.settle()
    assert (me.is_alive, log) == (True, [])
    me.tell("still here")
    await system.settle()
    assert log == ["still here"]


@SIDES
@KINDS
async def test_a_linked_peer_fails_and_i_fail_with_its_exception(
    system: ActorSystem, kind: type[Doer], side: str
) -> None:  # case 19
    log: list[Any] = []
    cause = ValueError("theirs")
    me, peer = system.spawn(kind, log), system.spawn(Doer)
    await link(me, peer, side)
    await end(peer, cause)
    reason = await me.terminated()
    assert reason.kind is ExitKind.FAIL
    assert reason.cause is cause
    assert log == []


@SIDES
async def test_a_linked_peer_is_killed_and_my_link_is_broken(system: ActorSystem, side: str) -> None:  # cases 19, 20
    me, peer = system.spawn(Doer), system.spawn(Doer)
    await link(me, peer, side)
    peer.kill()
    reason = await me.terminated()
    assert reason.kind is ExitKind.FAIL
    assert isinstance(reason.cause, LinkBroken)
    assert reason.cause.peer == peer
    assert str(peer) in str(reason.cause)


async def test_a_linked_peer_is_shut_down_and_i_live(system: ActorSystem) -> None:  # 017
    log: list[Any] = []
    parent, me, trapper = system.spawn(Doer), system.spawn(Doer), system.spawn(Trapper, log)
    peer: Ref = await parent.ask(lambda ctx: ctx.spawn(Doer))
    await link(me, peer)
    await link(trapper, peer)
    await end(parent)
    assert (await peer.terminated()).kind is ExitKind.SHUTDOWN
    await system.settle()
    assert me.is_alive
    assert exits(log) == [(peer, ExitReason(ExitKind.SHUTDOWN))]


STRANGE = [
    Panic("worse"),
    GeneratorExit(),
    asyncio.CancelledError("nobody asked"),
    StopIteration(3),
    StopAsyncIteration(),
    ExceptionGroup("several", [ValueError(1)]),
]


@pytest.mark.parametrize("cause", STRANGE, ids=lambda cause: type(cause).__name__)
@KINDS
async def test_whatever_a_peer_failed_with_is_what_i_fail_with(
    system: ActorSystem, kind: type[Doer], cause: BaseException
) -> None:
    # case 19
    me, peer = system.spawn(kind), system.spawn(kind)
    await link(me, peer)
    peer.fail(cause)
    theirs, mine = await peer.terminated(), await me.terminated()
    assert theirs == mine == ExitReason.of(cause)
    assert mine.cause is cause


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("kind", [Trapper, AsyncTrapper])
async def test_an_actor_that_traps_exits_is_told_of_every_end(  # case 19
    system: ActorSystem, kind: type[Doer], how: str, dead: bool
) -> None:
    log: list[Any] = []
    me, peer = system.spawn(kind, log), system.spawn(Doer)
    if dead:
        ENDS[how](peer)
        await peer.terminated()
    await link(me, peer)
    ENDS[how](peer)
    reason = await peer.terminated()
    await system.settle()
    assert exits(log) == [(peer, reason)]
    assert me.is_alive


async def test_an_exit_is_a_message_to_handles_and_without_a_handler_a_dead_letter(
    system: ActorSystem,
) -> None:  # notices reach, B4
    class Sorted(Actor[Any, Any]):
        @handles(str)
        def begin(self, message: str) -> None:
            self.ctx.trap_exit = True
            self.ctx.link(peer[0])

    class Listening(Sorted):
        @handles(Exit)
        def leave(self, notice: Exit) -> None:
            log.append((notice.ref, self.ctx.sender))

    log: list[Any] = []
    peer: list[Ref] = []
    peer.append(system.spawn(Plain))
    deaf, listening = system.spawn(Sorted), system.spawn(Listening)
    await deaf.ask("begin")
    await listening.ask("begin")
    await end(peer[0], BAD)
    await system.settle()
    assert log == [(peer[0], None)]
    (letter,) = system.dead_letters.recent()
    assert isinstance(letter.message, Exit)
    assert (letter.recipient, letter.reason) == (deaf, "unhandled")
    assert deaf.is_alive


@pytest.mark.parametrize("how", ["stop", "fail", "kill"])
@pytest.mark.parametrize("traps", [True, False])
async def test_whether_exits_are_trapped_is_asked_when_the_notice_has_its_turn(
    system: ActorSystem, traps: bool, how: str
) -> None:
    # 017
    log: list[Any] = []
    me, peer = system.spawn(AsyncDoer, log), system.spawn(Doer)

    def change(ctx: Context) -> None:
        ctx.trap_exit = traps
        assert ctx.trap_exit is traps

    def begin(ctx: Context) -> None:
        ctx.trap_exit = not traps
        ctx.link(peer)

    await me.ask(begin)
    async with Busy(system, me, change):
        ENDS[how](peer)
        await peer.terminated()
    assert len(log) == (1 if traps else 0)
    assert me.is_alive is (traps or how == "stop")


@pytest.mark.parametrize("kind", [Trapper, AsyncTrapper])
async def test_a_kill_cannot_be_trapped(system: ActorSystem, kind: type[Doer]) -> None:  # case 20
    class Hooked(kind):  # type: ignore[valid-type, misc]
        def pre_stop(self) -> None:
            log.append("pre_stop")

        def post_stop(self) -> None:
            log.append("post_stop")

    log: list[Any] = []
    peer_log: list[Any] = []
    me, peer = system.spawn(Hooked, log), system.spawn(Trapper, peer_log)
    await link(me, peer)
    me.tell("queued")
    me.kill()
    reason = await me.terminated()
    assert (reason.kind, log) == (ExitKind.KILLED, ["post_stop"])
    await system.settle()
    assert exits(peer_log) == [(me, reason)]  # to the other it is an exit like any other


async def test_a_suspended_handler_that_traps_exits_is_killed_all_the_same(system: ActorSystem) -> None:  # case 20
    log: list[Any] = []
    me, peer = system.spawn(AsyncTrapper, log), system.spawn(Doer)
    await link(me, peer)
    asked = me.ask(lambda ctx: Event().wait())
    me.tell("queued")
    await asyncio.sleep(0)
    me.kill()
    assert (await me.terminated()).kind is ExitKind.KILLED
    with pytest.raises(ActorTerminated):
        await asked
    assert log == []
    assert isinstance((await peer.terminated()).cause, LinkBroken)


# -- undone


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("by", ["me", "peer"])
async def test_after_unlink_nothing_comes_of_the_others_end(system: ActorSystem, how: str, by: str) -> None:  # case 21
    log: list[Any] = []
    me, peer, trapper = system.spawn(Doer), system.spawn(Doer), system.spawn(Trapper, log)
    for holder in (me, trapper):
        await link(holder, peer)
        if by == "me":
            await holder.ask(lambda ctx: ctx.unlink(peer))
        else:
            await peer.ask(lambda ctx, holder=holder: ctx.unlink(holder))
    ENDS[how](peer)
    await peer.terminated()
    await system.settle()
    assert (me.is_alive, trapper.is_alive, log) == (True, True, [])


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("kind", [AsyncDoer, AsyncTrapper])
async def test_unlink_takes_back_an_exit_that_is_queued(
    system: ActorSystem, kind: type[Doer], how: str
) -> None:  # case 21
    log: list[Any] = []
    me, peer = system.spawn(kind, log), system.spawn(Doer)
    await link(me, peer)
    async with Busy(system, me, lambda ctx: ctx.unlink(peer)):
        ENDS[how](peer)
        await peer.terminated()
        await asyncio.sleep(0)
    assert (me.is_alive, log) == (True, [])


async def test_a_link_made_anew_after_its_exit_was_taken_back_is_told_once(system: ActorSystem) -> None:  # cases 13, 21
    log: list[Any] = []
    me, peer = system.spawn(AsyncTrapper, log), system.spawn(Doer)
    await link(me, peer)

    def anew(ctx: Context) -> None:
        for _ in range(3):
            ctx.unlink(peer)
            ctx.link(peer)
            ctx.link(peer)

    async with Busy(system, me, anew):
        await end(peer)
    assert exits(log) == [(peer, ExitReason(ExitKind.NORMAL))]


async def test_unlinking_a_stranger_does_nothing(system: ActorSystem) -> None:
    me, stranger, dead = system.spawn(Doer), system.spawn(Doer), await end(system.spawn(Plain))
    for ref in (stranger, dead, me):
        await me.ask(lambda ctx, ref=ref: ctx.unlink(ref))
    await end(stranger, BAD)
    await system.settle()
    assert me.is_alive
