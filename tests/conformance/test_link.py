"""Links: two actors share their fate when one of them ends abnormally, for good (decision 017)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Context,
    Directive,
    Exit,
    ExitKind,
    ExitReason,
    LinkBroken,
    MailboxConfig,
    ManualClock,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
    handles,
)
from greenroom.errors import WrongLoop
from tests.conformance.lives import actor_at, report_of, suspending
from tests.conformance.relations import (
    AT_ONCE,
    BAD,
    ENDS,
    SLOWLY,
    STOP,
    AsyncDoer,
    AsyncTrapper,
    Busy,
    Doer,
    Panic,
    Plain,
    Ref,
    Trapper,
    Watcher,
    downs,
    end,
    exits,
    link,
    link_to,
    monitor_all,
    raising,
)
from tests.gates import Event

KINDS = pytest.mark.parametrize("kind", [Doer, AsyncDoer])
SIDES = pytest.mark.parametrize("side", ["mine", "theirs", "both"])


@SIDES
@KINDS
async def test_a_linked_peer_ends_normally_and_i_live(system: ActorSystem, kind: type[Doer], side: str) -> None:
    # case 19, E11
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
) -> None:  # case 19, E11
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
async def test_a_linked_peer_is_killed_and_my_link_is_broken(system: ActorSystem, side: str) -> None:
    # cases 19 and 20, E11
    me, peer = system.spawn(Doer), system.spawn(Doer)
    await link(me, peer, side)
    peer.kill()
    reason = await me.terminated()
    assert reason.kind is ExitKind.FAIL
    assert isinstance(reason.cause, LinkBroken)
    assert reason.cause.peer == peer
    assert str(peer) in str(reason.cause)


async def test_a_linked_peer_is_shut_down_and_i_live(system: ActorSystem) -> None:  # case 19, E11: 017
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
) -> None:  # E11
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
) -> None:  # E11
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


async def test_an_exit_is_a_message_to_handles_and_without_a_handler_a_dead_letter(system: ActorSystem) -> None:
    # case 19, E11, notices reach, B4
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
) -> None:  # case 19, E11
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
async def test_a_kill_cannot_be_trapped(system: ActorSystem, kind: type[Doer]) -> None:  # cases 19 and 20, E11
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


async def test_a_suspended_handler_that_traps_exits_is_killed_all_the_same(system: ActorSystem) -> None:
    # cases 19 and 20, E11
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
async def test_after_unlink_nothing_comes_of_the_others_end(system: ActorSystem, how: str, by: str) -> None:
    # cases 19 and 21, E11
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
async def test_unlink_takes_back_an_exit_that_is_queued(system: ActorSystem, kind: type[Doer], how: str) -> None:
    # cases 19 and 21, E11
    log: list[Any] = []
    me, peer = system.spawn(kind, log), system.spawn(Doer)
    await link(me, peer)
    async with Busy(system, me, lambda ctx: ctx.unlink(peer)):
        ENDS[how](peer)
        await peer.terminated()
        await asyncio.sleep(0)
    assert (me.is_alive, log) == (True, [])


async def test_a_link_made_anew_after_its_exit_was_taken_back_is_told_once(system: ActorSystem) -> None:
    # cases 13, 19, 21, E11
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


async def test_unlinking_a_stranger_does_nothing(system: ActorSystem) -> None:  # case 19, E11
    me, stranger, dead = system.spawn(Doer), system.spawn(Doer), await end(system.spawn(Plain))
    for ref in (stranger, dead, me):
        await me.ask(lambda ctx, ref=ref: ctx.unlink(ref))
    await end(stranger, BAD)
    await system.settle()
    assert me.is_alive


LONG = 50


class Seen(Doer):
    """Counts its starts, failures and ends."""

    def pre_start(self) -> None:
        self.log.append("start")

    def pre_restart(self, cause: BaseException | None) -> None:
        self.log.append(cause)

    def post_stop(self) -> None:
        self.log.append("end")


async def in_a_row(system: ActorSystem, shape: str, supervision: Supervision) -> tuple[list[Ref], list[list[Any]]]:
    """Actors of which each is linked to the next; in a ring, the last to the first; or each to all."""
    logs: list[list[Any]] = [[] for _ in range(LONG)]
    refs = [system.spawn(Seen, log, supervision=supervision) for log in logs]
    for number, ref in enumerate(refs):
        if shape == "web":
            await ref.ask(lambda ctx, number=number: [ctx.link(other) for other in refs[number:]] and None)
        elif shape == "ring" or number < LONG - 1:
            await link(ref, refs[(number + 1) % LONG])
    return refs, logs


@pytest.mark.parametrize("shape", ["chain", "ring", "web"])
@pytest.mark.parametrize("first", [0, LONG // 2])
async def test_a_failure_goes_through_all_that_are_linked_and_each_fails_once(  # case 19
    system: ActorSystem, shape: str, first: int, caplog: pytest.LogCaptureFixture
) -> None:  # cases 14, 17, 22, E11
    cause = ValueError("spreads")
    refs, logs = await in_a_row(system, shape, Supervision(Directive.STOP))
    refs[first].fail(cause)
    for ref in refs:
        reason = await ref.terminated()
        assert (reason.kind, reason.cause is cause) == (ExitKind.FAIL, True)
    await system.settle()
    assert logs == [["start", "end"]] * LONG
    await system.shutdown()
    failures = [record.__dict__.get("actor") for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(failures) == len(set(failures)) == LONG


@pytest.mark.parametrize("shape", ["chain", "ring"])
async def test_one_that_is_restarted_passes_nothing_on(system: ActorSystem, shape: str) -> None:
    # cases 14, 17, 19, 22, E11
    refs, logs = await in_a_row(system, shape, AT_ONCE)
    middle = LONG // 2
    refs[middle].kill()
    await refs[middle].terminated()
    await system.settle()
    for number, (ref, log) in enumerate(zip(refs, logs, strict=True)):
        if number == middle:
            assert log == ["start", "end"]
        elif abs(number - middle) == 1:
            start, cause, *rest = log
            assert (start, type(cause), rest) == ("start", LinkBroken, ["end", "start"])
            assert ref.state is State.RUNNING
        else:
            assert log == ["start"]


async def test_two_linked_actors_that_fail_at_once_fail_each_with_its_own_cause(system: ActorSystem) -> None:
    # cases 14, 17, 19, 22, E11
    log: list[Any] = []
    one, other = system.spawn(Seen, log), system.spawn(Seen, log)
    await other.started()
    await link(one, other)
    causes = ValueError("one"), ValueError("other")
    one.fail(causes[0])
    other.fail(causes[1])
    assert (await one.terminated()).cause is causes[0]
    assert (await other.terminated()).cause is causes[1]
    await system.settle()
    assert log == ["start", "start", "end", "end"]


async def test_an_actor_that_is_stopping_ends_in_peace_though_its_peer_fails(system: ActorSystem) -> None:
    # cases 14, 17, 19, 22, E11
    class Slow(Doer):
        async def pre_stop(self) -> None:
            entered.set()
            await gate.wait()

    entered, gate = Event(), Event()
    me, peer = system.spawn(Slow), system.spawn(Doer)
    await link(me, peer)
    me.stop()
    await entered.wait()
    await end(peer, BAD)
    gate.set()
    assert await me.terminated() == ExitReason(ExitKind.NORMAL)


# -- restarts


async def test_a_link_fires_at_the_final_end_and_not_before(system: ActorSystem) -> None:
    # cases 14, 19, 22, E11, case 17, links and restarts
    log: list[Any] = []
    peer = system.spawn(Doer, supervision=Supervision(max_restarts=2, within=60.0, backoff=None))
    me, trapper = system.spawn(Doer), system.spawn(Trapper, log)
    await link(me, peer)
    await link(peer, trapper, "both")
    for number in range(2):
        peer.tell(raising(ValueError(number)))
        await system.settle()
        assert (peer.state, me.is_alive, log) == (State.RUNNING, True, [])
    last = ValueError("last")
    peer.tell(raising(last))
    assert (await me.terminated()).cause is last
    await system.settle()
    assert exits(log) == [(peer, ExitReason(ExitKind.FAIL, last))]


async def test_the_links_of_an_actor_stay_when_it_restarts(system: ActorSystem) -> None:
    # cases 14, 17, 19, 22, E11: 014
    me, peer, third = system.spawn(Doer, supervision=AT_ONCE), system.spawn(Doer), system.spawn(Doer)
    await link(me, peer)
    await link(third, me)
    me.restart()
    me.fail(BAD)
    await system.settle()
    assert (me.state, peer.is_alive, third.is_alive) == (State.RUNNING, True, True)
    me.kill()
    for ref in (peer, third):
        assert isinstance((await ref.terminated()).cause, LinkBroken)


@pytest.mark.parametrize("again", [True, False])
async def test_whether_exits_are_trapped_is_for_each_incarnation_to_say(
    system: ActorSystem, clock: ManualClock, again: bool
) -> None:  # cases 14, 17, 19, 22, E11: 014
    class Once(Doer):
        def pre_start(self) -> None:
            started.append(self)
            assert self.ctx.trap_exit is False
            self.ctx.trap_exit = len(started) == 1 or again

    started: list[Any] = []
    log: list[Any] = []
    cause = ValueError("theirs")
    me, peer, later = system.spawn(Once, log, supervision=SLOWLY), system.spawn(Doer), system.spawn(Doer)
    await link(me, peer)
    await link(me, later)
    me.fail(BAD)
    await system.settle()
    await end(peer, cause)  # while it waits to be made afresh
    assert (me.state, log) == (State.RESTARTING, [])
    await clock.advance(1.0)
    if again:
        assert exits(log) == [(peer, ExitReason(ExitKind.FAIL, cause))]
        assert len(started) == 2
    else:
        assert (me.state, log) == (State.RESTARTING, [])  # it failed with it, and waits anew
        await clock.advance(1.0)
        assert len(started) == 3
        await end(later)
        await system.settle()
        assert log == []


async def test_a_peer_that_is_killed_or_stopped_while_it_waits_to_restart_has_ended(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 14, 17, 19, 22, E11: 015
    log: list[Any] = []
    trapper = system.spawn(Trapper, log)
    peers = [system.spawn(Doer, supervision=SLOWLY) for _ in range(2)]
    for peer in peers:
        await link(trapper, peer)
        peer.fail(BAD)
    await system.settle()
    assert log == []
    peers[0].kill()
    await peers[0].terminated()
    peers[1].stop()
    await system.settle()
    assert [one.ref for one in log] == peers
    assert log[0].reason.kind is ExitKind.KILLED
    assert log[1].reason == await peers[1].terminated()


async def test_the_links_of_a_supervisors_child_fire_when_it_is_not_restarted_any_more(system: ActorSystem) -> None:
    # cases 14, 17, 19, 22, E11: kill, 015, 016
    async def end_child(child: Ref) -> None:
        child.fail(BAD)
        await child.terminated()

    supervisor = system.spawn(Supervisor, Supervisor.spec([ChildSpec("worker", Doer)], intensity=1))
    await supervisor.started()
    child = actor_at(system, f"{supervisor.path}/worker")
    me = system.spawn(Doer)
    await link(me, child)
    child.kill()
    await system.settle()
    assert (child.is_alive, me.is_alive) == (True, True)
    await end_child(child)
    reason = await child.terminated()
    assert (reason.kind, reason.cause) == (ExitKind.FAIL, BAD)
    assert (await me.terminated()).cause is BAD


@pytest.mark.parametrize("above", [Directive.RESUME, Directive.RESTART, Directive.STOP])
async def test_an_escalated_failure_reaches_the_linked_if_it_ends_the_actor(
    system: ActorSystem, above: Directive
) -> None:  # cases 14, 17, 19, 22, E11: 41, 015
    log: list[Any] = []
    parent = system.spawn(Doer, supervision=Supervision(above, backoff=None))
    child: Ref = await parent.ask(lambda ctx: ctx.spawn(Doer, supervision=Supervision(Directive.ESCALATE)))
    me, holder = system.spawn(Doer), system.spawn(Doer, log)
    await link(me, child)
    (mref,) = await holder.ask(monitor_all(child))
    child.fail(BAD)
    await system.settle()
    if above is Directive.RESUME:
        assert (child.state, me.is_alive, log) == (State.RUNNING, True, [])
    else:
        assert (await me.terminated()).cause is BAD
        assert downs(log) == [(mref, child, ExitReason(ExitKind.FAIL, BAD))]


# -- the end of everything


@pytest.mark.parametrize("kind", [Doer, AsyncDoer, Trapper, AsyncTrapper])
async def test_a_shutdown_makes_no_failures_of_links(  # 017, M11
    system: ActorSystem, kind: type[Doer], caplog: pytest.LogCaptureFixture
) -> None:  # cases 14, 17, 19, 22, E11
    refs: list[Ref] = []
    parent = system.spawn(kind)
    refs.extend([parent, *(system.spawn(kind, parent=parent) for _ in range(5)), system.spawn(kind)])
    for ref in refs:
        await ref.ask(lambda ctx: [ctx.link(other) for other in refs] and None)
        await ref.ask(lambda ctx: [ctx.monitor(other) for other in refs] and None)
    await system.shutdown()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert report_of(system).forced == ()
    assert [await ref.terminated() for ref in refs] == [ExitReason(ExitKind.SHUTDOWN)] * len(refs)


async def test_an_actor_linked_to_its_parent_takes_it_along(system: ActorSystem) -> None:  # cases 14, 17, 19, 22, E11
    parent = system.spawn(Doer)
    children: list[Ref] = await parent.ask(lambda ctx: [ctx.spawn(Doer) for _ in range(3)])
    await children[0].ask(link_to(parent))
    await end(children[0], BAD)
    assert (await parent.terminated()).cause is BAD
    assert [(await ref.terminated()).kind for ref in children[1:]] == [ExitKind.SHUTDOWN] * 2


async def test_a_link_to_a_dead_actor_is_told_at_once(system: ActorSystem) -> None:  # E11, 017, case 13
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
async def test_linking_twice_is_one_link(system: ActorSystem, side: str) -> None:  # E11: 017
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
async def test_a_link_to_oneself_does_nothing(system: ActorSystem, kind: type[Doer]) -> None:  # E11
    log: list[Any] = []
    me = system.spawn(kind, log)
    await me.ask(lambda ctx: ctx.link(ctx.self))
    await system.settle()
    assert (me.is_alive, log) == (True, [])
    me.fail(BAD)
    assert (await me.terminated()).cause is BAD
    assert log == []


async def test_an_exit_needs_no_room_and_comes_after_the_peers_last_words(system: ActorSystem) -> None:
    # cases 6 and 11, E11
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
async def test_only_refs_can_be_linked_and_trap_exit_is_yes_or_no(system: ActorSystem, what: Any) -> None:  # E11, J9
    me = system.spawn(Doer, supervision=Supervision(Directive.RESUME))
    for act in (
        lambda ctx: ctx.link(what),
        lambda ctx: ctx.unlink(what),
        lambda ctx: setattr(ctx, "trap_exit", what),
    ):
        with pytest.raises(TypeError):
            await me.ask(act)
    assert await me.ask(lambda ctx: ctx.trap_exit) is False


async def test_nobody_is_linked_to_an_actor_of_another_system(system: ActorSystem) -> None:  # E11
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


async def test_an_actor_that_has_ended_links_nobody(system: ActorSystem) -> None:  # E11
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
) -> None:  # E11
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
) -> None:  # case 19, E11
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


class Failing(Doer):
    """Is linked to some, watches and monitors them, then fails to start."""

    def __init__(self, cause: BaseException, others: list[Ref]) -> None:
        super().__init__()
        self.cause = cause
        self.others = others

    def pre_start(self) -> Any:
        for other in self.others:
            self.ctx.link(other)
            self.ctx.watch(other)
            self.ctx.monitor(other)
        raise self.cause.with_traceback(None)


@suspending
class FailingLater(Failing):
    pass


@pytest.mark.parametrize("kind", [Failing, FailingLater])
async def test_the_links_and_watches_of_an_actor_whose_start_failed_are_honoured(  # case 22
    system: ActorSystem, kind: type[Failing]
) -> None:  # cases 17 and 58
    cause = ValueError("cannot start")
    log: list[Any] = []
    peer, trapper, watcher = system.spawn(Doer), system.spawn(Trapper, log), system.spawn(Watcher, log)
    failing = system.spawn(kind, cause, [peer, trapper])
    watcher.tell(lambda ctx: ctx.watch(failing))
    watcher.tell(lambda ctx: ctx.monitor(failing) and None)
    assert (await peer.terminated()).cause is cause
    await system.settle()
    reason = ExitReason(ExitKind.FAIL, cause)
    assert exits([one for one in log if type(one).__name__ == "Exit"]) == [(failing, reason)]
    assert [one for one in log if isinstance(one, tuple)] == [(failing, cause)]
    assert [one.reason for one in log if type(one).__name__ == "Down"] == [reason]
    await end(trapper)
    await system.settle()


@pytest.mark.parametrize("kind", [Failing, FailingLater])
async def test_a_start_that_is_tried_again_fires_no_link_until_it_is_given_up(
    system: ActorSystem, clock: ManualClock, kind: type[Failing]
) -> None:  # cases 17, 22, 58
    log: list[Any] = []
    cause = ValueError("cannot start")
    trapper = system.spawn(Trapper, log)
    failing = system.spawn(kind, cause, [trapper], supervision=SLOWLY)
    for _ in range(3):
        await system.settle()
        assert log == []
        await clock.advance(1.0)
    await system.settle()
    assert not failing.is_alive
    assert exits(log) == [(failing, ExitReason(ExitKind.FAIL, cause))]


@pytest.mark.parametrize("how", ["stop", "kill", "fail"])
async def test_a_peer_that_has_not_started_yet_can_be_linked_to(system: ActorSystem, how: str) -> None:
    # cases 17, 22, 58
    log: list[Any] = []
    trapper = system.spawn(Trapper, log)
    await trapper.started()

    def act(ctx: Context) -> None:
        peer = ctx.system.spawn(Plain)
        ctx.link(peer)
        ENDS[how](peer)

    await trapper.ask(act)
    await system.settle()
    (one,) = log
    assert one.reason == await one.ref.terminated()


async def test_a_link_made_in_post_stop_is_a_link(system: ActorSystem) -> None:  # cases 17, 22, 58
    class Last(Doer):
        def post_stop(self) -> None:
            self.ctx.link(peer[0])
            self.ctx.monitor(peer[0])

    peer: list[Ref] = []
    peer.append(system.spawn(Doer))
    me = system.spawn(Last)
    await end(me, BAD)
    assert (await peer[0].terminated()).cause is BAD
