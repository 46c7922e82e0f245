"""Waiting until a system is quiet: nobody works on a message, and none is queued.

Two things do not keep a system from being quiet, because they would never end: messages that an actor tells itself, and
timers that have not rung. What an actor pipes to itself does count: it was begun for somebody else's message.

**Cost.** One actor that is at work is enough to know that the system is not quiet. It is remembered, and looked at
until it is done; only then is another one looked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from greenroom._core.flags import HELD, ORDERS
from greenroom._core.itemkinds import MESSAGE
from greenroom._core.receipt import is_from_itself
from greenroom.actor.records.record import ActorRecord
from greenroom.clock import ManualClock

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.scheduler.poller import Poller

__all__ = ["Quiet"]

_LONGEST_WAIT = 0.05
"""Seconds until the next look, when nothing tells of a change: a pipe that ends without a message, say."""


class Quiet:
    """Waits, once, until one system is quiet."""

    __slots__ = ("_loop", "_over", "_poller", "_waiter", "_witness")

    def __init__(self, loop: Loop, poller: Poller) -> None:
        self._loop = loop
        self._poller = poller
        self._over = False
        self._waiter: asyncio.Future[None] | None = None
        # Who was at work when we last looked.
        self._witness: Cell | None = None

    async def wait(self) -> bool:
        """Return True when the system is quiet, or False when `give_up` is called."""
        aio = asyncio.get_running_loop()
        while not self._over:
            if self._is_quiet():
                return True
            if not self._loop.runq.asleep:
                await asyncio.sleep(0)  # the next tick comes in this turn of asyncio
                continue
            self._waiter = self._poller.next_sleep()
            handle = aio.call_later(_LONGEST_WAIT, _resolve, self._waiter)
            try:
                await self._waiter
            finally:
                handle.cancel()
                self._poller.forget(self._waiter)
        return False

    def give_up(self) -> None:
        """Wait no longer."""
        self._over = True
        if self._waiter is not None:
            _resolve(self._waiter)

    def look(self) -> int | None:
        """How many ticks the loop has had, if it is quiet; else None."""
        return self._loop.ticks if self._is_quiet() else None

    def busy(self) -> list[str]:
        """The paths of the actors that are at work."""
        return sorted({cell.name() for cell in self._at_work()})

    def witness(self) -> str | None:
        """The path of one that was at work when we last looked. From any thread."""
        witness = self._witness
        return None if witness is None else witness.name()

    def _is_quiet(self) -> bool:
        if self._loop.inbound.waiting() or self._loop.queued_in_rings() > 0:
            return False
        if self._witness is not None and _is_at_work(self._witness):
            return False
        self._witness = next(self._at_work(), None)
        return self._witness is None

    def _at_work(self) -> Iterator[Cell]:
        runq = self._loop.runq
        for position in range(runq.count):
            if _is_at_work(cell := runq.at(position)):
                yield cell
        for cell in self._loop.table:
            if _is_at_work(cell):
                yield cell


def _is_at_work(cell: Cell) -> bool:
    """Whether the actor of `cell` has something to do, or is doing it, that others want of it."""
    record = cell.record
    if not isinstance(record, ActorRecord):
        return False
    task = cell.task
    if task is not None and not (task.kind == MESSAGE and is_from_itself(task.sender, cell.ref)):
        return True
    if cell.flags & ORDERS or (record.extras is not None and record.extras.pipes):
        return True
    if cell.flags & HELD and isinstance(cell.loop.clock, ManualClock):
        return False  # it waits to be restarted, and nobody turns the clock
    return cell.notices > 0 or cell.from_others(cell.ref, 1) > 0


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
