"""A simulated program: the same from the same seed, how it ends, how time passes, and what is left of it (B1)."""

from __future__ import annotations

import asyncio
import gc
import math
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskTimeout,
    Backoff,
    Behaviors,
    Context,
    Directive,
    MailboxConfig,
    MailboxFull,
    ReceiveTimeout,
    Supervision,
    SystemConfig,
)
from greenroom.errors import BadArgument, ConfigError, InvalidDelay, SimulationEndless, SimulationStuck, SystemFailed
from greenroom.testing import ActorHarness, ManualClock, Simulation, assert_ledger_balanced, faults
from greenroom.testing.patches import EPOCH

every_schedule = pytest.mark.parametrize("schedule", ["random", "pct", "fifo"])


class Walker(Actor[int, None]):
    """Takes so many steps, and writes each of them down."""

    def __init__(self, log: list[tuple[str, int]]) -> None:
        self.log = log

    def receive(self, left: int) -> None:
        self.log.append((self.ctx.name, left))
        if left:
            self.ctx.self.tell(left - 1)


async def walk(system: ActorSystem) -> list[tuple[str, int]]:
    """Four walkers at once; the order of their steps."""
    log: list[tuple[str, int]] = []
    for name in "abcd":
        system.spawn(Walker, log, name=name).tell(5)
    await system.settle()
    return log


def digest(program: Callable[[ActorSystem], Coroutine[Any, Any, Any]], seed: int = 0, **settings: Any) -> str:
    simulation = Simulation(seed, **settings)
    simulation.run(program)
    return simulation.trace.digest


# -- the same again
@every_schedule
def test_the_same_seed_gives_the_same_digest(schedule: str) -> None:
    for seed in range(20):
        assert digest(walk, seed, schedule=schedule) == digest(walk, seed, schedule=schedule)


@every_schedule
def test_the_same_seed_gives_the_same_text(schedule: str) -> None:
    first, again = Simulation(3, schedule=schedule), Simulation(3, schedule=schedule)
    first.run(walk)
    again.run(walk)
    assert str(first.trace) == str(again.trace)
    assert first.trace.mermaid() == again.trace.mermaid()
    assert str(first.trace) != ""


@every_schedule
def test_one_simulation_can_run_again(schedule: str) -> None:
    simulation = Simulation(5, schedule=schedule, faults=[faults.crash("b", at=(1, 6)), faults.delay(by=(0.0, 1.0))])
    first = simulation.run(walk), simulation.trace.digest, simulation.trace.seconds
    assert (simulation.run(walk), simulation.trace.digest, simulation.trace.seconds) == first


@pytest.mark.parametrize("schedule", ["random", "pct"])
def test_other_seeds_give_other_orders(schedule: str) -> None:
    orders = {tuple(Simulation(seed, schedule=schedule).run(walk)) for seed in range(30)}
    assert len(orders) >= 15


def test_first_come_first_served_is_the_same_at_every_seed() -> None:
    assert len({digest(walk, seed, schedule="fifo") for seed in range(10)}) == 1


def test_an_order_that_differs_shows_in_the_digest() -> None:
    by_order: dict[tuple[tuple[str, int], ...], set[str]] = {}
    for seed in range(40):
        simulation = Simulation(seed)
        by_order.setdefault(tuple(simulation.run(walk)), set()).add(simulation.trace.digest)
    digests = [one for found in by_order.values() for one in found]
    assert len(digests) == len(set(digests))


def test_a_message_that_differs_shows_in_the_digest() -> None:
    def sending(message: Any) -> Callable[[ActorSystem], Coroutine[Any, Any, None]]:
        async def program(system: ActorSystem) -> None:
            system.spawn(lambda ctx, message: None, name="a").tell(message)
            await system.settle()

        return program

    messages = [0, 1, -7, 0.5, "a", "b", ("a", 1), ("a", 2), None, b"x", True]
    assert len({digest(sending(message)) for message in messages}) >= len(messages) - 1  # True is 1


@pytest.mark.parametrize(
    "message",
    [math.nan, math.inf, -math.inf, (math.nan, 1), "nan", 10**40, object(), {"a": object()}, [1], {"x", "y"}, None],
    ids=lambda message: type(message).__name__,
)
def test_any_message_leaves_the_digest_repeatable(message: object) -> None:
    made = type(message)

    async def program(system: ActorSystem) -> None:
        # Made afresh, as a program does: nothing may depend on where it lies in memory.
        fresh = float(str(message)) if isinstance(message, float) else message
        fresh = (float("nan"), 1) if made is tuple else object() if made is object else fresh
        keep.append(fresh)
        system.spawn(lambda ctx, message: message, name="a").tell(fresh)
        await system.settle()

    keep: list[object] = []
    assert len({digest(program) for _ in range(4)}) == 1


