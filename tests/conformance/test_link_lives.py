"""Links over whole lives: chains, restarts, failed starts, the end of the system (E11, cases 17, 19, 22, 014, 017)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from greenroom import (
    ActorSystem,
    ChildSpec,
    Directive,
    ExitKind,
    ExitReason,
    LinkBroken,
    ManualClock,
    State,
    Supervision,
    Supervisor,
)
from tests.conformance.bonded import (
    AT_ONCE,
    SLOWLY,
    AsyncDoer,
    AsyncTrapper,
    Trapper,
    downs,
    exits,
    link,
    link_to,
    monitor_all,
    raising,
)
from tests.conformance.watchers import BAD, Doer, Ref, end
from tests.gates import Event

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
) -> None:
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
async def test_one_that_is_restarted_passes_nothing_on(system: ActorSystem, shape: str) -> None:  # cases 17, 19
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


async def test_two_linked_actors_that_fail_at_once_fail_each_with_its_own_cause(system: ActorSystem) -> None:  # case 19
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


async def test_an_actor_that_is_stopping_ends_in_peace_though_its_peer_fails(system: ActorSystem) -> None:  # case 19
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


async def test_a_link_fires_at_the_final_end_and_not_before(system: ActorSystem) -> None:  # case 17, links and restarts
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


async def test_the_links_of_an_actor_stay_when_it_restarts(system: ActorSystem) -> None:  # 014
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
) -> None:  # 014
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
) -> None:  # 015
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


async def test_the_links_of_a_supervisors_child_fire_when_it_is_not_restarted_any_more(
    system: ActorSystem,
) -> None:  # kill, 015, 016
    async def end_child(child: Ref) -> None:
        child.fail(BAD)
        await child.terminated()

    supervisor = system.spawn(Supervisor, Supervisor.spec([ChildSpec("worker", Doer)], intensity=1))
    await supervisor.started()
    child = system.actor(f"{supervisor.path}/worker")
    assert child is not None
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
) -> None:  # 41, 015
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
) -> None:
    refs: list[Ref] = []
    parent = system.spawn(kind)
    refs.extend([parent, *(system.spawn(kind, parent=parent) for _ in range(5)), system.spawn(kind)])
    for ref in refs:
        await ref.ask(lambda ctx: [ctx.link(other) for other in refs] and None)
        await ref.ask(lambda ctx: [ctx.monitor(other) for other in refs] and None)
    await system.shutdown()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert system.report is not None
    assert system.report.forced == ()
    assert [await ref.terminated() for ref in refs] == [ExitReason(ExitKind.SHUTDOWN)] * len(refs)


async def test_an_actor_linked_to_its_parent_takes_it_along(system: ActorSystem) -> None:  # case 19
    parent = system.spawn(Doer)
    children: list[Ref] = await parent.ask(lambda ctx: [ctx.spawn(Doer) for _ in range(3)])
    await children[0].ask(link_to(parent))
    await end(children[0], BAD)
    assert (await parent.terminated()).cause is BAD
    assert [(await ref.terminated()).kind for ref in children[1:]] == [ExitKind.SHUTDOWN] * 2
