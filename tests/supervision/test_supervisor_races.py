"""A `Supervisor` to which several things happen at one moment; ends whose notices are queued when it decides (J10)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Asked,
    AutoShutdown,
    Backoff,
    Behaviors,
    ChildCounts,
    ChildSpec,
    CountChildren,
    DeleteChild,
    Directive,
    Down,
    DynamicSupervisor,
    ExitKind,
    GreenroomError,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Restart,
    RestartChild,
    RestartLimit,
    Scope,
    StartChild,
    State,
    StopChild,
    Supervision,
    Supervisor,
    WhichChildren,
    props,
)
from greenroom.errors import ChildRunning, NoSuchChild
from greenroom.testing import TestProbe
from tests.conformance.lives import actor_at, soon
from tests.gates import turns
from tests.supervision.children import (
    END,
    GRACE,
    AsyncWorker,
    Boom,
    Gate,
    Panic,
    Stage,
    Worker,
    both,
    by_name,
    child_of,
    end,
    nothing_left,
    supervise,
)

every_scope = pytest.mark.parametrize("scope", list(Scope), ids=lambda scope: str(scope.value))
every_end = pytest.mark.parametrize("how", list(END))
BY_OTHERS = (Boom, Panic, RestartLimit)
PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY


async def children_of(supervisor: ActorRef[Any, Any]) -> dict[str, ActorRef[Any, Any]]:
    return {name: info.ref for name, info in (await by_name(supervisor)).items() if info.ref is not None}


@both
# One that is told to stop by a message may be restarted with its group first, and stop then.
@pytest.mark.parametrize("how", [pytest.param(how, marks=pytest.mark.fifo) if how == "stopped" else how for how in END])
@every_scope
@pytest.mark.parametrize("restart", list(Restart))
async def test_one_ends_at_the_tick_at_which_another_fails(
    system: ActorSystem, restart: Restart, scope: Scope, how: str, kind: type[Worker]
) -> None:  # cases 35, 37, 43
    stage = Stage(kind)
    children = [stage.child("a"), stage.child("b", restart=restart), stage.child("c")]
    supervisor = await supervise(system, children, scope, intensity=3)
    refs = await children_of(supervisor)
    refs["a"].tell(Boom())
    end(refs["b"], how)
    await system.settle()
    assert supervisor.state is State.RUNNING
    infos = await by_name(supervisor)
    assert infos["a"].state is infos["c"].state is State.RUNNING
    if restart is TEMPORARY:
        assert "b" not in infos
    elif restart is PERMANENT or how not in ("stop", "stopped") or scope is not Scope.ONE_FOR_ONE:
        assert infos["b"].state is State.RUNNING
    for name, info in infos.items():
        if info.ref is not None:
            assert await info.ref.ask("well?") == "well?"
            assert stage.log.count(f"+{name}") == stage.log.count(f"-{name}") + 1


@both
@every_end
@every_scope
@pytest.mark.parametrize("restart", list(Restart))
async def test_one_ends_at_the_tick_at_which_another_trips_the_supervisor(
    system: ActorSystem, restart: Restart, scope: Scope, how: str, kind: type[Worker]
) -> None:  # cases 35, 37, 43
    stage = Stage(kind)
    children = [stage.child("a"), stage.child("b", restart=restart), stage.child("c")]
    supervisor = await supervise(system, children, scope, intensity=0)
    refs = await children_of(supervisor)
    cause = Boom("the first")
    refs["a"].tell(cause)
    end(refs["b"], how)
    async with asyncio.timeout(120.0):
        reason = await supervisor.terminated()
    # Whichever end the supervisor noticed first.
    assert reason.cause is cause or (restart is not TEMPORARY and isinstance(reason.cause, BY_OTHERS))
    assert sorted(stage.log) == ["+a", "+b", "+c", "-a", "-b", "-c"]
    nothing_left(system)


@every_end
@pytest.mark.parametrize("restart", list(Restart))
async def test_dynamic_children_end_at_the_tick_at_which_another_trips_the_supervisor(
    system: ActorSystem, restart: Restart, how: str
) -> None:  # cases 35, 37, 43
    stage = Stage()
    spec = DynamicSupervisor.spec(stage.child("x", restart=restart), intensity=0)
    supervisor: ActorRef[Any, Any] = system.spawn(DynamicSupervisor, spec)
    refs = [await supervisor.ask(StartChild()) for _ in range(4)]
    cause = Boom("the first")
    refs[1].tell(cause)
    for ref in (refs[0], refs[3]):
        end(ref, how)
    await system.settle()
    if restart is TEMPORARY:
        assert (await supervisor.ask(CountChildren())).active == 1
    else:
        reason = await supervisor.terminated()
        assert reason.cause is cause or isinstance(reason.cause, BY_OTHERS)
        nothing_left(system)


@every_end
@pytest.mark.parametrize("restart", [TRANSIENT, TEMPORARY])
async def test_one_ends_at_the_tick_at_which_a_significant_child_does(
    system: ActorSystem, restart: Restart, how: str
) -> None:  # cases 35, 37, 43: 39
    stage = Stage()
    children = [
        stage.child("a"),
        stage.child("s", restart=TRANSIENT, significant=True),
        stage.child("b", restart=restart),
    ]
    supervisor = await supervise(system, children, auto_shutdown=AutoShutdown.ANY)
    refs = await children_of(supervisor)
    refs["s"].stop()
    end(refs["b"], how)
    async with asyncio.timeout(120.0):
        assert (await supervisor.terminated()).kind is ExitKind.SHUTDOWN
    for name in "asb":
        assert stage.log.count(f"+{name}") == stage.log.count(f"-{name}")
    nothing_left(system)


@both
@every_end
@pytest.mark.parametrize("restart", list(Restart))
async def test_a_child_ends_while_it_is_being_stopped_by_request(
    system: ActorSystem, restart: Restart, how: str, kind: type[Worker]
) -> None:  # cases 35, 37, 43: "requests"
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("ab", restart=restart), intensity=0)
    ref = (await children_of(supervisor))["a"]
    asked = supervisor.ask(StopChild("a"))
    end(ref, how)  # after the request, which overtakes a message but not an order
    await asked
    await system.settle()
    assert not ref.is_alive
    assert supervisor.state is State.RUNNING
    assert list(await children_of(supervisor)) == ["b"]
    assert stage.log == ["+a", "+b", "-a"]


@pytest.mark.parametrize("how", ["failed", "kill", "stop"])
async def test_a_child_is_asked_to_start_again_at_the_tick_at_which_it_ends(system: ActorSystem, how: str) -> None:
    # cases 35, 37, 43: "requests"
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"))
    ref = (await children_of(supervisor))["a"]
    end(ref, how)
    with pytest.raises(ChildRunning):  # as far as the supervisor knows
        await supervisor.ask(RestartChild("a"))
    await system.settle()
    infos = await by_name(supervisor)
    assert (infos["a"].ref, infos["a"].state, infos["a"].restarts) == (ref, State.RUNNING, 1)


@every_scope
@pytest.mark.parametrize("how", ["failed", "kill", "stop"])
async def test_a_child_that_fails_again_as_soon_as_it_runs(system: ActorSystem, scope: Scope, how: str) -> None:
    # cases 30, 35, 37, 43
    stage = Stage()

    class Hasty(Worker):
        def post_start(self) -> None:
            if self.stage.log.count(f"+{self.name}") < 4:
                end(self.ctx.self, how)

    stage.kind = Hasty
    hasty = stage.child("b")
    stage.kind = Worker
    spec = Supervisor.spec([stage.child("a"), hasty, stage.child("c")], scope, intensity=3)
    supervisor = system.spawn(Supervisor, spec)
    await supervisor.started()
    await system.settle()
    assert supervisor.state is State.RUNNING
    infos = await by_name(supervisor)
    assert {info.state for info in infos.values()} == {State.RUNNING}
    assert infos["b"].restarts == 3
    assert stage.log.count("+b") == 4


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE])
async def test_a_child_added_at_the_tick_at_which_its_group_restarts(system: ActorSystem, scope: Scope) -> None:
    # cases 35, 37, 43: decision 016
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), scope)
    refs = await children_of(supervisor)
    asked = supervisor.ask(StartChild(stage.child("c")))
    refs["a"].tell(Boom())
    ref = await asked
    await system.settle()
    assert await children_of(supervisor) == refs | {"c": ref}
    assert {info.state for info in (await by_name(supervisor)).values()} == {State.RUNNING}


@every_scope
async def test_a_deadline_and_an_end_at_the_same_moment(system: ActorSystem, clock: ManualClock, scope: Scope) -> None:
    # cases 35, 37, 43, 44
    stage = Stage()
    supervisor = await supervise(system, stage.children("abc"), scope, backoff=Backoff(min=1.0, max=1.0))
    refs = await children_of(supervisor)
    refs["b"].tell(Boom())
    await clock.advance(0.5)
    sender = system.spawn(Worker, stage, "sender")
    await sender.ask(lambda ctx: ctx.send_after(0.5, refs["a"], Boom()) and None)
    await clock.advance(0.5)
    await clock.advance(1.0)
    infos = await by_name(supervisor)
    assert {info.state for info in infos.values()} == {State.RUNNING}
    for ref in refs.values():
        assert await ref.ask("well?") == "well?"
    await clock.advance(5.0)
    nothing_left(system, supervisor, sender, *refs.values())


@every_end
@pytest.mark.parametrize("restart", list(Restart))
async def test_a_dynamic_child_that_ends_just_before_it_is_stopped_stays_down(
    system: ActorSystem, restart: Restart, how: str
) -> None:  # cases 35, 37, 43, J10
    stage = Stage()
    spec = DynamicSupervisor.spec(ChildSpec("x", Worker, (stage,), restart=restart), intensity=2)
    supervisor: ActorRef[Any, Any] = system.spawn(DynamicSupervisor, spec)
    ref = await supervisor.ask(StartChild("a"))
    end(ref, how)
    try:
        await supervisor.ask(StopChild(ref))
    except NoSuchChild:
        assert restart is not PERMANENT
    await system.settle()
    assert not ref.is_alive
    assert await supervisor.ask(WhichChildren()) == []
    assert (await supervisor.ask(StartChild("b"))).state is State.RUNNING


class Scene:
    """A supervisor in the middle of something, and how to let that go on."""

    def __init__(self, system: ActorSystem, clock: ManualClock, stage: Stage) -> None:
        self.system, self.clock, self.stage = system, clock, stage

    def spawn(self, names: str = "abc", scope: Scope = Scope.ONE_FOR_ONE, **options: Any) -> ActorRef[Any, Any]:
        spec = Supervisor.spec(self.stage.children(names, shutdown=3.0), scope, **options)
        return self.system.spawn(Supervisor, spec, name="top")

    def child(self, name: str) -> ActorRef[Any, Any]:
        return actor_at(self.system, f"/top/{name}")

    async def at(self, moment: str, act: Callable[[], object] | None = None) -> Gate:
        gate = self.stage.hold(moment)
        if act is not None:
            act()
        await gate.entered.wait()
        return gate


async def starting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await scene.at("+b")
    return supervisor


async def rolling_back(scene: Scene) -> ActorRef[Any, Any]:
    scene.stage.trouble("+c", Boom("no start"))
    supervisor = scene.spawn()
    await scene.at("-b")
    return supervisor


async def waiting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(backoff=Backoff(min=50.0, max=50.0))
    await supervisor.started()
    scene.child("a").tell(Boom())
    scene.child("b").tell(Boom())
    await scene.clock.advance(1.0)
    assert scene.child("b").state is State.RESTARTING
    return supervisor


async def group_waiting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(scope=Scope.ONE_FOR_ALL, backoff=Backoff(min=50.0, max=50.0))
    await supervisor.started()
    scene.child("b").tell(Boom())
    await scene.clock.advance(1.0)
    assert scene.child("a").state is State.RESTARTING
    return supervisor


async def child_leaving(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await supervisor.started()
    await scene.at("-b", lambda: scene.child("b").tell(Boom()))
    return supervisor


async def child_starting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await supervisor.started()
    await scene.at("+b", lambda: scene.child("b").tell(Boom()))
    return supervisor


async def group_stopping(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(scope=Scope.ONE_FOR_ALL)
    await supervisor.started()
    await scene.at("-b", lambda: scene.child("a").tell(Boom()))
    return supervisor


async def group_starting(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(scope=Scope.ONE_FOR_ALL)
    await supervisor.started()
    await scene.at("+b", lambda: scene.child("c").tell(Boom()))
    return supervisor


async def giving_up(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn(intensity=0)
    await supervisor.started()
    await scene.at("-b", lambda: scene.child("c").tell(Boom()))
    return supervisor


async def adding(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await supervisor.started()
    await scene.at("+d", lambda: supervisor.tell(StartChild(scene.stage.child("d", shutdown=3.0))))
    return supervisor


async def removing(scene: Scene) -> ActorRef[Any, Any]:
    supervisor = scene.spawn()
    await supervisor.started()
    await scene.at("-b", lambda: supervisor.tell(StopChild("b")))
    return supervisor


MOMENTS: list[Callable[[Scene], Awaitable[ActorRef[Any, Any]]]] = [
    starting,
    rolling_back,
    waiting,
    group_waiting,
    child_leaving,
    child_starting,
    group_stopping,
    group_starting,
    giving_up,
    adding,
    removing,
]
every_moment = pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: str(moment.__name__))


@every_moment
@pytest.mark.parametrize("released", [True, False], ids=["goes on", "hangs"])
@pytest.mark.parametrize("how", ["stop", "kill", "fail", "shutdown"])
@pytest.mark.config(stop_timeout=5.0)
async def test_whatever_it_is_doing_a_supervisor_ends_and_leaves_nothing_behind(
    system: ActorSystem,
    clock: ManualClock,
    how: str,
    released: bool,
    moment: Callable[[Scene], Awaitable[ActorRef[Any, Any]]],
) -> None:  # J10, case 59
    stage = Stage(AsyncWorker)
    scene = Scene(system, clock, stage)
    supervisor = await moment(scene)
    probe = TestProbe(system)
    await probe.watch(supervisor)
    asked = supervisor.ask("anything", timeout=None)
    if how == "shutdown":
        system.stop()
    else:
        end(supervisor, how)
    await clock.advance(0.0)
    if released:
        for gate in stage.gates.values():
            gate.released.set()
        await clock.advance(0.0)
    else:
        await clock.advance(20.0 + GRACE)
    async with asyncio.timeout(120.0):
        await supervisor.terminated()
        with pytest.raises(Exception, match=r"."):
            await asked
        if how == "shutdown":
            await system.stopped()
    assert [ref.path for ref in system.actors() if ref != probe.ref] == []
    assert system.snapshot().timers == 0
    started = [entry[1] for entry in stage.log if entry[0] == "+" and "cancelled" not in entry]
    stopped = [entry[1] for entry in stage.log if entry[0] == "-"]
    assert set(started) <= set(stopped)  # whoever came up went down


@every_moment
@pytest.mark.config(stop_timeout=5.0, supervision=Supervision())
async def test_whatever_it_is_doing_a_supervisor_can_be_restarted(
    system: ActorSystem, clock: ManualClock, moment: Callable[[Scene], Awaitable[ActorRef[Any, Any]]]
) -> None:  # case 59, J10, M6
    stage = Stage(AsyncWorker)
    scene = Scene(system, clock, stage)
    supervisor = await moment(scene)
    supervisor.restart()
    await clock.advance(0.0)
    for gate in stage.gates.values():
        gate.released.set()
    stage.gates.clear()
    await clock.advance(10.0)
    assert supervisor.state is State.RUNNING
    infos = await by_name(supervisor)
    assert {name: info.state for name, info in infos.items()} == dict.fromkeys("abc", State.RUNNING)
    assert {info.restarts for info in infos.values()} == {0}
    alive = [info.ref for info in infos.values() if info.ref is not None]
    nothing_left(system, supervisor, *alive)
    stage.take()
    await clock.advance(200.0)  # no deadline of the old incarnation is left
    assert stage.take() == []
    if moment is not giving_up:  # which allows none
        alive[1].tell(Boom())
        await clock.advance(60.0)
        assert (await by_name(supervisor))["b"].restarts == 1


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL])
async def test_a_deadline_of_an_earlier_incarnation_starts_nobody(
    system: ActorSystem, clock: ManualClock, scope: Scope
) -> None:  # case 59, J11, decision 014
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), scope, backoff=Backoff(min=50.0, max=50.0))
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(0.0)
    supervisor.restart()
    await clock.advance(20.0)
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(40.0)  # past the deadline of the incarnation before
    infos = await by_name(supervisor)
    assert (infos["a"].state, infos["a"].next_attempt) == (State.RESTARTING, 70.0)
    await clock.advance(10.0)
    assert (await by_name(supervisor))["a"].state is State.RUNNING


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_child_that_is_ended_while_it_waits_does_not_wait_for_ever(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # cases 35 and 59
    stage = Stage()
    children = stage.children("ab", backoff=Backoff(min=10.0, max=10.0))
    supervisor = await supervise(system, children, intensity=None)
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(1.0)
    end(await child_of(supervisor, "a"), how)
    await clock.advance(30.0)
    assert (await by_name(supervisor))["a"].state is State.RUNNING  # permanent is permanent
    assert await (await child_of(supervisor, "a")).ask("well?") == "well?"
    assert system.snapshot().timers == 0


async def test_notices_reach_a_supervisor_whose_mailbox_is_full(system: ActorSystem, clock: ManualClock) -> None:
    # case 59, case 11, "orders and notices"
    stage = Stage()
    spec = Supervisor.spec(stage.children("abc"), Scope.ONE_FOR_ALL, backoff=Backoff(min=1.0))
    supervisor = system.spawn(Supervisor, spec, mailbox=MailboxConfig(capacity=1))
    await supervisor.started()
    refs = [await child_of(supervisor, name) for name in "abc"]
    stage.take()
    for ref in refs:
        ref.fail(Boom())
    asked = supervisor.ask(CountChildren())
    with pytest.raises(MailboxFull):
        supervisor.tell(CountChildren())
    assert (await asked).specs == 3
    await clock.advance(1.0)
    assert stage.take()[-3:] == ["+a", "+b", "+c"]
    assert {info.restarts for info in (await by_name(supervisor)).values()} == {1}


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


Ref = ActorRef[Any, Any]


async def counted(system: ActorSystem, supervisor: Ref) -> ChildCounts:
    found: ChildCounts = await soon(system, supervisor.ask(CountChildren(), timeout=None))
    return found


async def kill_while_it_waits(system: ActorSystem, clock: ManualClock, stage: Stage) -> tuple[Ref, Ref, Ref]:
    """A supervisor and its two children; the first was killed while it waited for its backoff, and has come back."""
    backoff = Backoff(min=1.0, max=1.0)
    supervisor = await supervise(system, stage.children("ab"), Scope.ONE_FOR_ALL, intensity=None, backoff=backoff)
    one, other = (await children_of(supervisor)).values()
    one.tell(Boom())
    await clock.advance(0.5)
    assert one.state is State.RESTARTING
    one.kill()
    await clock.advance(2.0)
    assert [one.state, other.state] == [State.RUNNING, State.RUNNING]
    stage.take()
    return supervisor, one, other


async def test_a_child_killed_while_it_waited_can_be_restarted_later(system: ActorSystem, clock: ManualClock) -> None:
    # J10, M6, M7
    stage = Stage()
    _, one, _ = await kill_while_it_waits(system, clock, stage)
    one.restart()
    await clock.advance(0.0)
    assert stage.take() == ["-a", "+a"]
    assert await soon(system, one.ask("well?", timeout=None)) == "well?"


async def test_a_child_killed_while_it_waited_leaves_with_its_group_later(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10, M7
    stage = Stage()
    supervisor, one, other = await kill_while_it_waits(system, clock, stage)
    other.tell(Boom())
    await clock.advance(5.0)
    assert (await counted(system, supervisor)).active == 2
    assert (one.state, other.state) == (State.RUNNING, State.RUNNING)
    assert sorted(stage.take()) == ["+a", "+b", "-a", "-b"]
    nothing_left(system, supervisor, one, other)


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE], ids=lambda scope: str(scope.value))
async def test_a_child_that_leaves_to_be_restarted_holds_up_its_group_only_until_it_has_left(
    system: ActorSystem, scope: Scope
) -> None:  # J10, M6, M7
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, stage.children("ab"), scope)
    one, other = (await children_of(supervisor)).values()
    stage.take()
    gate = stage.hold("-b")
    other.restart()
    await gate.entered.wait()
    left = stage.hold("-a")
    one.tell(Boom())
    await left.entered.wait()
    left.released.set()
    await turns(20)
    assert "+a" not in stage.log  # they start together
    gate.released.set()
    stage.gates.clear()
    await soon(system, system.settle())
    assert (await counted(system, supervisor)).active == 2
    assert (one.state, other.state) == (State.RUNNING, State.RUNNING)
    for ref in (one, other):
        assert await soon(system, ref.ask("well?", timeout=None)) == "well?"


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.config(max_msgs_per_actor=1)
async def test_a_child_that_is_ended_while_its_start_is_on_the_way_comes_back(system: ActorSystem, how: str) -> None:
    # case 35, J10, M7
    stage = Stage()

    class Ender(Actor[Any, Any]):
        def receive(self, message: tuple[Ref, int]) -> None:
            ref, left = message
            end(ref, how)
            if left:
                self.ctx.self.tell((ref, left - 1))

    supervisor = await supervise(system, stage.children("a"), intensity=None)
    (ref,) = (await children_of(supervisor)).values()
    for more in range(3):
        system.spawn(Ender).tell((ref, 50 + more))
    await system.settle()
    assert ref.state is State.RUNNING
    assert (await by_name(supervisor))["a"].state is State.RUNNING
    assert await soon(system, ref.ask("well?", timeout=None)) == "well?"
    assert stage.log.count("+a") == stage.log.count("-a") + 1


async def test_a_supervisor_that_gave_up_and_is_told_to_go_on_begins_again(system: ActorSystem) -> None:  # J10, M7
    stage = Stage()
    resumed = Supervision(lambda cause: Directive.RESUME, backoff=None)
    supervisor = await supervise(system, stage.children("ab"), intensity=0, supervision=resumed)
    first = list((await children_of(supervisor)).values())
    first[0].tell(Boom())
    await system.settle()
    assert supervisor.state is State.RUNNING
    counts = await counted(system, supervisor)
    assert (counts.specs, counts.active) == (2, 2)
    for ref in (await children_of(supervisor)).values():
        assert await soon(system, ref.ask("well?", timeout=None)) == "well?"
    assert stage.take() == ["+a", "+b", "-a", "-b", "+a", "+b"]
    nothing_left(system, supervisor, *(await children_of(supervisor)).values())


class Bound(AsyncWorker):
    """Tells its stage who it hears has ended."""

    def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.stage.heard.append(("terminated", ref))

    def receive(self, message: Any) -> Any:
        if isinstance(message, Down):
            self.stage.heard.append(("down", message.ref))
            return None
        return super().receive(message)


async def test_a_child_that_comes_back_hears_of_the_ends_that_came_while_it_left(system: ActorSystem) -> None:
    # J10, M7, M8
    stage = Stage(Bound)
    supervisor = await supervise(system, stage.children("a"), intensity=None)
    (ref,) = (await children_of(supervisor)).values()
    friend: Ref = system.spawn(Worker, Stage(), "friend")
    await ref.ask(lambda ctx: ctx.watch(friend))
    await ref.ask(lambda ctx: ctx.monitor(friend))
    gate = stage.hold("-a")
    ref.stop()
    await gate.entered.wait()
    friend.stop()
    await friend.terminated()
    assert stage.heard == []
    gate.released.set()
    stage.gates.clear()
    await system.settle()
    assert await soon(system, ref.ask("well?", timeout=None)) == "well?"
    assert stage.heard == [("terminated", friend), ("a", "well?")], "its monitor was the old instance's"


async def test_a_restart_on_request_that_fails_is_followed_by_a_whole_backoff(
    system: ActorSystem, clock: ManualClock
) -> None:  # J10, M6, M7
    stage = Stage()
    children = stage.children("a", backoff=Backoff(min=10.0, max=100.0))
    supervisor = await supervise(system, children, intensity=None)
    (ref,) = (await children_of(supervisor)).values()
    ref.tell(Boom())
    await clock.advance(1.0)
    assert (await by_name(supervisor))["a"].next_attempt == 10.0
    stage.take()
    stage.trouble("+a", Boom("no start"))
    ref.restart()
    await clock.advance(0.0)
    assert stage.take()[0] == "+a!"
    assert (await by_name(supervisor))["a"].next_attempt == 21.0
    await clock.advance(19.5)
    assert "+a" not in stage.take()
    assert (await by_name(supervisor))["a"].state is State.RESTARTING
    await clock.advance(0.5)
    assert stage.take() == ["+a"]
    assert (await by_name(supervisor))["a"].state is State.RUNNING
    nothing_left(system, supervisor, ref)
