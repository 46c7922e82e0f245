"""Monitors: one notice `Down` for each of them, when the monitored actor has ended for good (decision 017; E11, M8)."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorSystem,
    ActorTerminated,
    Behaviors,
    ChildSpec,
    Context,
    Directive,
    Down,
    ExitKind,
    ExitReason,
    MailboxConfig,
    ManualClock,
    MonitorRef,
    OnRestart,
    Overflow,
    State,
    StopChild,
    Supervision,
    Supervisor,
    handles,
)
from greenroom.errors import WrongLoop
from tests.conformance.lives import actor_at
from tests.conformance.relations import (
    AT_ONCE,
    BAD,
    ENDS,
    SLOWLY,
    AsyncDoer,
    Busy,
    Doer,
    Plain,
    Ref,
    downs,
    end,
    monitor_all,
    raising,
)
from tests.conformance.sending import until
from tests.conftest import Play
from tests.gates import turns
from tests.system.freed import ours

HOLDERS = pytest.mark.parametrize("kind", [Doer, AsyncDoer])


@HOLDERS
async def test_two_monitors_are_two_notices_with_refs_of_their_own(system: ActorSystem, kind: type[Doer]) -> None:
    # case 15
    log: list[Any] = []
    target, holder = system.spawn(Plain), system.spawn(kind, log)
    first, second = await holder.ask(monitor_all(target, target))
    assert isinstance(first, MonitorRef)
    assert first != second
    assert len({first, second}) == 2
    await end(target, BAD)
    await system.settle()
    reason = ExitReason(ExitKind.FAIL, BAD)
    assert downs(log) == [(first, target, reason), (second, target, reason)]
    assert log[0].reason.cause is BAD


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("dead", [False, True])
async def test_a_down_says_how_the_actor_ended(system: ActorSystem, how: str, dead: bool) -> None:  # M8, 017
    log: list[Any] = []
    target, holder = system.spawn(Plain), system.spawn(Doer, log)
    if dead:
        ENDS[how](target)
        await target.terminated()
    (mref,) = await holder.ask(monitor_all(target))
    if not dead:
        ENDS[how](target)
    reason = await target.terminated()
    await system.settle()
    assert downs(log) == [(mref, target, reason)]
    assert holder.is_alive


async def test_every_monitor_of_a_dead_actor_is_told_once(system: ActorSystem) -> None:  # cases 13, 15
    log: list[Any] = []
    dead, holder = await end(system.spawn(Plain)), system.spawn(Doer, log)
    mrefs = [*await holder.ask(monitor_all(dead, dead)), *await holder.ask(monitor_all(dead))]
    await system.settle()
    assert [down.mref for down in log] == mrefs


@HOLDERS
async def test_a_monitor_that_is_given_up_is_never_heard_of(system: ActorSystem, kind: type[Doer]) -> None:  # 017
    log: list[Any] = []
    target, holder = system.spawn(Plain), system.spawn(kind, log)
    first, second, third = await holder.ask(monitor_all(target, target, target))
    await holder.ask(lambda ctx: ctx.demonitor(first))
    await holder.ask(lambda ctx: ctx.demonitor(third, flush=False))  # nothing is queued, so nothing comes
    await end(target)
    await system.settle()
    assert [down.mref for down in log] == [second]


@pytest.mark.parametrize("flush", [True, False])
@pytest.mark.parametrize("dead", [True, False])
async def test_flushing_takes_back_a_down_that_is_queued(
    play: Play, system: ActorSystem, flush: bool, dead: bool
) -> None:  # 017
    log: list[Any] = []
    mrefs: list[MonitorRef] = []
    target, holder = system.spawn(Plain), system.spawn(AsyncDoer, log)
    if dead:
        await end(target)

    def give_up_the_second(ctx: Context) -> None:
        if dead:
            mrefs.extend(ctx.monitor(target) for _ in range(3))
        ctx.demonitor(mrefs[1], flush=flush)

    if not dead:
        mrefs += await holder.ask(monitor_all(target, target, target))
    async with Busy(system, holder, give_up_the_second):
        await end(target)
        await turns()  # so that they are queued, if they come from another loop
        assert log == []
    heard, kept = [down.mref for down in log], [mrefs[0], mrefs[2]]
    if dead and play.backend == "spread" and not flush:
        assert heard in (kept, mrefs)  # the second may be given up before that loop has answered
    else:
        assert heard == (kept if flush else mrefs)


async def test_flushing_is_the_default(system: ActorSystem) -> None:  # 017
    log: list[Any] = []
    dead, holder = await end(system.spawn(Plain)), system.spawn(Doer, log)
    await holder.ask(lambda ctx: ctx.demonitor(ctx.monitor(dead)))
    await system.settle()
    assert log == []


async def test_a_down_that_was_left_to_come_can_still_be_taken_back(system: ActorSystem) -> None:  # 017
    def twice(ctx: Context) -> None:
        mref = ctx.monitor(dead[0])
        ctx.demonitor(mref, flush=False)
        ctx.demonitor(mref)

    dead: list[Ref] = []
    log: list[Any] = []
    dead.append(await end(system.spawn(Plain)))
    await system.spawn(Doer, log).ask(twice)
    await system.settle()
    assert log == []


async def test_a_monitor_cannot_be_given_up_by_somebody_else(system: ActorSystem) -> None:
    log: list[Any] = []
    target, holder, stranger = system.spawn(Plain), system.spawn(Doer, log), system.spawn(Doer)
    (mref,) = await holder.ask(monitor_all(target))
    await stranger.ask(monitor_all(target))
    await stranger.ask(lambda ctx: ctx.demonitor(mref))
    await end(target)
    await system.settle()
    assert [down.mref for down in log] == [mref]


async def test_a_monitor_that_was_told_can_be_given_up_without_effect(system: ActorSystem) -> None:
    log: list[Any] = []
    dead, holder = await end(system.spawn(Plain)), system.spawn(Doer, log)
    (mref,) = await holder.ask(monitor_all(dead))
    await system.settle()
    (other,) = await holder.ask(monitor_all(dead))
    await holder.ask(lambda ctx: ctx.demonitor(mref))
    await system.settle()
    assert [down.mref for down in log] == [mref, other]


class Sorted(Actor[Any, Any]):
    """Has its messages sorted by type."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    @handles(Down)
    def down(self, notice: Down) -> Any:
        self.log.append(("down", notice.mref, self.ctx.sender))
        return Behaviors.stopped if notice.reason.abnormal else None

    @handles(object)
    def anything(self, message: Any) -> Any:
        return message(self.ctx)


