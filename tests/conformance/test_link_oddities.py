"""Links that are odd, and links that cannot be (E11, decision 017)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    ActorSystem,
    ActorTerminated,
    Context,
    Directive,
    ExitKind,
    ExitReason,
    LinkBroken,
    MailboxConfig,
    Supervision,
    SystemConfig,
)
from greenroom.errors import WrongLoop
from tests.conformance.bonded import ENDS, STOP, AsyncTrapper, Busy, Trapper, exits, link, link_to
from tests.conformance.watchers import BAD, Doer, Plain, end

SIDES = pytest.mark.parametrize("side", ["mine", "theirs", "both"])


async def test_a_link_to_a_dead_actor_is_told_at_once(system: ActorSystem) -> None:  # 017, case 13
    gone, failed, killed = (system.spawn(Plain) for _ in range(3))
    await end(gone)
    await end(failed, BAD)
    killed.kill()
    await killed.terminated()
    holders = [system.spawn(Doer) for _ in range(3)]
    for holder, dead in zip(holders, (gone, failed, killed), strict=True):
        holder.tell(link_to(dead))
    await system.settle()
    assert [holder.is_alive for holder in holders] == [True, False, False]
    assert (await holders[1].terminated()).cause is BAD
    assert isinstance((await holders[2].terminated()).cause, LinkBroken)


@SIDES
async def test_linking_twice_is_one_link(system: ActorSystem, side: str) -> None:  # 017
    log: list[Any] = []
    me, peer = system.spawn(Trapper, log), system.spawn(Doer)
    await link(me, peer, side)
    await link(me, peer, side)
    await end(peer)
    await system.settle()
    assert len(exits(log)) == 1

    survivor, undone = system.spawn(Doer), system.spawn(Doer)
    await link(survivor, undone, side)
    await link(survivor, undone, side)
    await survivor.ask(lambda ctx: ctx.unlink(undone))  # and one unlink undoes it
    await end(undone, BAD)
    await system.settle()
    assert survivor.is_alive


@pytest.mark.parametrize("kind", [Doer, Trapper])
async def test_a_link_to_oneself_does_nothing(system: ActorSystem, kind: type[Doer]) -> None:
    log: list[Any] = []
    me = system.spawn(kind, log)
    await me.ask(lambda ctx: ctx.link(ctx.self))
    await system.settle()
    assert (me.is_alive, log) == (True, [])
    me.fail(BAD)
    assert (await me.terminated()).cause is BAD
    assert log == []


async def test_an_exit_needs_no_room_and_comes_after_the_peers_last_words(system: ActorSystem) -> None:  # cases 6, 11
    log: list[Any] = []
    me = system.spawn(AsyncTrapper, log, mailbox=MailboxConfig(capacity=2))

    def last_words(ctx: Context, message: Any) -> None:
        ctx.link(me)
        me.tell("first")
        me.tell("second")
        raise BAD.with_traceback(None)

    peer = system.spawn(last_words)
    async with Busy(system, me):
        peer.tell("go")
        await peer.terminated()
    assert log[:2] == ["first", "second"]
    assert exits(log[2:]) == [(peer, ExitReason(ExitKind.FAIL, BAD))]


@pytest.mark.parametrize("what", ["somebody", None])
async def test_only_refs_can_be_linked_and_trap_exit_is_yes_or_no(system: ActorSystem, what: Any) -> None:  # J9
    me = system.spawn(Doer, supervision=Supervision(Directive.RESUME))
    for act in (
        lambda ctx: ctx.link(what),
        lambda ctx: ctx.unlink(what),
        lambda ctx: setattr(ctx, "trap_exit", what),
    ):
        with pytest.raises(TypeError):
            await me.ask(act)
    assert await me.ask(lambda ctx: ctx.trap_exit) is False


async def test_nobody_is_linked_to_an_actor_of_another_system(system: ActorSystem) -> None:
    async with ActorSystem("other") as other:
        me = system.spawn(Doer, supervision=Supervision(Directive.RESUME))
        stranger = other.spawn(Doer)
        with pytest.raises(WrongLoop):
            await link(me, stranger)
        stranger.kill()
        await stranger.terminated()
        with pytest.raises(WrongLoop):
            await link(me, stranger)
        await system.settle()
        assert me.is_alive


async def test_an_actor_that_has_ended_links_nobody(system: ActorSystem) -> None:
    me, peer = system.spawn(Doer), system.spawn(Doer)
    ctx: Context = await me.ask(lambda ctx: ctx)
    await end(me, BAD)
    with pytest.raises(ActorTerminated):
        ctx.link(peer)
    ctx.unlink(peer)
    await system.settle()
    assert peer.is_alive


@pytest.mark.parametrize("shape", ["star", "chain"])
async def test_what_is_logged_of_a_failure_does_not_grow_with_how_far_it_has_spread(  # one record per failure
    system: ActorSystem, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    count = 60
    cause = ValueError("spreads")
    refs = [system.spawn(Doer) for _ in range(count)]
    for number, ref in enumerate(refs[1:]):
        await link(ref, refs[0 if shape == "star" else number])
    await end(refs[0], cause)
    for ref in refs:
        assert (await ref.terminated()).cause is cause
    await system.shutdown()
    formatter = logging.Formatter()
    sizes = [len(formatter.format(record)) for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(sizes) == count
    assert sizes[-1] < 3 * sizes[1], sizes


# -- against a model

SIZE = 6
Step = tuple[str, int, int]


@settings(max_examples=40, deadline=None)
@given(
    st.sets(st.integers(0, SIZE - 1), max_size=3),
    st.lists(
        st.tuples(
            st.sampled_from(["link", "link", "unlink", "stop", "fail", "kill"]),
            st.integers(0, SIZE - 1),
            st.integers(0, SIZE - 1),
        ),
        max_size=14,
    ),
)
def test_an_abnormal_end_takes_along_all_that_can_be_reached_and_do_not_trap(
    trapping: set[int], steps: list[Step]
) -> None:  # cases 19 to 21, 017
    links: set[frozenset[int]] = set()
    alive = set(range(SIZE))
    wanted: list[list[int]] = [[] for _ in range(SIZE)]

    def peers_of(one: int) -> set[int]:
        return {other for pair in links if one in pair for other in pair if other != one}

    def ends(one: int, abnormally: bool) -> None:
        alive.discard(one)
        others = peers_of(one)
        links.difference_update([frozenset((one, other)) for other in others])
        for other in others:
            if other in trapping:
                wanted[other].append(one)
            elif abnormally and other in alive:
                ends(other, abnormally=True)

    async def main() -> None:
        logs: list[list[Any]] = [[] for _ in range(SIZE)]
        async with asyncio.timeout(120.0), ActorSystem(config=SystemConfig(supervision=STOP)) as system:
            refs = [system.spawn(Trapper if number in trapping else Doer, logs[number]) for number in range(SIZE)]
            for do, one, other in steps:
                if one not in alive or other not in alive:
                    continue
                if do in ("link", "unlink"):
                    await refs[one].ask(lambda ctx, do=do, other=other: getattr(ctx, do)(refs[other]))
                    if one != other:
                        (links.add if do == "link" else links.discard)(frozenset((one, other)))
                else:
                    ENDS[do](refs[one])
                    ends(one, abnormally=do != "stop")
                await system.settle()
                assert {number for number in range(SIZE) if refs[number].is_alive} == alive
            for number in trapping & alive:
                heard = [refs.index(notice.ref) for notice in logs[number]]
                assert sorted(heard) == sorted(wanted[number])

    asyncio.run(main())
