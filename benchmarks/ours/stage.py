"""What our programs share: a running system to play in, actors that know one another, the account at the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from benchmarks.program import Report, Unavailable, expect, require
from greenroom import COMPILED, Actor, ActorRef, ActorSystem, SystemConfig
from greenroom.testing import assert_ledger_balanced

P = ParamSpec("P")
M = TypeVar("M")
R = TypeVar("R")

Play = Callable[[ActorSystem], Coroutine[Any, Any, Report]]


def perform(play: Play, *, uvloop: bool = False, config: SystemConfig | None = None) -> Report:
    """Run ``play`` inside a system, on asyncio's own loop or on uvloop."""

    async def run() -> Report:
        async with ActorSystem(config=config) as system:
            return await play(system)

    with asyncio.Runner(loop_factory=require("uvloop").new_event_loop if uvloop else None) as runner:
        return runner.run(run())


async def seat(
    system: ActorSystem,
    count: int,
    actor: Callable[Concatenate[Sequence[ActorRef[M, R]], int, P], Actor[M, R]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> list[ActorRef[M, R]]:
    """``count`` actors that have started, each made with the seats of all and the number of its own.

    An actor is not made before its first turn, so it finds all seats taken, and can keep the ref of a neighbour.
    """
    seats: list[ActorRef[M, R]] = []
    seats.extend(system.spawn(actor, seats, place, *args, **kwargs) for place in range(count))
    await system.settle()
    return seats


async def expect_all_handled(system: ActorSystem, messages: int) -> None:
    """Refuse a measurement unless the system was sent just so many messages, and its actors handled them all."""
    await system.settle()
    ledger = assert_ledger_balanced(system)
    expect("messages sent", ledger.sent, messages)
    expect("messages handled", ledger.handled, messages)


def require_plain_build() -> None:
    """Decline unless this interpreter has the plain-Python build."""
    if COMPILED:
        raise Unavailable(f"{sys.executable} has the compiled build, not the plain-Python one")