def test_the_seeds_of_everything_random_come_from_the_seed() -> None:
    async def program(system: ActorSystem) -> tuple[float, ...]:
        return system.random.random(), random.random(), random.Random().random(), random.SystemRandom().random()

    first = Simulation(1).run(program)
    assert Simulation(1).run(program) == first
    assert not set(Simulation(2).run(program)) & set(first)
    assert len(set(first)) == 4


def test_a_system_with_a_seed_of_its_own_keeps_it() -> None:
    async def program(system: ActorSystem) -> float:
        return system.random.random()

    config = SystemConfig(seed=42)
    assert Simulation(1, config=config).run(program) == random.Random(42).random()


def test_any_whole_number_is_a_seed_and_each_another() -> None:
    seeds = [0, 1, -1, 2**63, -(2**63), 2**64 - 1, 2**64, 2**64 + 1, -(2**64), 10**40, -(10**40)]

    async def program(system: ActorSystem) -> float:
        return system.random.random()

    assert len({Simulation(seed).run(program) for seed in seeds}) == len(seeds)


def test_a_script_is_a_schedule_too() -> None:
    simulation = Simulation(4)
    simulation.write_choices()
    order = simulation.run(walk)
    again = Simulation(0, schedule=simulation.choices)
    assert again.run(walk) == order
    assert Simulation(0, schedule={}).run(walk) == Simulation(0, schedule="fifo").run(walk)