async def test_a_down_is_a_message_to_handles(system: ActorSystem) -> None:  # notices reach
    log: list[Any] = []
    one, two = system.spawn(Plain), system.spawn(Plain)
    holder = system.spawn(Sorted, log)
    first, second = await holder.ask(monitor_all(one, two))
    await end(one)
    await system.settle()
    assert log == [("down", first, None)]
    assert holder.is_alive
    await end(two, BAD)  # what the handler returns counts, as for any message
    assert (await holder.terminated()).kind is ExitKind.NORMAL
    assert log[1:] == [("down", second, None)]


async def test_a_down_is_a_message_to_functions_and_to_what_one_became(system: ActorSystem) -> None:  # notices reach
    log: list[Any] = []

    def note(ctx: Context, message: Any) -> Any:
        if callable(message):
            return message(ctx)
        log.append((ctx.name, type(message)))
        return None

    target = system.spawn(Plain)
    plain = system.spawn(note, name="plain")
    became = system.spawn(Doer, name="became")
    for holder in (plain, became):
        await holder.ask(monitor_all(target))
    await became.ask(lambda ctx: ctx.become(note))
    await end(target)
    await system.settle()
    assert sorted(log) == [("became", Down), ("plain", Down)]


async def test_a_down_that_nobody_handles_is_a_dead_letter_and_no_message_of_the_ledger(system: ActorSystem) -> None:
    # notices, B4
    class Deaf(Actor[Any, Any]):
        @handles(str)
        def word(self, message: str) -> Any:
            return [self.ctx.monitor(target) for target in targets]

    targets: list[Ref] = []
    targets.append(system.spawn(Plain))
    holder = system.spawn(Deaf)
    await holder.ask("monitor")
    await end(targets[0])
    await system.settle()
    (letter,) = system.dead_letters.recent()
    assert isinstance(letter.message, Down)
    assert (letter.recipient, letter.reason) == (holder, "unhandled")
    assert (system.ledger().sent, system.ledger().handled) == (1, 1)
    assert holder.is_alive


