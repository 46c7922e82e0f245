"""What an operation costs does not grow with how many actors, watchers, names or timers there are (M20).

Costs are counted, not timed: the lines of Python that run. In the plain build those are all of them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, ManualClock

if TYPE_CHECKING:
    from tests.conftest import Play

FEW, MANY = 10, 2_000


class Nobody(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        pass


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python run in `work`."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.disable()  # what it finds to finalize is not the work's
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def in_handler(ref: ActorRef[Any, Any], system: ActorSystem, act: Callable[[Context], object]) -> Callable[[], object]:
    """Let an actor do something, in the very tick that is counted."""

    def work() -> None:
        ref.tell(act)
        system._loop.tick()

    return work


def stopping(ref: ActorRef[Any, Any], system: ActorSystem) -> Callable[[], object]:
    """Let an actor end, in the very tick that is counted."""

    def work() -> None:
        ref.stop()
        system._loop.tick()

    return work


WORKS: dict[str, Callable[[ActorSystem, list[ActorRef[Any, Any]]], Callable[[], object]]] = {
    "spawn": lambda system, refs: lambda: system.spawn(Nobody),
    "spawn under a name": lambda system, refs: lambda: system.spawn(Nobody, name="new"),
    "spawn a child": lambda system, refs: lambda: system.spawn(Nobody, parent=refs[0]),
    "tell": lambda system, refs: lambda: refs[-1].tell(1),
    "ask": lambda system, refs: lambda: refs[-1].ask(1, timeout=None).cancel(),
    "tell, and handle it": lambda system, refs: in_handler(refs[-1], system, lambda ctx: None),
    "find by id": lambda system, refs: lambda: system.actor(refs[-1].id),
    "find by name": lambda system, refs: lambda: system.actor("named"),
    "find by path": lambda system, refs: lambda: system.actor("/named"),
    "start a timer": lambda system, refs: in_handler(refs[0], system, lambda ctx: ctx.send_after(9.0, refs[1], 1)),
    "watch": lambda system, refs: in_handler(refs[0], system, lambda ctx: ctx.watch(refs[1])),
    "unwatch": lambda system, refs: in_handler(refs[0], system, lambda ctx: ctx.unwatch(refs[2])),
    "stop": lambda system, refs: stopping(refs[-1], system),
}


async def crowd(system: ActorSystem, size: int) -> list[ActorRef[Any, Any]]:
    """Actors, each with a child, a timer, and the first two of them as watcher and watched."""
    refs: list[ActorRef[Any, Any]] = [system.spawn(Nobody) for _ in range(size)]
    system.spawn(Nobody, name="named")
    for ref in refs:
        ref.tell(lambda ctx: ctx.send_after(60.0, ctx.self, 1))
    for ref in refs[3:]:
        system.spawn(Nobody, parent=refs[0])
        ref.tell(lambda ctx: ctx.watch(refs[1]))
        refs[0].tell(lambda ctx, watched=ref: ctx.watch(watched))
    refs[0].tell(lambda ctx: ctx.watch(refs[2]))
    await system.settle()
    return refs


@pytest.mark.parametrize("work", WORKS)
def test_an_operation_costs_the_same_among_few_and_among_many(play: Play, work: str) -> None:  # M20
    costs: dict[int, int] = {}
    for size in (FEW, MANY):

        async def program(system: ActorSystem, size: int = size) -> None:
            refs = await crowd(system, size)
            act = WORKS[work](system, refs)
            costs[size] = lines_of(act)

        play(program, clock=ManualClock())  # what is done now and then, by the clock, is not the work's either
    # A few lines more or less: whether a ring has grown, whether a heap has a level more.
    assert 0 < costs[MANY] <= 1.1 * costs[FEW] + 3, costs
