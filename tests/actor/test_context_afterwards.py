"""A context that somebody kept: used when its actor has ended it does no harm, least of all to others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, ManualClock, State
from greenroom.errors import GreenroomError
from greenroom.testing import TestProbe


class Giving(Actor[Any, Any]):
    """Hands out its context, as a task that outlives it would have it."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message


async def give(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


ACTS: dict[str, Callable[[Context, ActorRef[Any, Any]], Any]] = {
    "watch": lambda ctx, other: ctx.watch(other),
    "watch with message": lambda ctx, other: ctx.watch(other, "ended"),
    "unwatch": lambda ctx, other: ctx.unwatch(other),
    "spawn": lambda ctx, other: ctx.spawn(Giving),
    "stop": lambda ctx, other: ctx.stop(),
    "become": lambda ctx, other: ctx.become(lambda ctx, message: None),
    "unbecome": lambda ctx, other: ctx.unbecome(),
    "send_after": lambda ctx, other: ctx.send_after(1.0, other, "from a ghost"),
    "send_every": lambda ctx, other: ctx.send_every(1.0, other, "from a ghost"),
    "timers": lambda ctx, other: ctx.timers.start("key", 1.0, "to itself", every=1.0),
    "receive timeout": lambda ctx, other: ctx.set_receive_timeout(1.0),
    "pipe": lambda ctx, other: ctx.pipe_to_self(give(1)),
    "unstash": lambda ctx, other: ctx.unstash(),
    "unstash_all": lambda ctx, other: ctx.unstash_all(),
    "stash": lambda ctx, other: ctx.stash(),
    "reply": lambda ctx, other: ctx.reply(1),
    "log": lambda ctx, other: ctx.log.info("from a ghost"),
    "looks": lambda ctx, other: (
        ctx.self,
        ctx.name,
        ctx.parent,
        ctx.children,
        ctx.env,
        ctx.now(),
        ctx.sender,
        ctx.lane,
    ),
}


@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.parametrize("ending", ["stop", "kill"])
async def test_a_ghost_harms_nobody(system: ActorSystem, clock: ManualClock, act: str, ending: str) -> None:
    probe = TestProbe(system)
    ghost, other = system.spawn(Giving), system.spawn(Giving)
    ctx = await ghost.ask(lambda ctx: ctx)
    getattr(ghost, ending)()
    await ghost.terminated()
    with contextlib.suppress(GreenroomError):  # or nothing comes of it
        ACTS[act](ctx, other)
    await probe.watch(other)
    await system.settle()
    assert await other.ask("alive") == "alive"
    for _ in range(3):
        await clock.advance(1.0)
    assert await other.ask("alive") == "alive"
    assert not ghost.is_alive
    assert ghost.state is State.TERMINATED
    other.stop()
    await other.terminated()
    await probe.expect_terminated(other)
    assert system.actors() == [probe.ref]


@pytest.mark.parametrize("act", ["send_after", "send_every", "timers"])
async def test_no_timer_fires_for_a_dead_actor(system: ActorSystem, clock: ManualClock, act: str) -> None:  # J11
    probe = TestProbe(system)
    ghost = system.spawn(Giving)
    ctx = await ghost.ask(lambda ctx: ctx)
    ghost.stop()
    await ghost.terminated()
    try:
        ACTS[act](ctx, probe.ref)
    except GreenroomError:
        return
    await clock.advance(10.0)
    assert probe.messages == []
    assert system.snapshot().timers == 0  # all freed at stop


@pytest.mark.parametrize("wait", ["started", "terminated", "inspect"])
async def test_a_handler_may_wait_for_another_actors_life(system: ActorSystem, wait: str) -> None:
    async def waiting(ctx: Context, message: ActorRef[Any, Any]) -> str:
        if wait == "terminated":
            message.stop()
        await getattr(message, wait)()
        return f"{wait}, {message.state.value}"

    other = system.spawn(Giving)
    expected = "terminated" if wait == "terminated" else "running"
    assert await system.spawn(waiting).ask(other) == f"{wait}, {expected}"
