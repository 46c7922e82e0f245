"""Time in a simulation passes at once, to the second, for asyncio, for actors, and in a session's steps (B1)."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskTimeout,
    Backoff,
    Behaviors,
    MailboxConfig,
    MailboxFull,
    ReceiveTimeout,
    Supervision,
    SystemConfig,
)
from greenroom.errors import InvalidDelay, SimulationStuck
from greenroom.testing import ManualClock, Simulation

DAY = 86_400.0


def run(program: Any, seed: int = 0, schedule: str = "random", **settings: Any) -> Any:
    return Simulation(seed, schedule=schedule, **settings).run(program)


def now() -> float:
    return asyncio.get_running_loop().time()


# -- asyncio


def test_sleeping_takes_exactly_as_long_as_it_says() -> None:
    async def program(system: ActorSystem) -> list[float]:
        moments = []
        for seconds in (1.5, 0.0, 3600.0, 0.25):
            await asyncio.sleep(seconds)
            moments.append(now())
        return moments

    assert run(program) == [1.5, 1.5, 3601.5, 3601.75]


def test_a_month_passes_in_a_moment() -> None:
    async def program(system: ActorSystem) -> float:
        for _ in range(30):
            await asyncio.sleep(DAY)
        return now()

    simulation = Simulation()
    assert simulation.run(program) == 30 * DAY
    assert simulation.trace.seconds == 30 * DAY


def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    async def program(system: ActorSystem) -> list[tuple[float, int]]:
        woken = []

        async def sleep(seconds: int) -> None:
            await asyncio.sleep(seconds)
            woken.append((now(), seconds))

        await asyncio.gather(*(sleep(seconds) for seconds in (5, 3, 9, 1, 3)))
        return woken

    assert run(program) == [(1.0, 1), (3.0, 3), (3.0, 3), (5.0, 5), (9.0, 9)]


def test_a_timeout_strikes_exactly() -> None:
    async def program(system: ActorSystem) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.sleep(8)
        return now()

    assert run(program) == 7.0


def test_wait_for_gives_up_exactly_and_takes_what_is_in_time() -> None:
    async def program(system: ActorSystem) -> tuple[float, str]:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 2.5)
        first = now()
        return first, await asyncio.wait_for(asyncio.sleep(1, "there"), 2)

    assert run(program) == (2.5, "there")


def test_queues_events_and_task_groups_work_between_program_and_actors() -> None:
    class Worker(Actor[Any, None]):
        async def receive(self, queue: asyncio.Queue[float]) -> None:
            await asyncio.sleep(2)
            await queue.put(self.ctx.now())

    async def program(system: ActorSystem) -> tuple[list[float], float]:
        queue: asyncio.Queue[float] = asyncio.Queue(maxsize=1)
        rang = asyncio.Event()

        async def ring() -> None:
            await asyncio.sleep(10)
            rang.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(ring())
            for _ in range(3):
                system.spawn(Worker).tell(queue)
            times = [await queue.get() for _ in range(3)]
            await rang.wait()
        return times, now()

    assert run(program) == ([2.0, 2.0, 2.0], 10.0)


def test_handlers_sleep_beside_each_other_and_an_actor_handles_one_at_a_time() -> None:
    class Sleeper(Actor[float, float]):
        async def receive(self, seconds: float) -> float:
            await asyncio.sleep(seconds)
            return self.ctx.now()

    async def program(system: ActorSystem) -> list[float]:
        one, other = system.spawn(Sleeper), system.spawn(Sleeper)
        return await asyncio.gather(*(ref.ask(5.0, timeout=None) for ref in (one, one, other)))

    for seed in range(20):
        assert run(program, seed) == [5.0, 10.0, 5.0]


@pytest.mark.parametrize("wait", [math.inf, 1e12])
def test_no_one_sleeps_past_what_is_due_before(wait: float) -> None:
    async def program(system: ActorSystem) -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(wait), 3)
        return now()

    assert run(program) == 3.0


def test_who_sleeps_for_ever_is_stuck() -> None:
    async def program(system: ActorSystem) -> None:
        await asyncio.sleep(math.inf)

    with pytest.raises(SimulationStuck):
        run(program)


# -- the clocks


def test_every_clock_tells_virtual_time() -> None:
    async def program(system: ActorSystem) -> list[float]:
        clocks = [time.time, time.monotonic, time.perf_counter, now, system.clock.now]
        before = [clock() for clock in clocks]
        nanos = time.monotonic_ns(), time.time_ns(), time.perf_counter_ns()
        await asyncio.sleep(90)
        assert [time.monotonic_ns() - nanos[0], time.time_ns() - nanos[1], time.perf_counter_ns() - nanos[2]] == [
            90_000_000_000
        ] * 3
        return [clock() - since for clock, since in zip(clocks, before, strict=True)]

    assert run(program) == [90.0] * 5


def test_a_clock_stands_still_while_anybody_works() -> None:
    async def program(system: ActorSystem) -> set[float]:
        seen = set()

        def work(ctx: Any, left: int) -> None:
            seen.add(time.monotonic())
            if left:
                ctx.self.tell(left - 1)

        for _ in range(3):
            system.spawn(work).tell(50)
        await system.settle()
        return seen

    assert run(program) == {0.0}


def test_a_sleep_that_blocks_holds_up_everybody_and_what_was_due_comes_after() -> None:
    class Blocks(Actor[float, float]):
        def receive(self, seconds: float) -> float:
            time.sleep(seconds)
            return self.ctx.now()

    async def program(system: ActorSystem) -> tuple[float, float]:
        async def nap() -> float:
            await asyncio.sleep(1)
            return now()

        napping = asyncio.create_task(nap())
        await asyncio.sleep(0)
        return await system.spawn(Blocks).ask(4.0), await napping

    assert run(program, schedule="fifo") == (4.0, 4.0)


@pytest.mark.parametrize(("seconds", "error"), [(-1, ValueError), (math.nan, ValueError), (math.inf, OverflowError)])
def test_a_sleep_that_blocks_refuses_what_the_real_one_does(seconds: float, error: type[Exception]) -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(error):
            time.sleep(seconds)  # noqa: ASYNC251 - it is not the real one

    run(program)


def test_a_manual_clock_is_still_turned_by_hand() -> None:
    clock = ManualClock()

    class Timed(Actor[str, None]):
        def pre_start(self) -> None:
            self.ctx.send_after(30, self.ctx.self, "tick")

        def receive(self, message: str) -> None:
            rang.append(self.ctx.now())

    async def program(system: ActorSystem) -> list[float]:
        system.spawn(Timed)
        await system.settle()
        await asyncio.sleep(1000)
        assert rang == []
        start = clock.now()
        await clock.advance(30)
        return [moment - start for moment in rang]

    rang: list[float] = []
    assert run(program, config=SystemConfig(clock=clock)) == [30.0]


# -- timers and deadlines of actors


class Timed(Actor[Any, None]):
    """Writes down when it hears what."""

    def __init__(self, log: list[tuple[float, Any]]) -> None:
        self.log = log

    def receive(self, message: Any) -> None:
        shown = "quiet" if isinstance(message, ReceiveTimeout) else message
        self.log.append((self.ctx.now(), shown))


@pytest.mark.parametrize("schedule", ["random", "pct", "fifo"])
def test_timers_ring_exactly(schedule: str) -> None:
    class Starts(Timed):
        def pre_start(self) -> None:
            self.ctx.send_after(0.3, self.ctx.self, "once")
            self.ctx.send_every(10, self.ctx.self, "again")
            self.ctx.send_every(15, self.ctx.self, "rate", fixed_rate=True)

    async def program(system: ActorSystem) -> list[tuple[float, Any]]:
        log: list[tuple[float, Any]] = []
        system.spawn(Starts, log)
        await asyncio.sleep(40)
        return log

    expected = [(0.3, "once"), (10.0, "again"), (15.0, "rate"), (20.0, "again"), (30.0, "rate"), (30.0, "again")]
    for seed in range(10):
        assert [entry for entry in run(program, seed, schedule) if entry[0] < 40] == expected


def test_a_receive_timeout_comes_after_exactly_that_silence() -> None:
    class Listens(Timed):
        def pre_start(self) -> None:
            self.ctx.set_receive_timeout(5)

    async def program(system: ActorSystem) -> list[tuple[float, Any]]:
        log: list[tuple[float, Any]] = []
        ref = system.spawn(Listens, log)
        await asyncio.sleep(3)
        ref.tell("word")
        await asyncio.sleep(7)
        return log

    for seed in range(10):
        assert run(program, seed) == [(3.0, "word"), (8.0, "quiet")]


def test_an_ask_gives_up_exactly() -> None:
    async def slow(ctx: Any, message: float) -> None:
        await asyncio.sleep(message)

    async def program(system: ActorSystem) -> float:
        with pytest.raises(AskTimeout):
            await system.spawn(slow).ask(60, timeout=12.5)
        return now()

    for seed in range(10):
        assert run(program, seed) == 12.5


class Frail(Actor[str, None]):
    """Fails at every message, and writes down when it starts."""

    def __init__(self, starts: list[float]) -> None:
        self.starts = starts

    def pre_start(self) -> None:
        self.starts.append(self.ctx.now())

    def receive(self, message: str) -> None:
        raise ValueError(message)


def failing(jitter: float) -> Any:
    backoff = Backoff(min=1.0, max=8.0, factor=2.0, jitter=jitter)

    async def program(system: ActorSystem) -> list[float]:
        starts: list[float] = []
        supervision = Supervision(max_restarts=None, backoff=backoff)
        ref: ActorRef[str, Any] = system.spawn(Frail, starts, supervision=supervision)
        for number in range(5):
            ref.tell(str(number))
        await asyncio.sleep(1000)
        return starts

    return program


def test_restarts_wait_exactly_as_their_backoff_says() -> None:
    for seed in range(10):
        assert run(failing(0.0), seed) == [0.0, 1.0, 3.0, 7.0, 15.0, 23.0]


def test_the_jitter_of_a_backoff_is_drawn_from_the_seed() -> None:
    first = run(failing(0.5), 1)
    assert run(failing(0.5), 1) == first
    assert run(failing(0.5), 2) != first
    assert first != run(failing(0.0), 1)


def test_a_send_that_waits_for_room_gives_up_exactly() -> None:
    async def slow(ctx: Any, message: object) -> None:
        await asyncio.sleep(100)

    async def program(system: ActorSystem) -> float:
        ref = system.spawn(slow, mailbox=MailboxConfig(capacity=1))
        ref.tell(1)
        await asyncio.sleep(1)
        ref.tell(2)
        with pytest.raises((MailboxFull, TimeoutError)):
            await ref.send(3, timeout=6)
        return now()

    assert run(program) == 7.0


def test_a_slow_stop_is_forced_at_its_deadline() -> None:
    async def never(ctx: Any, message: object) -> None:
        await asyncio.Event().wait()

    async def program(system: ActorSystem) -> float:
        ref = system.spawn(never)
        ref.tell(1)
        await asyncio.sleep(1)
        ref.stop()
        await ref.terminated()
        return now()

    assert run(program, config=SystemConfig(stop_timeout=50.0)) == 51.0


def test_behaviors_with_timers_are_simulated_as_well() -> None:
    log: list[float] = []

    def start(timers: Any) -> Any:
        timers.start("k", 2.0, "tick")

        def receive(ctx: Any, message: str) -> Any:
            log.append(ctx.now())
            return Behaviors.stopped

        return Behaviors.receive(receive)

    async def program(system: ActorSystem) -> None:
        await system.spawn(Behaviors.with_timers(start)).terminated()

    run(program)
    assert log == [2.0]


SEEDS = range(30)


class Relay(Actor[str, None]):
    """After a second, passes something on along a row of others; the last writes down when."""

    def __init__(self, log: list[float], left: int, wait: float = 1.0) -> None:
        self.log = log
        self.left = left
        self.wait = wait
        self.next: ActorRef[Any, Any] | None = None

    def pre_start(self) -> None:
        if self.wait:
            self.ctx.send_after(self.wait, self.ctx.self, "go")
        if self.left:
            self.next = self.ctx.spawn(Relay, self.log, self.left - 1, 0.0)

    async def receive(self, message: str) -> None:
        await asyncio.sleep(0)
        if self.next is None:
            self.log.append(self.ctx.now())
        else:
            self.next.tell(message)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_that_a_moment_brings_has_happened_when_it_is_reached(seed: int) -> None:
    log: list[float] = []
    with Simulation(seed).open() as session:
        session.system.spawn(Relay, log, 5)
        session.advance(1.0)
        assert log == [session.now] == [1.0]


@pytest.mark.parametrize("begin", [0.0, 1e7])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_of_a_second_add_up_to_it(seed: int, begin: float) -> None:
    log: list[float] = []
    with Simulation(seed).open() as session:
        session.advance(begin)
        session.system.spawn(Relay, log, 1)
        for _ in range(9):
            session.advance(0.1)
        assert log == []
        session.advance(0.1)
        assert len(log) == 1
        assert session.now == pytest.approx(begin + 1.0, abs=1e-7)


def test_nothing_happens_between_two_calls() -> None:
    log: list[float] = []
    with Simulation(3).open() as session:
        session.system.spawn(Relay, log, 0, 0.0).tell("go")
        assert log == []
        session.settle()
        assert log == [0.0]
        session.advance(0.0)
        session.settle()
        assert session.now == 0.0


@pytest.mark.parametrize("seconds", [-1, math.inf, math.nan, "1", None, True])
def test_what_is_no_duration_is_refused_and_the_session_goes_on(seconds: Any) -> None:
    with Simulation(3).open() as session:
        with pytest.raises(InvalidDelay):
            session.advance(seconds)
        session.advance(2)
        assert session.now == 2.0
