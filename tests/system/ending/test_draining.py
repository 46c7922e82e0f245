"""How a system ends without losing work: what it finishes first, what it does not wait for, and what it says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    Context,
    ExitKind,
    Lane,
    MailboxConfig,
    ManualClock,
    MonotonicClock,
    OnExit,
    Supervision,
    SystemConfig,
    SystemFailed,
)
from greenroom.errors import BadArgument, ConfigError
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import report_of
from tests.conformance.sending import until
from tests.logs import logged

DISPATCHERS = ["concurrent", "parallel", "pinned", "process"]
LONG = 1e6
DEADLINE = 120.0


class Worker(Actor[object, None]):
    """Takes a moment for each message."""

    async def receive(self, message: object) -> None:
        await asyncio.sleep(0)


class Slow(Actor[object, None]):
    """Takes so long for each message that some are left when it is told to stop."""

    async def receive(self, message: object) -> None:
        await asyncio.sleep(0.001)


class Stage(Actor[int, None]):
    """Hands on what it gets, after a moment."""

    def __init__(self, next_one: ActorRef[int] | None = None) -> None:
        self.next_one = next_one

    async def receive(self, message: int) -> None:
        await asyncio.sleep(0)
        if self.next_one is not None:
            self.next_one.tell(message)


class Stuck(Actor[str, None]):
    """Never ends what it has begun."""

    async def receive(self, message: str) -> None:
        await asyncio.Event().wait()


class TalksToItself(Actor[str, None]):
    def receive(self, message: str) -> None:
        self.ctx.self.tell(message)


class TalksToItselfSlowly(Actor[str, None]):
    async def receive(self, message: str) -> None:
        await asyncio.sleep(0)
        self.ctx.self.tell(message)


class TicksForItself(Actor[str, None]):
    def pre_start(self) -> None:
        self.ctx.send_every(0.001, self.ctx.self, "tick")

    async def receive(self, message: str) -> None:
        await asyncio.sleep(0)


class Pipes(Actor[str, None]):
    """Pipes something to itself, and then that to another actor."""

    def __init__(self, to: ActorRef[str]) -> None:
        self.to = to

    def receive(self, message: str) -> None:
        if message == "go":
            self.ctx.pipe_to_self(asyncio.sleep(0.001, "piped"))
        else:
            self.to.tell(message)


def config(**settings: Any) -> SystemConfig:
    return SystemConfig(**{"drain_timeout": LONG, "clock": ManualClock(), **settings})


def expect_all_handled(system: ActorSystem, number: int) -> None:
    ledger = assert_ledger_balanced(system)
    assert (ledger.sent, ledger.handled) == (number, number), ledger
    report = system.report
    assert report is not None
    assert (dict(report.discarded), report.discarded_count, report.busy) == ({}, 0, ())


# -- what is finished


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
async def test_leaving_an_async_block_finishes_what_is_queued(dispatcher: str) -> None:
    async with ActorSystem(config=config()) as system:
        ref = system.spawn(Worker, dispatcher=dispatcher)
        for number in range(100):
            ref.tell(number)
    expect_all_handled(system, 100)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_leaving_a_sync_block_finishes_what_is_queued(dispatcher: str) -> None:
    with ActorSystem(config=config()) as system:
        ref = system.spawn(Worker, dispatcher=dispatcher)
        for number in range(100):
            ref.tell(number)
    expect_all_handled(system, 100)


async def end_by_shutdown(system: ActorSystem) -> None:
    await system.shutdown()


async def end_by_draining(system: ActorSystem) -> None:
    await system.shutdown(drain=True)


@pytest.mark.parametrize(
    ("end", "on_exit"), [(end_by_shutdown, OnExit.DRAIN), (end_by_draining, OnExit.DISCARD)], ids=["config", "choice"]
)
async def test_a_shutdown_finishes_what_is_queued(end: Callable[[ActorSystem], Any], on_exit: OnExit) -> None:
    system = await ActorSystem(config=config(on_exit=on_exit)).start()
    ref = system.spawn(Worker)
    for number in range(100):
        ref.tell(number)
    await end(system)
    expect_all_handled(system, 100)


def test_the_normal_end_of_the_root_finishes_what_is_queued() -> None:
    def root(ctx: Context, message: str) -> None:
        worker = ctx.system.spawn(Worker)
        for number in range(100):
            worker.tell(number)
        ctx.stop()

    system = ActorSystem(root=root, config=config())
    assert system.root is not None
    system.root.tell("go")
    system.run()
    expect_all_handled(system, 101)


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
async def test_a_pipeline_is_finished_to_its_last_stage(dispatcher: str) -> None:
    async with ActorSystem(config=config()) as system:
        ref = system.spawn(Stage, dispatcher=dispatcher)
        for _ in range(3):
            ref = system.spawn(Stage, ref, dispatcher=dispatcher)
        for number in range(20):
            ref.tell(number)
    expect_all_handled(system, 80)


async def test_actors_can_be_spawned_while_the_rest_is_finished() -> None:
    phases: list[str] = []

    class Spawns(Actor[int, None]):
        async def receive(self, message: int) -> None:
            await asyncio.sleep(0)
            phases.append(self.ctx.system.phase)
            if message:
                self.ctx.spawn(Spawns).tell(message - 1)

    async with ActorSystem(config=config()) as system:
        system.spawn(Spawns).tell(5)
    expect_all_handled(system, 6)
    assert phases[-1] == "draining"


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
async def test_what_an_actor_pipes_to_itself_is_finished(dispatcher: str) -> None:
    async with ActorSystem(config=config()) as system:
        worker = system.spawn(Worker)
        ref = system.spawn(Pipes, worker, dispatcher=dispatcher)
        ref.tell("go")
    expect_all_handled(system, 3)


async def test_messages_of_an_actor_that_waits_for_its_restart_are_finished() -> None:
    lives: list[int] = []

    class FailsOnce(Actor[str, None]):
        def pre_start(self) -> None:
            lives.append(1)

        def receive(self, message: str) -> None:
            if len(lives) == 1:
                raise ValueError("on purpose")

    backoff = Supervision(backoff=Backoff(min=0.001, max=0.001))
    async with ActorSystem(config=config(clock=MonotonicClock(), supervision=backoff)) as system:
        ref = system.spawn(FailsOnce)
        for message in ("fails", "waits", "too"):
            ref.tell(message)
    ledger = assert_ledger_balanced(system)
    assert (ledger.failed, ledger.handled) == (1, 2)


@pytest.mark.parametrize(
    "mailbox",
    [MailboxConfig(), MailboxConfig(priority=lambda message: -int(message))],
    ids=["by arrival", "by priority"],
)
@pytest.mark.parametrize("lane", list(Lane))
async def test_every_lane_is_finished(mailbox: MailboxConfig, lane: Lane) -> None:
    async with ActorSystem(config=config()) as system:
        ref = system.spawn(Worker, mailbox=mailbox)
        for number in range(10):
            ref.tell(number, lane=lane)
    expect_all_handled(system, 10)


# -- what is not waited for


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
@pytest.mark.parametrize("kind", [TalksToItself, TalksToItselfSlowly, TicksForItself])
async def test_what_an_actor_tells_itself_does_not_prolong_the_end(
    kind: type[Actor], dispatcher: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with ActorSystem(config=config(clock=MonotonicClock())) as system:
        ref = system.spawn(kind, dispatcher=dispatcher)
        ref.tell("on and on")
        worker = system.spawn(Worker)
        for number in range(50):
            worker.tell(number)
        await ref.started()
        await until(lambda: system.ledger(ref).handled > 0)
    assert system.ledger(worker).handled == 50
    assert system.report is not None
    assert (system.report.discarded_count, system.report.busy) == (0, ())
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


async def test_pending_timers_do_not_prolong_the_end() -> None:
    def starts_timers(ctx: Context, message: str) -> None:
        ctx.send_after(LONG, ctx.self, "much later")
        ctx.set_receive_timeout(LONG)

    async with ActorSystem(config=config()) as system:
        system.spawn(starts_timers).tell("go")
    expect_all_handled(system, 1)


async def test_stashed_messages_do_not_prolong_the_end_but_are_told() -> None:
    async with ActorSystem(config=config()) as system:
        ref = system.spawn(lambda ctx, message: ctx.stash(), name="keeper")
        ref.tell(1)
        ref.tell(2)
    assert dict(report_of(system).discarded) == {"/keeper": 2}


async def leave_by_exception(system: ActorSystem) -> None:
    raise LookupError("the body fails")


async def leave_by_stop(system: ActorSystem) -> None:
    system.stop()


async def leave_by_choice(system: ActorSystem) -> None:
    await system.shutdown(drain=False)


@pytest.mark.parametrize("leave", [leave_by_exception, leave_by_stop, leave_by_choice])
async def test_some_ways_to_end_discard_what_is_queued(
    leave: Callable[[ActorSystem], Any], caplog: pytest.LogCaptureFixture
) -> None:
    system = ActorSystem("demo", config=config())
    try:
        async with system:
            ref = system.spawn(Slow, name="slow")
            for number in range(100):
                ref.tell(number)
            await leave(system)
    except LookupError:
        assert leave is leave_by_exception
    report = system.report
    assert report is not None
    discarded = report.discarded["/slow"]
    assert discarded == report.discarded_count == system.dead_letters.count > 0
    told = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert told == [f"demo: discarded {discarded} messages: /slow {discarded}"]


def test_a_sync_block_that_ends_with_an_exception_discards_what_is_queued() -> None:
    system = ActorSystem(config=config())
    with pytest.raises(LookupError), system:  # noqa: PT012 - the end of the block is what is tested
        ref = system.spawn(Slow, name="slow")
        for number in range(100):
            ref.tell(number)
        raise LookupError("the body fails")
    assert report_of(system).discarded["/slow"] > 0


def test_closing_can_discard_what_is_queued() -> None:
    with ActorSystem(config=config()) as system:
        ref = system.spawn(Slow, name="slow")
        for number in range(100):
            ref.tell(number)
        system.close(drain=False)
    assert report_of(system).discarded["/slow"] > 0


async def test_the_config_can_discard_what_is_queued() -> None:
    async with ActorSystem(config=config(on_exit=OnExit.DISCARD)) as system:
        ref = system.spawn(Slow, name="slow")
        for number in range(100):
            ref.tell(number)
    assert report_of(system).discarded["/slow"] > 0


async def test_what_is_redirected_is_not_discarded() -> None:
    from greenroom import Drain

    async with ActorSystem(config=config(on_exit=OnExit.DISCARD)) as system:
        heir = system.spawn(Worker, name="heir")
        ref = system.spawn(Slow, name="slow", drain=Drain.REDIRECT(heir))
        for number in range(100):
            ref.tell(number)
    assert "/slow" not in report_of(system).discarded


# -- when it takes too long


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
async def test_when_the_time_is_over_the_rest_is_discarded_and_told(
    dispatcher: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    system = ActorSystem("demo", config=config(clock=clock, drain_timeout=5.0, stop_timeout=0.0))

    async def block() -> None:
        async with system:
            ref = system.spawn(Stuck, name="stuck", dispatcher=dispatcher)
            for message in ("first", "second", "third"):
                ref.tell(message)
            await until(lambda: system.ledger(ref).in_hand > 0)

    task = asyncio.create_task(block())
    await until(lambda: system.phase == "draining")
    await clock.advance(5.0)
    await clock.advance(0.0)
    await task
    report = system.report
    assert report is not None
    assert report.busy == ("/stuck",)
    assert dict(report.discarded) == {"/stuck": 2}
    told = [one.getMessage() for one in caplog.records if "draining" in one.getMessage()]
    assert len(told) == 1
    assert "of draining: /stuck; discarded 2 messages: /stuck 2" in told[0]


def stop(system: ActorSystem) -> None:
    system.stop()


def shut_down(system: ActorSystem) -> None:
    keep.append(asyncio.ensure_future(system.shutdown(drain=False)))


def fail(system: ActorSystem) -> None:
    system.fail(LookupError("no more"))


keep: list[Any] = []


@pytest.mark.parametrize("cut", [stop, shut_down, fail])
async def test_a_request_to_end_at_once_cuts_the_wait_short(cut: Callable[[ActorSystem], None]) -> None:
    system = ActorSystem(config=config(stop_timeout=0.0))

    async def block() -> None:
        async with system:
            system.spawn(Stuck, name="stuck").tell("go")
            await asyncio.sleep(0)

    task = asyncio.create_task(block())
    await until(lambda: system.phase == "draining")
    cut(system)
    if cut is fail:
        with pytest.raises(SystemFailed):
            await task
    else:
        await task
    assert system.phase == "stopped"
    keep.clear()


async def test_a_second_call_joins_the_wait_of_the_first() -> None:
    release = asyncio.Event()

    async def waits(ctx: Context, message: str) -> None:
        await release.wait()

    system = await ActorSystem(config=config()).start()
    system.spawn(waits).tell("go")
    ends = [asyncio.create_task(system.shutdown()) for _ in range(3)]
    await until(lambda: system.phase == "draining")
    release.set()
    await asyncio.gather(*ends)
    expect_all_handled(system, 1)


async def test_an_actor_that_asks_for_the_end_is_not_waited_for_by_itself() -> None:
    async def ends_it(ctx: Context, message: str) -> None:
        await ctx.system.shutdown()

    system = await ActorSystem(config=config()).start()
    ref = system.spawn(ends_it)
    ref.tell("now")
    assert (await ref.terminated()).kind is ExitKind.SHUTDOWN
    await system.stopped()
    expect_all_handled(system, 1)


async def test_the_drain_has_no_more_than_half_of_a_shutdowns_time() -> None:
    clock = ManualClock()
    system = await ActorSystem(config=config(clock=clock, drain_timeout=5.0, stop_timeout=LONG)).start()
    ref = system.spawn(Stuck)
    ref.tell("go")
    await system.spawn(Worker).ask("it has begun")
    with logged("did not stop") as gave_up:
        end = asyncio.create_task(system.shutdown(timeout=4.0))
        await until(lambda: system.phase == "draining")
        await clock.advance(2.0)
        assert system.phase == "stopping"
        await clock.advance(2.0)
        await gave_up.wait()
        await end


# -- settings


@pytest.mark.parametrize("given", ["discard", "DISCARD", OnExit.DISCARD])
def test_what_happens_on_exit_is_a_setting(given: Any) -> None:
    assert SystemConfig.from_mapping({"on_exit": given}).on_exit is OnExit.DISCARD
    if isinstance(given, str):
        environ = {"GREENROOM_ON_EXIT": given, "GREENROOM_DRAIN_TIMEOUT": "0.5"}
        read = SystemConfig().with_environ(environ)
        assert (read.on_exit, read.drain_timeout) == (OnExit.DISCARD, 0.5)


@pytest.mark.parametrize(("name", "value"), [("on_exit", "later"), ("on_exit", 1), ("drain_timeout", -1)])
def test_a_bad_setting_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        SystemConfig(**{name: value})


async def test_a_choice_that_is_none_is_refused() -> None:
    system = await ActorSystem().start()
    choice: Any = 5.0
    with pytest.raises(BadArgument, match="drain"):
        await system.shutdown(drain=choice)
    await system.shutdown()


async def test_the_end_is_the_same_on_every_loop_and_in_simulations(system: ActorSystem) -> None:
    ref = system.spawn(Stage)
    for _ in range(3):
        ref = system.spawn(Stage, ref)
    for number in range(10):
        ref.tell(number)
    await system.shutdown()
    expect_all_handled(system, 40)


def test_the_log_says_who_a_long_draining_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with logged("still at work") as told:
            system = ActorSystem("shop", config=SystemConfig(drain_timeout=LONG))
            await system.start()
            ref = system.spawn(Stuck, name="stuck")
            ref.tell("go")
            ending = asyncio.create_task(system.shutdown(2 * LONG))
            await asyncio.wait_for(told.wait(), DEADLINE)
            ref.kill()
            await ending

    with caplog.at_level(logging.INFO, "greenroom"):
        asyncio.run(main())
    expected = f"shop ends when its work is done, and after {LONG:g} s at most; still at work: /stuck"
    assert expected in [record.getMessage() for record in caplog.records]
