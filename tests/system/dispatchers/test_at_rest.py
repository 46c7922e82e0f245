"""A manual clock, with actors on other threads and in worker processes: time passes when they report that they wait.

Nothing here depends on how fast a thread or a process is: what is at work is at work until it says otherwise.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Context,
    MailboxConfig,
    ManualClock,
    OnExit,
    Parallel,
    Process,
    SystemConfig,
)
from greenroom.errors import ClockHeldUp, SendTimeout
from greenroom.system.loops import thread
from greenroom.testing import TestProbe
from tests.conformance.sending import until
from tests.system.dispatchers.processes.actors import Cleaner, Fickle, Sleeper

DEADLINE = 120.0
ON_THREADS = ["parallel", "pinned"]


class Worker(Actor[Any, Any]):
    """Blocks until the test lets it go on, and says when it began and ended by the system's clock."""

    def __init__(self, entered: threading.Event, go_on: threading.Event, times: list[float], says_so: bool) -> None:
        self.entered = entered
        self.go_on = go_on
        self.times = times
        self.says_so = says_so

    def receive(self, message: Any) -> None:
        self.times.append(self.ctx.now())
        if self.says_so:
            with self.ctx.blocking():
                self.entered.set()
                assert self.go_on.wait(DEADLINE)
        else:
            self.entered.set()
            assert self.go_on.wait(DEADLINE)
        self.times.append(self.ctx.now())


