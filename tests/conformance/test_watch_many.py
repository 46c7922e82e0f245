"""However many are to be told of one end, the loop is not held up, and each is told once (M8, E11, J6)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Context, Down, Exit, Lane, Supervision
from greenroom.actor.relations import BATCH
from tests.conformance.lives import report_of
from tests.conformance.relations import BAD, Plain, Ref
from tests.gates import Event

# Thousands of actors, each with something to do elsewhere: that takes a while, and shows nothing about them.
pytestmark = pytest.mark.at_home

MANY = 5_000
SENTINELS = 40

Bind = Callable[[Context, Ref], Any]
BONDS: dict[str, Bind] = {
    "watch": lambda ctx, ref: ctx.watch(ref),
    "watch with a message": lambda ctx, ref: ctx.watch(ref, "gone"),
    "monitor": lambda ctx, ref: ctx.monitor(ref),
    "link": lambda ctx, ref: ctx.link(ref),
}
every_bond = pytest.mark.parametrize("bond", BONDS)


@dataclass
class Stage:
    """What the actors of one test share."""

    bind: Bind
    target: Ref
    gate: Event
    rounds: int = 0
    ticks: int = 0
    bound: int = 0

    def __post_init__(self) -> None:
        self.told: Counter[int] = Counter()
        self.rounds_told: list[int] = []
        self.ticks_told: list[int] = []


class Follower(Actor[Any, Any]):
    """Bound to the target; counts what it is told."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.number = number

    def pre_start(self) -> None:
        self.ctx.trap_exit = True

    def hear(self) -> None:
        self.stage.told[self.number] += 1
        self.stage.rounds_told.append(self.stage.rounds)
        self.stage.ticks_told.append(self.stage.ticks)

    def receive(self, message: Any) -> Any:
        if message == "bind":
            self.stage.bind(self.ctx, self.stage.target)
            self.stage.bound += 1
        elif callable(message):
            message(self.ctx)
        elif message == "gone" or isinstance(message, Down | Exit):
            self.hear()
        return None

    def on_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.hear()


class Held(Follower):
    """The same; but once it is bound it is busy until it is let go, so that what it is told only queues up."""

    async def receive(self, message: Any) -> Any:
        super().receive(message)
        if message == "bind":
            await self.stage.gate.wait()


class Bystander(Actor[Any, Any]):
    """Sends itself a message for as long as the target's followers are being told: each is a round of the loop."""

    def __init__(self, stage: Stage, rounds: int) -> None:
        self.stage = stage
        self.rounds = rounds

    def receive(self, message: str) -> None:
        if not self.stage.target.is_alive:
            self.stage.rounds += 1
        if self.stage.rounds < self.rounds:
            self.ctx.self.tell("again")


