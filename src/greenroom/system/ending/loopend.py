"""What the end of a system is for one of its loops. Everything here is for that loop's own thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from greenroom._core.itemkinds import MESSAGE, STASHED
from greenroom.actor.life.forcing import cancel_handler
from greenroom.actor.messaging.drain import Discards, drain
from greenroom.actor.records.record import ActorRecord
from greenroom.exits import KILLED, SHUTDOWN

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.poller import Poller
    from greenroom.actor.lifecycle import Lifecycle

__all__ = ["LoopEnd"]

_LAST_CHANCE = 0.25
"""Seconds of real time that cancelled handlers on other threads have to end, when the system's own time is up."""
_TURNS = 3
"""Turns of asyncio that a cancelled handler has after the deadline, before it is abandoned."""


class LoopEnd:
    """The steps of one loop's end, which `Shutdown` takes."""

    __slots__ = ("life", "poller")

    def __init__(self, life: Lifecycle, poller: Poller) -> None:
        self.life = life
        self.poller = poller

    def close_spawning(self) -> None:
        """Let nothing be spawned any more."""
        self.life.closed = True
        if self.life.discards is None:
            self.life.discards = Discards()

    def stop_all(self) -> int:
        """Tell every actor to stop, the youngest first; how many there are at the top."""
        for record in reversed(self.life.top.records()):
            self.life.request_end(record.cell, SHUTDOWN)
        return self.life.top.count

    def cancel_messages(self) -> None:
        """Cancel the suspended handlers; hooks, which clean up, have the time that is left."""
        self._cancel((MESSAGE, STASHED))

    async def cancel_handlers(self) -> None:
        """Cancel all that is suspended, and let it have a last turn."""
        self._cancel(None)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        if self.life.loop.handoffs:
            # Those on other threads have some real time: what blocks there cannot be waited for.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_CHANCE):
                    await self.poller.handed_back()

    def _cancel(self, kinds: tuple[int, ...] | None) -> None:
        for cell in list(self.life.loop.table):
            record = cell.record
            if cell.task is None or not isinstance(record, ActorRecord):
                continue
            if kinds is None or cell.task.kind in kinds:
                self.life.note_forced(cell)
                cancel_handler(self.life, cell, record.ensure_extras())

    def force_all(self, late: bool) -> None:
        """End all remaining actors, children first, without running hooks; `late` if they have had their time."""
        for cell in _bottom_up(self.life.top.records()):
            record = cell.record
            if not isinstance(record, ActorRecord):
                continue
            if late and record.state > 0:
                self.life.note_forced(cell)
            if cell.task is not None:
                record.ensure_extras().abandoned = True
                self.life.loop.visits.abandon(cell)
            cell.close()
            drain(cell, record.extras, "stopped")
            self.life.finish(cell, record, KILLED if record.state > 0 else SHUTDOWN)

    def stop_loop(self) -> None:
        """Give asyncio its thread back; what comes from now on is a dead letter."""
        self.poller.detach()
        self.life.loop.close()


def _bottom_up(records: list[ActorRecord]) -> list[Cell]:
    """The cells of `records` and of all their descendants, children before their parents."""
    found = []
    waiting = list(records)
    while waiting:
        record = waiting.pop()
        found.append(record.cell)
        if record.child_list is not None:
            waiting.extend(record.child_list.records())
    return list(reversed(found))