async def test_what_the_dying_actor_said_comes_before_the_down(system: ActorSystem) -> None:  # case 6
    log: list[Any] = []
    holder = system.spawn(Doer, log)

    def last_words(ctx: Context, message: Any) -> None:
        for word in range(3):
            holder.tell(word)
        raise BAD.with_traceback(None)

    target = system.spawn(last_words)
    await holder.ask(monitor_all(target))
    target.tell("go")
    await target.terminated()
    holder.tell("after")
    await system.settle()
    assert [one if not isinstance(one, Down) else Down for one in log] == [0, 1, 2, Down, "after"]


@pytest.mark.parametrize("overflow", list(Overflow))
async def test_a_full_mailbox_refuses_no_down_and_loses_none(system: ActorSystem, overflow: Overflow) -> None:
    # case 11
    log: list[Any] = []
    targets = [system.spawn(Plain) for _ in range(5)]
    holder = system.spawn(AsyncDoer, log, mailbox=MailboxConfig(capacity=1, overflow=overflow))
    mrefs = await holder.ask(monitor_all(*targets))
    async with Busy(system, holder):
        holder.tell("queued")
        for target in targets:
            await end(target)
        if overflow is not Overflow.REJECT:
            holder.tell("one too many")
    kept = "one too many" if overflow is Overflow.DROP_OLD else "queued"
    assert [one for one in log if isinstance(one, str)] == [kept]
    assert [one.mref for one in log if isinstance(one, Down)] == mrefs


async def test_a_down_needs_no_priority(system: ActorSystem) -> None:  # M15: keys are for messages
    log: list[Any] = []
    seen: list[Any] = []

    def key(message: Any) -> int:
        seen.append(message)
        return 0

    target = system.spawn(Plain)
    holder = system.spawn(Doer, log, mailbox=MailboxConfig(priority=key))
    (mref,) = await holder.ask(monitor_all(target))
    await end(target)
    await system.settle()
    assert [down.mref for down in log] == [mref]
    assert not any(isinstance(message, Down) for message in seen)


# -- against a model


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from(["monitor", "demonitor", "leave"]), st.integers(0, 5)), max_size=8),
            st.sets(st.integers(0, 2), max_size=2),
        ),
        max_size=6,
    )
)
def test_each_monitor_is_told_exactly_once(rounds: list[tuple[list[tuple[str, int]], set[int]]]) -> None:  # 15, 017
    async def main() -> None:
        log: list[Any] = []
        made: list[MonitorRef] = []
        given_up: set[MonitorRef] = set()
        dead: set[Ref] = set()

        def act(ctx: Context, steps: list[tuple[str, int]]) -> None:
            for do, number in steps:
                if do == "monitor":
                    made.append(ctx.monitor(targets[number % 3]))
                elif number < len(made):
                    mref = made[-1 - number]
                    ctx.demonitor(mref, flush=do == "demonitor")
                    if do == "demonitor" or mref.ref not in dead:
                        given_up.add(mref)

        async with asyncio.timeout(120.0), ActorSystem() as system:
            holder = system.spawn(Doer, log)
            targets = [system.spawn(Plain) for _ in range(3)]
            heard: set[MonitorRef] = set()
            for steps, ending in rounds:
                await holder.ask(lambda ctx, steps=steps: act(ctx, steps))
                for number in ending:
                    dead.add(await end(targets[number]))
                await system.settle()
                given_up -= heard
                told = [mref for mref in made if mref.ref in dead and mref not in given_up]
                assert len(log) == len(told)
                assert {down.mref for down in log} == set(told)
                heard = set(told)

    asyncio.run(main())


@pytest.fixture
def quiet() -> Iterator[None]:
    """A log that is kept would hold what it was told of."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def test_no_down_comes_while_the_monitored_actor_restarts(system: ActorSystem, clock: ManualClock) -> None:
    # case 17
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
    child = actor_at(system, "/" + supervisor.name + "/worker")
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