async def assemble(system: ActorSystem, bond: str, count: int, held: bool) -> tuple[Stage, list[Ref]]:
    """A target and those bound to it: of the held ones, some in between are not."""
    stage = Stage(BONDS[bond], system.spawn(Plain), Event())
    followers = []
    for number in range(count):
        kind = Held if held and number % (count // SENTINELS) != 0 else Follower
        ref: Ref = system.spawn(kind, stage, number)
        ref.tell("bind")
        followers.append(ref)
        if number % 10_000 == 0:
            await asyncio.sleep(0)
    while stage.bound < count:  # noqa: ASYNC110 - nobody is told before all are bound
        await asyncio.sleep(0)
    return stage, followers


@pytest.mark.parametrize("count", [MANY, pytest.param(100_000, marks=pytest.mark.slow)])
@every_bond
async def test_others_are_served_while_very_many_are_told(system: ActorSystem, bond: str, count: int) -> None:  # M8, J6
    stage, _ = await assemble(system, bond, count, held=True)
    enough = 10 * count
    bystander = system.spawn(Bystander, stage, enough)
    bystander.tell("begin")
    stage.target.fail(BAD)
    while len(stage.rounds_told) < SENTINELS:  # the system does not settle before
        await asyncio.sleep(0)
        stage.ticks += 1
    rounds, ticks = stage.rounds_told[:], stage.ticks_told[:]
    stage.rounds = enough
    stage.gate.set()
    await system.settle()
    # One batch a tick, and the bystander had its turn in between: how often depends on the machine's speed.
    assert ticks[-1] - ticks[0] >= count // BATCH // 2, ticks
    assert rounds[-1] > rounds[0], rounds
    assert stage.told == Counter(range(count))


@every_bond
async def test_to_settle_is_to_have_told_everybody(system: ActorSystem, bond: str) -> None:  # M8, settle()
    count = 5_000
    stage, _ = await assemble(system, bond, count, held=False)
    stage.target.kill()
    await stage.target.terminated()
    await system.settle()
    assert stage.told == Counter(range(count))


@every_bond
async def test_a_system_may_end_while_very_many_are_being_told(system: ActorSystem, bond: str) -> None:  # M8, case 59
    stages: list[Stage] = []
    stage, _ = await assemble(system, bond, 5_000, held=False)
    stages.append(stage)
    stage.target.kill()
    await stage.target.terminated()
    await system.shutdown()
    assert report_of(system).terminated == 5_001
    assert max(stages[0].told.values(), default=1) == 1


# -- meanwhile


def unbind(ctx: Context, stage: Stage) -> None:
    ctx.unwatch(stage.target)
    ctx.unlink(stage.target)


def bind_again(ctx: Context, stage: Stage) -> None:
    stage.bind(ctx, stage.target)


def bind_anew(ctx: Context, stage: Stage) -> None:
    unbind(ctx, stage)
    stage.bind(ctx, stage.target)


def end_it(ctx: Context, stage: Stage) -> None:
    ctx.stop()


def kill_it(ctx: Context, stage: Stage) -> None:
    ctx.self.kill()


def restart_it(ctx: Context, stage: Stage) -> None:
    ctx.self.restart()


def nothing(ctx: Context, stage: Stage) -> None:
    pass


ACTS: dict[Callable[[Context, Stage], None], int] = {
    unbind: 0,
    bind_again: 1,
    bind_anew: 1,
    end_it: 0,
    kill_it: 0,
    restart_it: 1,
    nothing: 1,
}
"""What they do when the target has ended and they have not heard of it, and how often they hear of it then."""


@pytest.mark.parametrize("bond", ["watch", "watch with a message", "link"])
@pytest.mark.config(supervision=Supervision(backoff=None))
async def test_those_that_change_their_minds_while_the_telling_is_under_way_hear_what_they_should(  # cases 14, 16, 21
    system: ActorSystem, bond: str
) -> None:
    count = 7_000
    acts = list(ACTS)
    stage, followers = await assemble(system, bond, count, held=False)
    stage.target.kill()
    await stage.target.terminated()
    # Some have their notices queued, most have not: what comes by the control lane is before it for all.
    assert sum(stage.told.values()) < count // 10
    heard = set(stage.told)
    for number, ref in enumerate(followers):
        act = acts[number % len(acts)]
        ref.tell(lambda ctx, act=act: act(ctx, stage), lane=Lane.CONTROL)
    await system.settle()
    for number in range(count):
        if number in heard:
            continue
        act = acts[number % len(acts)]
        assert stage.told[number] == ACTS[act], (number, act)


async def test_those_that_give_up_some_monitors_while_the_telling_is_under_way_hear_of_the_others(
    system: ActorSystem,
) -> None:  # 15
    class Two(Actor[Any, Any]):
        def __init__(self, number: int) -> None:
            self.number = number

        def receive(self, message: Any) -> None:
            if message == "bind":
                self.mrefs = [self.ctx.monitor(targets[0]) for _ in range(2)]
                bound.append(self.number)
            elif message == "give up":
                self.ctx.demonitor(self.mrefs[0])
                gave_up.add(self.number)
            elif isinstance(message, Down):
                log.append((self.number, self.mrefs.index(message.mref)))

    count = 3_000
    log: list[tuple[int, int]] = []
    gave_up: set[int] = set()
    bound: list[int] = []
    targets: list[Ref] = []
    target = system.spawn(Plain)
    targets.append(target)
    holders = [system.spawn(Two, number) for number in range(count)]
    for holder in holders:
        holder.tell("bind")
    await system.settle()
    assert len(bound) == count
    target.kill()
    await target.terminated()
    heard = set(log)
    for holder in holders[::2]:
        holder.tell("give up", lane=Lane.CONTROL)
    await system.settle()
    wanted = {(number, which) for number in range(count) for which in (0, 1) if which or number not in gave_up}
    assert len(gave_up) == count // 2
    assert len(log) == len(set(log))
    assert set(log) == wanted | heard
    assert len(heard) < count


async def test_a_message_given_anew_while_the_telling_is_under_way_is_the_one_that_comes(system: ActorSystem) -> None:
    # M8
    class Named(Actor[Any, Any]):
        def __init__(self, number: int) -> None:
            self.number = number

        def receive(self, message: Any) -> None:
            if callable(message):
                message(self.ctx)
            else:
                log.append((self.number, message))

    count = 3_000
    log: list[tuple[int, str]] = []
    target = system.spawn(Plain)
    holders = [system.spawn(Named, number) for number in range(count)]
    for holder in holders:
        holder.tell(lambda ctx: ctx.watch(target, "old"))
    await system.settle()
    target.kill()
    await target.terminated()
    heard = dict(log)
    assert len(heard) < count // 2
    for holder in holders:
        holder.tell(lambda ctx: ctx.watch(target, "new"), lane=Lane.CONTROL)
    await system.settle()
    told = Counter(number for number, message in log if message == "new")
    assert told == Counter(range(count))
