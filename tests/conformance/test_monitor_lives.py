"""Monitors and the lives of both sides: restarts, ends, what is left, what cannot be (E11, M8, 014, 017)."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Context,
    Directive,
    ExitKind,
    ExitReason,
    ManualClock,
    MonitorRef,
    OnRestart,
    State,
    StopChild,
    Supervision,
    Supervisor,
)
from greenroom.errors import WrongLoop
from tests.conformance.askers import until
from tests.conformance.bonded import AT_ONCE, ENDS, SLOWLY, AsyncDoer, Busy, downs, monitor_all, raising
from tests.conformance.watchers import BAD, Doer, Plain, Ref, end
from tests.system.mortals import ours


@pytest.fixture
def quiet() -> Iterator[None]:
    """A log that is kept would hold what it was told of."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def test_no_down_comes_while_the_monitored_actor_restarts(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 17
    log: list[Any] = []
    target, holder = system.spawn(Doer, supervision=SLOWLY), system.spawn(Doer, log)
    (mref,) = await holder.ask(monitor_all(target))
    for _ in range(3):
        target.tell(raising(BAD))
        await system.settle()
        assert (target.state, log) == (State.RESTARTING, [])
        await clock.advance(1.0)
        target.restart()
        await system.settle()
        assert (target.state, log) == (State.RUNNING, [])
    target.tell(raising(BAD))  # the fourth in a minute
    await target.terminated()
    await system.settle()
    assert downs(log) == [(mref, target, ExitReason(ExitKind.FAIL, BAD))]


async def test_a_monitor_is_told_of_an_actor_that_ends_while_it_waits_to_restart(
    system: ActorSystem, clock: ManualClock
) -> None:  # 014, 015
    log: list[Any] = []
    target, holder = system.spawn(Doer, supervision=SLOWLY), system.spawn(Doer, log)
    await holder.ask(monitor_all(target))
    target.fail(BAD)
    await system.settle()
    await holder.ask(monitor_all(target))  # nor is one that waits an ended one
    await system.settle()
    assert log == []
    target.kill()
    await target.terminated()
    await system.settle()
    assert [down.reason.kind for down in log] == [ExitKind.KILLED] * 2


async def test_a_supervisors_child_is_down_when_it_is_stopped_for_good(system: ActorSystem) -> None:  # case 17, 016
    log: list[Any] = []
    supervisor = system.spawn(Supervisor, Supervisor.spec([ChildSpec("worker", Doer)], intensity=10))
    await supervisor.started()
    child = system.actor("/" + supervisor.name + "/worker")
    assert child is not None
    holder = system.spawn(Doer, log)
    (mref,) = await holder.ask(monitor_all(child))
    for bring_about in ENDS.values():
        bring_about(child)
        await system.settle()
    assert child.is_alive
    assert log == []
    await supervisor.ask(StopChild("worker"))
    await system.settle()
    assert [(down.mref, down.reason.kind) for down in log] == [(mref, ExitKind.SHUTDOWN)]


@pytest.mark.parametrize("when", ["before", "queued", "resting"])
@pytest.mark.parametrize("policy", list(OnRestart))
async def test_the_monitors_of_an_actor_end_when_it_restarts(
    system: ActorSystem, clock: ManualClock, when: str, policy: OnRestart
) -> None:  # 014
    log: list[Any] = []
    target = system.spawn(Plain)
    supervision = Supervision(backoff=SLOWLY.backoff, mailbox=policy)
    holder = system.spawn(AsyncDoer, log, supervision=supervision)
    await holder.ask(monitor_all(target))
    if when == "queued":
        with pytest.raises(ValueError, match="bad"):
            async with Busy(system, holder, raising(BAD)):
                await end(target)
        await system.settle()
    else:
        holder.fail(BAD)
        await system.settle()
    assert (holder.state, log) == (State.RESTARTING, [])
    if when == "resting":
        await end(target)
    await clock.advance(1.0)
    assert holder.state is State.RUNNING
    if when == "before":
        await end(target)
        await system.settle()
    assert log == []
    (mref,) = await holder.ask(monitor_all(target))
    await system.settle()
    assert [down.mref for down in log] == [mref]


class Rewatcher(Actor[Any, Any]):
    """Monitors `target` anew in each of its lives; with `fails`, its start fails after that."""

    def __init__(self, target: Ref, log: list[Any], fails: list[BaseException]) -> None:
        self.target = target
        self.log = log
        self.fails = fails

    def pre_start(self) -> None:
        self.log.append(self.ctx.monitor(self.target))
        if self.fails:
            raise self.fails.pop().with_traceback(None)

    def receive(self, message: Any) -> None:
        if isinstance(message, BaseException):
            raise message.with_traceback(None)
        self.log.append(message)


@pytest.mark.parametrize("how", ["failure", "restart", "failed start"])
async def test_an_actor_that_monitors_when_it_starts_has_one_monitor_however_often_it_restarts(
    system: ActorSystem, how: str
) -> None:  # 014
    log: list[Any] = []
    target = system.spawn(Plain)
    fails: list[BaseException] = [BAD] * 3 if how == "failed start" else []
    others = 3 - len(fails)
    holder = system.spawn(Rewatcher, target, log, fails, supervision=AT_ONCE)
    for _ in range(others):
        await holder.started()
        holder.restart() if how == "restart" else holder.tell(BAD)
        await system.settle()
    await holder.ask("hello")
    assert [type(one) for one in log] == [*[MonitorRef] * 4, str]
    await end(target)
    await system.settle()
    assert [(down.mref, down.ref) for down in log[5:]] == [(log[3], target)]


