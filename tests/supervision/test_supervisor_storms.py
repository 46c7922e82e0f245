"""Supervisors in a storm of ends and requests: whatever comes, certain things hold at its end (J10)."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    Asked,
    Backoff,
    Behaviors,
    ChildSpec,
    CountChildren,
    DeleteChild,
    DynamicSupervisor,
    GreenroomError,
    ManualClock,
    Restart,
    RestartChild,
    Scope,
    StartChild,
    State,
    StopChild,
    Supervisor,
    WhichChildren,
    props,
)
from tests.supervision.staff import END, AsyncWorker, Boom, Stage, Worker, by_name, end, supervise

SEEDS = [*range(6), 14, 21, 22, 25, 28, 38]  # each of the latter has found something
STEPS = 60
NAMES = "abcdef"


class Storm:
    """Random ends and requests, and what they lead to."""

    def __init__(self, seed: int, system: ActorSystem, clock: ManualClock, stage: Stage) -> None:
        self.random = random.Random(seed)
        self.system, self.clock, self.stage = system, clock, stage
        self.asked: list[Asked[Any]] = []

    def spec(self, name: str) -> ChildSpec:
        chance = self.random
        return self.stage.child(
            name,
            restart=chance.choice(list(Restart)),
            shutdown=chance.choice([0.5, 2.0]),
            backoff=chance.choice([None, None, Backoff(min=0.5, max=2.0)]),
        )

    def request(self, supervisor: ActorRef[Any, Any]) -> None:
        name = self.random.choice(NAMES)
        message = self.random.choice(
            [StartChild(self.spec(name)), StopChild(name), RestartChild(name), DeleteChild(name), WhichChildren(), "?"]
        )
        self.asked.append(supervisor.ask(message, timeout=None))

    async def step(self, supervisor: ActorRef[Any, Any]) -> None:
        """One to five things at once, then perhaps some time."""
        for _ in range(self.random.randint(1, 5)):
            ref = self.system.actor(f"/top/{self.random.choice(NAMES)}")
            if ref is None or self.random.random() < 0.4:
                self.request(supervisor)
            elif self.random.random() < 0.2:
                self.stage.trouble(f"+{ref.name}", Boom("no start"))
            else:
                end(ref, self.random.choice(list(END)))
        if self.random.random() < 0.7:
            await self.clock.advance(self.random.choice([0.0, 0.0, 0.25, 0.5, 3.0]))

    async def calm(self) -> None:
        self.stage.troubles.clear()
        await self.clock.advance(30.0)
        await self.system.settle()


@pytest.mark.parametrize("kind", [Worker, AsyncWorker], ids=["sync", "async"])
@pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: str(scope.value))
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_supervisor_comes_out_of_any_storm(
    system: ActorSystem, clock: ManualClock, seed: int, scope: Scope, kind: type[Worker]
) -> None:  # J10
    stage = Stage(kind)
    storm = Storm(seed, system, clock, stage)
    supervisor = await supervise(system, [storm.spec(name) for name in "abcd"], scope, intensity=None, name="top")
    for _ in range(STEPS):
        await storm.step(supervisor)
    await storm.calm()
    assert supervisor.state is State.RUNNING
    assert all(one.done() for one in storm.asked)
    for one in storm.asked:
        with suppress(GreenroomError, Boom):
            await one
    for name, info in (await by_name(supervisor)).items():
        assert info.next_attempt is None
        if info.ref is None:
            assert system.actor(f"/top/{name}") is None
            continue
        assert info.ref == system.actor(f"/top/{name}")
        assert info.state is info.ref.state is State.RUNNING
        assert await info.ref.ask("well?") == "well?"
    alive = sorted(ref.path for ref in system.actors() if ref != supervisor)
    assert alive == sorted(f"/top/{name}" for name, info in (await by_name(supervisor)).items() if info.ref)
    counts = await supervisor.ask(CountChildren())
    assert (counts.active, counts.restarting) == (len(alive), 0)
    assert system.snapshot().timers == 0
    supervisor.stop()
    await clock.advance(0.0)
    assert system.actors() == []


@pytest.mark.parametrize("restart", list(Restart))
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_dynamic_supervisor_comes_out_of_any_storm(
    system: ActorSystem, clock: ManualClock, seed: int, restart: Restart
) -> None:  # J10
    stage = Stage(AsyncWorker)
    chance = random.Random(seed)
    template = ChildSpec("worker", AsyncWorker, (stage,), restart=restart, shutdown=1.0)
    spec = DynamicSupervisor.spec(template, intensity=None, backoff=Backoff(min=0.5, max=1.0))
    supervisor: ActorRef[Any, Any] = system.spawn(DynamicSupervisor, spec, name="crowd")
    asked: list[Asked[Any]] = []
    for number in range(STEPS * 3):
        children = [ref for ref in system.actors() if ref != supervisor]
        ref = chance.choice(children) if children else None
        if ref is None or chance.random() < 0.5:
            if chance.random() < 0.2:
                stage.trouble(f"+{number}", Boom("no start"))
            asked.append(supervisor.ask(StartChild(str(number)), timeout=None))
        elif chance.random() < 0.3:
            asked.append(supervisor.ask(StopChild(ref if chance.random() < 0.5 else ref.name), timeout=None))
        else:
            end(ref, chance.choice(list(END)))
        if chance.random() < 0.4:
            await clock.advance(chance.choice([0.0, 0.25, 0.5]))
    await clock.advance(30.0)
    assert supervisor.state is State.RUNNING
    assert all(one.done() for one in asked)
    for one in asked:
        with suppress(GreenroomError, Boom):
            await one
    refs = [info.ref for info in await supervisor.ask(WhichChildren())]
    assert sorted(str(ref) for ref in refs) == sorted(str(ref) for ref in system.actors() if ref != supervisor)
    for one_ref in refs:
        assert one_ref is not None
        assert await one_ref.ask("well?") == "well?"
    assert system.snapshot().timers == 0


async def test_every_kind_of_factory_makes_a_child(system: ActorSystem) -> None:  # J10, `spawn`
    stage = Stage()

    def handler(ctx: Any, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return message

    async def slow_handler(ctx: Any, message: Any) -> Any:
        return handler(ctx, message)

    factories: dict[str, Any] = {
        "class": ChildSpec("class", Worker, (stage, "class")),
        "callable": ChildSpec("callable", lambda: Worker(stage, "callable")),
        "props": ChildSpec("props", props(Worker, stage, "props")),
        "function": ChildSpec("function", handler),
        "async": ChildSpec("async", slow_handler),
        "behavior": ChildSpec("behavior", Behaviors.receive(handler)),
        "supervisor": ChildSpec("supervisor", Supervisor, (Supervisor.spec(stage.children("x")),)),
    }
    supervisor = await supervise(system, list(factories.values()), intensity=None)
    infos = await by_name(supervisor)
    assert list(infos) == list(factories)
    for name, info in infos.items():
        assert info.ref is not None
        if name == "supervisor":
            info.ref.fail(Boom())
        else:
            info.ref.tell(Boom())
        await system.settle()
        assert (await by_name(supervisor))[name].restarts == 1
        assert info.ref.state is State.RUNNING
        if name != "supervisor":
            assert await info.ref.ask("well?") == "well?"
