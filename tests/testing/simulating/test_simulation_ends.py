"""How a simulation ends: as its program does, or because nothing will ever happen, or too much (B1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Directive, Supervision, SystemConfig
from greenroom.errors import BadArgument, ConfigError, SimulationEndless, SimulationStuck, SystemFailed
from greenroom.testing import Simulation, assert_ledger_balanced, faults

every_schedule = pytest.mark.parametrize("schedule", ["random", "pct", "fifo"])


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