async def test_the_new_incarnation_has_no_monitor_of_the_old_one_to_give_up(system: ActorSystem) -> None:  # 014
    log: list[Any] = []
    target, holder = system.spawn(Plain), system.spawn(Doer, log, supervision=AT_ONCE)
    (mref,) = await holder.ask(monitor_all(target))
    holder.fail(BAD)
    await system.settle()
    assert await holder.ask(lambda ctx: ctx.demonitor(mref)) is False
    await end(target)
    await system.settle()
    assert log == []


# -- what cannot be


@pytest.mark.parametrize("what", ["somebody", None, 7])
async def test_only_refs_can_be_monitored(system: ActorSystem, what: Any) -> None:  # J9
    holder = system.spawn(Doer, supervision=Supervision(Directive.RESUME))
    with pytest.raises(TypeError):
        await holder.ask(lambda ctx: ctx.monitor(what))


async def test_nobody_monitors_an_actor_of_another_system(system: ActorSystem) -> None:
    async with ActorSystem("other") as other:
        stranger = other.spawn(Plain)
        log: list[Any] = []
        holder = system.spawn(Doer, log, supervision=Supervision(Directive.RESUME))
        with pytest.raises(WrongLoop):
            await holder.ask(monitor_all(stranger))
        await end(stranger)
        with pytest.raises(WrongLoop):
            await holder.ask(monitor_all(stranger))
        await system.settle()
        assert log == []


async def test_an_actor_that_has_ended_monitors_nobody(system: ActorSystem) -> None:
    target, holder = system.spawn(Plain), system.spawn(Doer)
    ctx: Context = await holder.ask(lambda ctx: ctx)
    mref = ctx.monitor(target)
    await end(holder)
    with pytest.raises(ActorTerminated):
        ctx.monitor(target)
    ctx.demonitor(mref)
    await end(target)
    await system.settle()


async def test_an_actor_that_monitors_itself_ends_in_peace(system: ActorSystem) -> None:
    log: list[Any] = []
    holder = system.spawn(Doer, log)
    await holder.ask(lambda ctx: ctx.monitor(ctx.self))
    await end(holder)
    await system.settle()
    assert log == []
    assert system.dead_letters.count == 0


@pytest.mark.parametrize("what", ["somebody", None, 7])
async def test_only_monitors_can_be_given_up(system: ActorSystem, what: Any) -> None:  # J9
    target = system.spawn(Plain)
    holder = system.spawn(Doer, supervision=Supervision(Directive.RESUME))
    with pytest.raises(TypeError):
        await holder.ask(lambda ctx: ctx.demonitor(what))
    await holder.ask(monitor_all(target))
    with pytest.raises(TypeError):
        await holder.ask(lambda ctx: ctx.demonitor(what))


# -- nothing is left


async def assert_none_grown(before: Counter[str]) -> None:
    """There is no more of anything than `before`; what threads that are ending still hold goes with them."""
    with suppress(TimeoutError):
        async with asyncio.timeout(120.0):
            await until(lambda: gc.collect() is not None and not ours() - before)
    assert ours() - before == Counter()


def link_and_unlink(ctx: Context, ref: Ref) -> None:
    ctx.link(ref)
    ctx.unlink(ref)


Use = Callable[[Context, Ref], Any]
USES: dict[str, Use] = {
    "monitor": lambda ctx, ref: ctx.monitor(ref),
    "monitored many times": lambda ctx, ref: [ctx.monitor(ref) for _ in range(10)] and None,
    "given up": lambda ctx, ref: ctx.demonitor(ctx.monitor(ref)),
    "given up unflushed": lambda ctx, ref: ctx.demonitor(ctx.monitor(ref), flush=False),
    "link": lambda ctx, ref: ctx.link(ref),
    "unlinked": link_and_unlink,
    "watch": lambda ctx, ref: ctx.watch(ref, "gone"),
}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.config(dead_letters=0)
async def test_nothing_is_left_with_the_target_when_its_holders_have_ended(
    system: ActorSystem, use: str, how: str
) -> None:  # M8
    target = system.spawn(Doer, supervision=Supervision(Directive.RESUME))

    async def come_and_go(count: int) -> None:
        holders = [system.spawn(Doer) for _ in range(count)]
        for holder in holders:
            await holder.ask(lambda ctx: USES[use](ctx, target) and None)
        for holder in holders:
            ENDS[how](holder)
            await holder.terminated()
        await system.settle()
        await asyncio.sleep(0)  # or what woke this task up is in memory still

    await come_and_go(3)  # what is made once is made now
    gc.collect()
    before = ours()
    await come_and_go(20)
    await assert_none_grown(before)
    assert target.is_alive


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.config(dead_letters=0)
async def test_nothing_is_left_with_the_holder_when_its_targets_have_ended(
    system: ActorSystem, use: str, how: str
) -> None:  # M8
    class Forgetful(Doer):
        def receive(self, message: Any) -> Any:
            return message(self.ctx) if callable(message) else None

    holder = system.spawn(Forgetful, supervision=Supervision(Directive.RESUME))

    async def come_and_go(count: int, already_dead: bool) -> None:
        targets = [system.spawn(Plain) for _ in range(count)]
        for target in targets:
            if already_dead:
                ENDS[how](target)
                await target.terminated()
            await holder.ask(lambda ctx, target=target: USES[use](ctx, target) and None)
            ENDS[how](target)
        await system.settle()

    await come_and_go(3, False)
    await come_and_go(3, True)
    gc.collect()
    before = ours()
    await come_and_go(20, False)
    await come_and_go(20, True)
    await assert_none_grown(before)
    assert holder.is_alive