class Scene:
    """A system with a manual clock and one worker in the middle of a message."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.times: list[float] = []

    async def begin(self, system: ActorSystem, dispatcher: str, says_so: bool) -> Any:
        ref = system.spawn(Worker, self.entered, self.go_on, self.times, says_so, name="worker", dispatcher=dispatcher)
        ref.tell("work")
        assert await asyncio.to_thread(self.entered.wait, DEADLINE)
        return ref


def system_with(clock: ManualClock, **options: Any) -> ActorSystem:
    return ActorSystem("test", config=SystemConfig(clock=clock, **options))


@pytest.mark.parametrize("dispatcher", ON_THREADS)
async def test_time_stands_still_while_a_handler_is_at_work(dispatcher: str) -> None:  # M19
    scene = Scene()
    async with asyncio.timeout(DEADLINE), system_with(scene.clock) as system:
        await scene.begin(system, dispatcher, says_so=False)
        moving = asyncio.create_task(scene.clock.advance(10.0, patience=DEADLINE))
        await asyncio.to_thread(lambda: None)  # which takes some real time
        assert not moving.done()
        assert scene.clock.now() == 0.0
        scene.go_on.set()
        await moving
        assert scene.times == [0.0, 0.0]
        assert scene.clock.now() == 10.0


@pytest.mark.parametrize("dispatcher", ON_THREADS)
async def test_time_passes_over_a_handler_that_says_that_it_blocks(dispatcher: str) -> None:  # M19
    scene = Scene()
    async with asyncio.timeout(DEADLINE), system_with(scene.clock) as system:
        await scene.begin(system, dispatcher, says_so=True)
        await scene.clock.advance(10.0, patience=DEADLINE)
        scene.go_on.set()
        await system.settle(DEADLINE)
        assert scene.times == [0.0, 10.0]


@pytest.mark.parametrize("dispatcher", ON_THREADS)
async def test_a_clock_that_is_held_up_names_the_actor_at_work(dispatcher: str) -> None:  # M19
    scene = Scene()
    async with asyncio.timeout(DEADLINE), system_with(scene.clock) as system:
        await scene.begin(system, dispatcher, says_so=False)
        with pytest.raises(ClockHeldUp, match="/worker"):
            await scene.clock.advance(10.0, patience=0.01)
        scene.go_on.set()


async def test_a_thread_that_says_that_it_blocks_is_no_help_so_the_pool_has_another() -> None:  # M9
    scene = Scene()

    from greenroom import Parallel

    config = SystemConfig(dispatchers={"one": Parallel(threads=1)})
    async with asyncio.timeout(DEADLINE), ActorSystem("test", config=config) as system:
        await scene.begin(system, "one", says_so=True)
        other = system.spawn(lambda ctx, message: message, dispatcher="one")
        assert await other.ask("still there?", timeout=DEADLINE) == "still there?"
        scene.go_on.set()


async def test_messages_to_a_worker_process_are_handled_before_time_passes() -> None:  # M19
    clock = ManualClock()
    one = {"process": Process(workers=1)}
    async with asyncio.timeout(DEADLINE), system_with(clock, dispatchers=one) as system:
        ref = system.spawn(Sleeper, dispatcher="process")
        await ref.started()
        for moment in range(20):
            ref.tell("note")
            await clock.advance(1.0, patience=DEADLINE)
            assert clock.now() == moment + 1.0
        assert await ref.ask("moments", timeout=None) == [float(moment) for moment in range(20)]


async def test_time_passes_over_a_handler_in_a_worker_process_that_awaits_something() -> None:  # M19
    clock = ManualClock()
    one = {"process": Process(workers=1)}
    async with asyncio.timeout(DEADLINE), system_with(clock, dispatchers=one, stop_timeout=3.0) as system:
        ref = system.spawn(Sleeper, dispatcher="process")
        await ref.started()
        ref.tell("wait for ever")
        await clock.advance(1.0, patience=DEADLINE)
        ref.stop()
        await clock.advance(10.0, patience=DEADLINE)
        await ref.terminated()
        assert system.ledger(ref).failed == 1


ONE = {"process": Process(workers=1), "one": Parallel(threads=1)}


pytestmark = pytest.mark.config(dispatchers=ONE, on_exit=OnExit.DISCARD)


async def answer_late(ctx: Context, turns: int) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    return turns


async def test_time_stands_still_until_a_worker_has_taken_all_the_answers_of_a_gather(
    system: ActorSystem, clock: ManualClock
) -> None:  # M19
    ref = system.spawn(Sleeper, dispatcher="process")
    others = [system.spawn(answer_late) for _ in range(3)]
    await ref.started()
    for moment in range(40):
        ref.tell(("gather", others))
        await clock.advance(1.0, patience=DEADLINE)
        assert clock.now() == moment + 1.0
    assert await ref.ask("moments", timeout=None) == [float(moment) for moment in range(40)]


async def test_time_stands_still_while_a_pipe_in_a_worker_process_is_at_work(
    system: ActorSystem, clock: ManualClock
) -> None:  # M19
    ref = system.spawn(Sleeper, dispatcher="process")
    await ref.started()
    ref.tell(("pipe", system.spawn(answer_late)))
    await clock.advance(10.0, patience=DEADLINE)
    assert await ref.ask("moments", timeout=None) == [0.0]


async def test_time_stands_still_while_a_task_of_a_handler_in_a_worker_process_is_at_work(
    system: ActorSystem, clock: ManualClock
) -> None:  # M19
    async def silent(ctx: Context, message: Any) -> None:
        ctx.defer_reply()

    ref = system.spawn(Sleeper, dispatcher="process")
    await ref.started()
    ref.tell(("task beside an ask", system.spawn(silent), system.spawn(answer_late)))
    await clock.advance(10.0, patience=DEADLINE)
    assert await ref.ask("moments", timeout=None) == [0.0, 5.0]


@pytest.mark.config(stop_timeout=0.0)
async def test_time_passes_after_a_message_that_could_not_be_sent_to_a_worker_process(
    system: ActorSystem, clock: ManualClock
) -> None:  # M19
    ref, waiting = (system.spawn(Sleeper, dispatcher="process") for _ in range(2))
    await ref.started()
    waiting.tell("wait for ever")
    ref.tell(Fickle())
    for _ in range(2):
        await clock.advance(1.0, patience=DEADLINE)
    assert await ref.ask("moments", timeout=None) == []


async def test_time_stands_still_while_a_pipe_on_a_thread_of_its_own_is_at_work(
    system: ActorSystem, clock: ManualClock
) -> None:  # M19
    entered, go_on = threading.Event(), threading.Event()
    handled: list[float] = []
    other = system.spawn(answer_late)

    async def work() -> str:
        await other.ask(3, timeout=None)
        entered.set()
        assert go_on.wait(DEADLINE)
        return "piped"

    class Piping(Actor[Any, Any]):
        async def receive(self, message: Any) -> None:
            if message == "piped":
                handled.append(self.ctx.now())
            else:
                self.ctx.pipe_to_self(work())

    system.spawn(Piping, dispatcher="pinned").tell("go")
    moving = asyncio.create_task(clock.advance(10.0, patience=DEADLINE))
    assert await asyncio.to_thread(entered.wait, DEADLINE)
    assert clock.now() == 0.0
    go_on.set()
    await moving
    assert handled == [0.0]


async def test_time_passes_over_a_pipe_that_waits(system: ActorSystem, clock: ManualClock) -> None:  # M19
    async def pipes(ctx: Context, message: Any) -> None:
        ctx.pipe_to_self(asyncio.Event().wait())

    system.spawn(pipes, dispatcher="pinned").tell("go")
    for _ in range(3):
        await clock.advance(10.0, patience=DEADLINE)


@pytest.mark.parametrize("what", ["terminated", "send"])
@pytest.mark.config(stop_timeout=0.0)
async def test_a_handler_on_its_own_thread_goes_on_at_the_time_at_which_its_wait_is_over(
    system: ActorSystem, clock: ManualClock, what: str
) -> None:  # M19
    times: list[float] = []
    gate: list[asyncio.Future[None]] = []

    async def ends_in_time(ctx: Context, message: Any) -> None:
        if message == "begin":
            ctx.send_after(1.0, ctx.self, "end")
        elif message == "end":
            ctx.stop()

    async def waits(ctx: Context, other: ActorRef[Any, Any]) -> None:
        if what == "terminated":
            await other.terminated()
        else:
            with pytest.raises(SendTimeout):
                await full.send("x", timeout=1.0)
        times.append(ctx.now())

    async def hold(ctx: Context, message: Any) -> None:
        gate.append(asyncio.get_running_loop().create_future())
        await gate[-1]

    full: ActorRef[Any, Any] = system.spawn(hold, mailbox=MailboxConfig(capacity=1))
    full.tell("in hand")
    await until(lambda: gate)
    full.tell("queued")
    waiting = system.spawn(waits, dispatcher="pinned")
    for moment in range(20):
        other = system.spawn(ends_in_time)
        other.tell("begin")
        waiting.tell(other)
        await clock.advance(10.0, patience=DEADLINE)
        assert times[-1] == 10.0 * moment + 1.0


@pytest.mark.config(stop_timeout=3.0)
async def test_a_worker_that_blocks_for_ever_and_says_so_is_ended_in_time(
    system: ActorSystem, clock: ManualClock
) -> None:  # M19, case 57
    ref = system.spawn(Sleeper, dispatcher="process")
    other = system.spawn(Sleeper, dispatcher="process")
    await ref.started()
    await other.started()
    ref.tell("block, and say so twice")
    await clock.advance(1.0, patience=DEADLINE)
    other.tell("note")  # a frame that the worker cannot take
    await clock.advance(1.0, patience=DEADLINE)
    ref.stop()
    await clock.advance(20.0, patience=DEADLINE)
    assert not ref.is_alive
    await system.shutdown(timeout=0.0)  # the other is in the same worker, and out of reach


async def test_a_thread_that_asks_another_system_on_the_same_clock_only_waits(
    system: ActorSystem, clock: ManualClock
) -> None:  # M19
    answers: list[Any] = []

    async def slow(ctx: Context, message: Any) -> None:
        if message == "late":
            owed.pop().send("at last")
        else:
            owed.append(ctx.defer_reply())
            ctx.send_after(5.0, ctx.self, "late")

    owed: list[Any] = []
    async with ActorSystem("other", config=SystemConfig(clock=clock)) as other:
        target = other.spawn(slow)

        def ask(ctx: Context, message: Any) -> None:
            answers.append((target.ask_sync("?", timeout=None), ctx.now()))

        system.spawn(ask, dispatcher="parallel").tell("go")
        await clock.advance(10.0, patience=DEADLINE)
    assert answers == [("at last", 5.0)]


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
async def test_an_actor_elsewhere_that_waits_for_a_probe_counts_as_settled(
    system: ActorSystem, clock: ManualClock, dispatcher: str
) -> None:  # B2
    probe = TestProbe(system)

    def ask(ctx: Context, message: Any) -> Any:
        return probe.ref.ask_sync("?", timeout=None)

    async def ask_async(ctx: Context, message: Any) -> Any:
        return await probe.ref.ask("?", timeout=None)

    asked = system.spawn(ask if dispatcher == "parallel" else ask_async, dispatcher=dispatcher).ask("go")
    await probe.expect("?")
    await probe.expect_no()
    probe.reply("!")
    assert await asked == "!"


def test_a_cancelled_handler_in_a_worker_process_has_a_last_chance_at_shutdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # M11
    monkeypatch.setattr(thread, "_LAST_CHANCE", DEADLINE)

    async def main() -> None:
        async with ActorSystem("test", config=SystemConfig(dispatchers=ONE)) as system:
            ref = system.spawn(Cleaner, tmp_path / "cleaned up", dispatcher="process")
            await ref.ask("ready?", timeout=None)
            ref.tell("wait for ever")
            await until(lambda: (tmp_path / "cleaned up.begun").exists())
            await system.shutdown(timeout=0.0)

    asyncio.run(main())
    assert (tmp_path / "cleaned up").exists()


async def test_an_abandoned_handler_that_blocks_gives_its_share_of_the_pool_back(
    system: ActorSystem, clock: ManualClock
) -> None:  # M9, case 57
    never = threading.Event()
    entered = threading.Event()

    def block(ctx: Context, message: Any) -> None:
        with ctx.blocking():
            entered.set()
            never.wait(DEADLINE)

    def hold(ctx: Context, message: Any) -> None:
        entered.set()
        never.wait(DEADLINE)

    abandoned = 3
    for _ in range(abandoned):
        entered.clear()
        ref = system.spawn(block, dispatcher="one")
        ref.tell("go")
        assert await asyncio.to_thread(entered.wait, DEADLINE)
        ref.kill()
        await clock.advance(5.0, patience=DEADLINE)
        assert not ref.is_alive
    entered.clear()
    held = [system.spawn(hold, dispatcher="one") for _ in range(3)]
    for ref in held:
        ref.tell("go")
    await until(lambda: all(system.ledger(ref).in_hand for ref in held))
    assert await asyncio.to_thread(entered.wait, DEADLINE)
    serving = [thread for thread in threading.enumerate() if thread.name.startswith("test one")]
    assert len(serving) == abandoned + 1
    never.set()
