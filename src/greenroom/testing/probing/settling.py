"""Waiting until nothing more happens in a system, even if some of its actors wait for the test.

An actor that asked a probe is busy until the test answers, so `system.settle()` would wait for the test, which waits
for it. Here such actors, and those that wait for one of them, count as settled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from greenroom.actor.ask import Question
from greenroom.actor.body import Body
from greenroom.errors import SettleTimeout
from greenroom.system.shutdown import Phase
from greenroom.testing.probing.inbox import Ear

if TYPE_CHECKING:
    from greenroom._core.cell import Cell
    from greenroom.system.system import ActorSystem

__all__ = ["settle"]

_GLANCE = 0.005
"""Seconds between two looks at a system that does not settle."""


async def settle(system: ActorSystem, timeout: float) -> None:
    """Return when nothing is queued or in hand but what waits for the test; `SettleTimeout` if that takes too long.

    The system may run on another thread.
    """
    here = asyncio.get_running_loop()
    until = here.time() + timeout
    while system.phase != Phase.STOPPED:
        glance = min(_GLANCE, max(0.0, until - here.time()))
        home = system.call("settle()", asyncio.get_running_loop)
        try:
            if home is here:
                await system.settle(glance)
            else:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(system.settle(glance), home))
            return
        except SettleTimeout as exc:
            if system.call("settle()", lambda: _waits_for_test(system)):
                return
            if here.time() >= until:
                raise SettleTimeout(system.name, timeout, exc.busy) from None


def _waits_for_test(system: ActorSystem) -> bool:
    """Whether nothing goes on, and every handler in hand waits for a probe's answer. On the system's thread."""
    cells: list[Cell] = list(system._loop.table)
    if any(cell.queued() or cell.waiting_orders() for cell in cells):
        return False
    held_up = {question.asker for cell in cells for question in _open_questions(cell)}
    return all(cell.task is None or _waits_for_one_of(cell, held_up) for cell in cells)


def _open_questions(cell: Cell) -> list[Any]:
    """What the test has not answered yet, if this is a probe's actor."""
    body: Any = cell.body
    if isinstance(cell.subject, Ear) and isinstance(body, Body) and body.more is not None:
        return list(body.more.deferred)
    return []


def _waits_for_one_of(cell: Cell, held_up: set[Cell]) -> bool:
    """Whether it is one of these, or its handler awaits the answer of one that is, or does so in its turn."""
    seen: list[Cell] = []
    while cell not in held_up:
        awaited: Any = None if cell.task is None else cell.task._waiter
        if cell in seen or not isinstance(awaited, Question):
            return False
        seen.append(cell)
        cell = awaited.target
    return True