# -- order
class Sink(Actor[Any, Any]):
    """Writes down what it gets."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def receive(self, message: Any) -> Any:
        self.log.append(message)
        return message


class Source(Actor[int, None]):
    """Sends numbers, by every way there is."""

    def __init__(self, target: ActorRef[Any, Any]) -> None:
        self.target = target
        self.number = 0

    async def receive(self, left: int) -> None:
        for way in (0, 1, 2):
            self.number += 1
            message = (self.ctx.name, self.number)
            if way == 0:
                self.target.tell(message)
            elif way == 1:
                await self.target.send(message)
            else:
                await self.target.ask(message)
        if left:
            self.ctx.self.tell(left - 1)


async def pour(system: ActorSystem) -> list[tuple[str, int]]:
    log: list[tuple[str, int]] = []
    sink = system.spawn(Sink, log, name="sink", mailbox=MailboxConfig(capacity=2))
    for name in "abc":
        system.spawn(Source, sink, name=name, supervision=Supervision(Directive.RESUME)).tell(3)
    await system.settle()
    return log


@every_schedule
def test_messages_of_a_pair_come_in_order_at_every_seed(schedule: str) -> None:
    orders = set()
    for seed in range(40):
        log = Simulation(seed, schedule=schedule, keep=0).run(pour)
        for name in "abc":
            mine = [number for sender, number in log if sender == name]
            assert mine == sorted(mine), seed
        orders.add(tuple(log))
    assert len(orders) > 1 or schedule == "fifo"


# -- the trace
def test_keep_bounds_the_trace_but_not_the_digest() -> None:
    whole, some, none = Simulation(1), Simulation(1, keep=10), Simulation(1, keep=0)
    for simulation in (whole, some, none):
        simulation.run(walk)
    assert len(whole.trace) > 20
    assert 10 <= len(some.trace) <= 20
    assert list(map(str, some.trace)) == list(map(str, whole.trace))[-len(some.trace) :]
    assert list(none.trace) == []
    assert whole.trace.digest == some.trace.digest == none.trace.digest
    assert whole.trace.steps == none.trace.steps


async def idle(system: ActorSystem) -> None:
    """Do nothing."""


def test_it_returns_what_the_program_returns() -> None:
    async def program(system: ActorSystem) -> str:
        answer: str = await system.spawn(lambda ctx, message: str(message).upper()).ask("done")
        return answer

    assert Simulation().run(program) == "DONE"


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt("x"), SystemExit(3), asyncio.CancelledError("x")])
def test_it_raises_what_the_program_raises(error: BaseException) -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(lambda ctx, message: None).tell(1)
        raise error

    simulation = Simulation()
    with pytest.raises(type(error)) as raised:
        simulation.run(program)
    assert raised.value is error
    assert simulation.system is not None
    assert simulation.system.phase == "stopped"
    assert_ledger_balanced(simulation.system)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_actor_that_ends_the_system_ends_the_simulation(kind: type[BaseException]) -> None:
    def interrupt(ctx: Any, message: object) -> None:
        raise kind("enough")

    async def program(system: ActorSystem) -> None:
        system.spawn(interrupt).tell(1)
        await asyncio.sleep(1)

    with pytest.raises(SystemFailed) as raised:
        Simulation().run(program)
    assert isinstance(raised.value.__cause__, kind)


def test_tasks_that_are_left_are_cancelled_in_virtual_time() -> None:
    ended: list[float] = []

    async def linger() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append(asyncio.get_running_loop().time())

    async def program(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(linger()))
        await asyncio.sleep(2)

    tasks: list[asyncio.Task[None]] = []
    simulation = Simulation()
    simulation.run(program)
    assert ended == [2.0]
    assert tasks[0].cancelled()


def test_a_program_for_which_everybody_waits_is_stuck_and_it_says_where() -> None:
    async def wait_for_nothing(system: ActorSystem) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationStuck) as raised:
        Simulation().run(wait_for_nothing)
    assert any("wait_for_nothing" in one and __file__ in one for one in raised.value.waiting)
    assert "wait_for_nothing" in str(raised.value)


def test_an_actor_that_waits_for_ever_is_named_when_a_simulation_is_stuck() -> None:
    async def wait(ctx: Any, message: object) -> None:
        await asyncio.Event().wait()

    async def program(system: ActorSystem) -> None:
        await system.spawn(wait, name="patient").ask(1, timeout=None)

    with pytest.raises(SimulationStuck) as raised:
        Simulation().run(program)
    assert "/patient" in str(raised.value)


def test_who_waits_is_said_in_the_same_words_every_time() -> None:
    async def program(system: ActorSystem) -> None:
        await asyncio.Event().wait()

    def words() -> str:
        with pytest.raises(SimulationStuck) as raised:
            Simulation().run(program)
        return str(raised.value)

    assert words() == words()


def test_a_stuck_system_is_stopped_all_the_same() -> None:
    async def program(system: ActorSystem) -> None:
        system.spawn(lambda ctx, message: None)
        await asyncio.Event().wait()

    simulation = Simulation()
    with pytest.raises(SimulationStuck):
        simulation.run(program)
    assert simulation.system is not None
    assert simulation.system.phase == "stopped"
    assert [event.kind for event in simulation.trace] == ["started", "stopped"]


async def spin(system: ActorSystem) -> None:
    def again(ctx: Any, message: int) -> None:
        ctx.self.tell(message + 1)

    system.spawn(again, name="spinner").tell(0)
    await asyncio.Event().wait()


async def turn(system: ActorSystem) -> None:
    while True:  # noqa: ASYNC110 - it is meant to turn
        await asyncio.sleep(0)


async def tick(system: ActorSystem) -> None:
    class Ticker(Actor[str, None]):
        def pre_start(self) -> None:
            self.ctx.send_every(1.0, self.ctx.self, "tick")

        def receive(self, message: str) -> None:
            pass

    system.spawn(Ticker, name="ticker")
    await asyncio.Event().wait()


@every_schedule
@pytest.mark.parametrize("program", [spin, turn, tick])
def test_a_program_without_an_end_is_ended_after_its_steps(program: Any, schedule: str) -> None:
    simulation = Simulation(schedule=schedule, max_steps=100, config=SystemConfig(max_actors_per_tick=16))
    with pytest.raises(SimulationEndless) as raised:
        simulation.run(program)
    assert raised.value.steps == 100
    assert simulation.system is not None
    assert simulation.system.phase == "stopped"
    assert_ledger_balanced(simulation.system)


@pytest.mark.parametrize(("program", "who"), [(spin, "spinner"), (tick, "ticker")])
def test_who_keeps_on_is_named_when_a_program_has_no_end(program: Any, who: str) -> None:
    with pytest.raises(SimulationEndless) as raised:
        Simulation(max_steps=100).run(program)
    assert who in str(raised.value)


# -- arguments
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seed", 1.0),
        ("seed", True),
        ("seed", "1"),
        ("seed", None),
        ("schedule", "fast"),
        ("schedule", None),
        ("schedule", [1]),
        ("schedule", {1: "x"}),
        ("schedule", {1: (0, 1)}),
        ("schedule", {"x": (0, 1, 0)}),
        ("schedule", {1: (-1, 0, 0)}),
        ("keep", -1),
        ("keep", 1.5),
        ("max_steps", 0),
        ("max_steps", None),
        ("config", "x"),
        ("faults", ["crash"]),
        ("faults", faults.crash("a")),
        ("faults", None),
    ],
    ids=str,
)
def test_a_bad_argument_is_a_config_error_that_names_it(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        Simulation(**{field: value}).run(idle)


@pytest.mark.parametrize("program", [3, None, "walk"])
def test_what_cannot_be_called_is_no_program(program: Any) -> None:
    with pytest.raises(BadArgument, match="async def program"):
        Simulation().run(program)


def test_a_program_must_be_async() -> None:
    with pytest.raises(BadArgument, match="async def"):
        Simulation().run(lambda system: 3)  # type: ignore[arg-type, return-value]


def test_there_is_no_trace_before_a_run() -> None:
    with pytest.raises(BadArgument, match="has not run"):
        _ = Simulation().trace


def test_a_session_whose_system_a_failure_has_ended_says_so_when_it_is_left() -> None:
    def fail(ctx: Any, message: object) -> None:
        raise ValueError(message)

    def use() -> None:
        with Simulation(config=SystemConfig(supervision=Supervision(Directive.ESCALATE))).open() as session:
            session.system.spawn(fail, name="top").tell("tea")
            session.settle()

    with pytest.raises(SystemFailed) as raised:
        use()
    assert isinstance(raised.value.__cause__, ValueError)


over = threading.Event()


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    """Let the stubborn be over when the test is, and nothing of the simulation be left."""
    over.clear()
    yield
    assert time.time() > EPOCH + 1e8
    assert gc.isenabled()
    over.set()
    gc.collect()  # which ends, too


async def sleeps_on() -> None:
    while not over.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


async def turns_round() -> None:
    while not over.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)


async def waits_on() -> None:
    while not over.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()


async def swallows_everything() -> None:
    while True:
        with suppress(BaseException):
            await asyncio.sleep(1)


Stubborn = Callable[[], Coroutine[Any, Any, None]]
every_kind = pytest.mark.parametrize("stubborn", [sleeps_on, turns_round, waits_on, swallows_everything])


@every_kind
def test_a_task_that_swallows_its_cancellation_is_named(stubborn: Stubborn) -> None:
    async def program(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(stubborn(), name="stubborn"))

    tasks: list[Any] = []
    with pytest.raises(SimulationStuck, match="cancelled") as raised:
        Simulation(max_steps=1000).run(program)
    (waiting,) = raised.value.waiting
    assert waiting.startswith(f"stubborn waits in {stubborn.__name__}")
    assert __file__ in waiting


@every_kind
def test_what_went_wrong_before_is_what_is_seen(stubborn: Stubborn) -> None:
    async def broken(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(stubborn()))
        raise ZeroDivisionError

    async def endless(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(stubborn()))
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    tasks: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        Simulation(max_steps=1000).run(broken)
    with pytest.raises(SimulationEndless):
        Simulation(max_steps=1000).run(endless)


@every_kind
def test_a_session_ends_all_the_same(stubborn: Stubborn) -> None:
    async def begin() -> None:
        tasks.append(asyncio.create_task(stubborn()))

    def careless() -> None:
        with Simulation(max_steps=1000).open() as session:
            session.run(begin)
            raise ZeroDivisionError

    tasks: list[Any] = []
    session = Simulation(max_steps=1000).open()
    session.run(begin)
    with pytest.raises(SimulationStuck, match=stubborn.__name__):
        session.close()
    session.close()
    with pytest.raises(ZeroDivisionError):
        careless()


@every_kind
def test_so_does_a_harness(stubborn: Stubborn) -> None:
    class Careless(Actor[str]):
        def receive(self, message: str) -> None:
            self.task = asyncio.ensure_future(stubborn())

    def under_test(then: Callable[[], None]) -> None:
        with ActorHarness(Careless) as harness:
            harness.ref.tell("go")
            if stubborn is not turns_round:  # of which the harness tells at once
                harness.settle()
            actors.append(harness.actor)
            then()

    def fail() -> None:
        raise ZeroDivisionError

    actors: list[Any] = []
    with pytest.raises(SimulationStuck, match=stubborn.__name__):
        under_test(lambda: None)
    with pytest.raises(ZeroDivisionError):
        under_test(fail)


@pytest.mark.parametrize("stubborn", [sleeps_on, turns_round, waits_on])
def test_a_handler_that_swallows_its_cancellation_is_broken_off(stubborn: Stubborn) -> None:
    async def handler(ctx: Context, message: Any) -> None:
        await stubborn()

    async def program(system: ActorSystem) -> None:
        system.spawn(handler).tell("go")
        await asyncio.sleep(1)

    if stubborn is turns_round:
        with pytest.raises(SimulationEndless):
            Simulation(max_steps=1000).run(program)
    else:
        Simulation(max_steps=1000).run(program)


def test_a_task_may_take_its_time_to_end() -> None:
    async def tidy() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for _ in range(1000):
                await asyncio.sleep(3600)
            ended.append(asyncio.get_running_loop().time())

    async def program(system: ActorSystem) -> None:
        tasks.append(asyncio.create_task(tidy()))

    ended: list[float] = []
    tasks: list[Any] = []
    Simulation().run(program)
    assert ended == [3600.0 * 1000]


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
