"""When nothing is left to do, on all loops of a system at the same time.

What is left to do depends on who asks:

- A clock that is turned by hand goes on when every loop is *idle* (`Poller.is_idle`): nothing is runnable, brought or
  due at the present time. Suspended handlers may remain.
- `settle()` returns when every loop is *settled* (`Poller.is_settled`): it is idle, no handler is suspended, and no
  message waits for time to pass.
- A shutdown goes on when every loop is *drained* (`LoopDrain`; the user's docs say quiet): actors have done what others
  asked of them.

Each loop is looked at on its own thread, one after the other, and then all a second time. What one sends another is
sent in a tick. So if no loop ticked between its two looks, there was a moment, between the first round and the second,
at which none had anything to do and nothing was on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from greenroom._core.flags import HELD, ORDERS
from greenroom._core.itemkinds import MESSAGE
from greenroom._core.receipt import is_from_itself
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.records.record import ActorRecord
from greenroom.clock import TURNS, ManualClock

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.system.loops.group import SystemLoops

Look = tuple[int, float | None] | None
"""How many ticks a loop has had, and its next deadline; None if it has something to do."""

_GLANCE = 0.1
"""Seconds after which `is_still` checks whether a handler holds a loop that it waits to look at."""
_GLANCES = 100
"""How often, before the loop counts as busy."""
_DRAIN_POLL = 0.05
"""Seconds until a sleeping loop is looked at again: a pipe may end without a message."""


class Stillness:
    """Whether nothing is left to do on all loops of a system. On the home loop's thread.

    `is_still(poller)` says so of one loop, and `wait_on(poller)` waits for it; both are called on its thread.
    """

    def __init__(
        self, loops: SystemLoops, is_still: Callable[[Poller], bool], wait_on: Callable[[Poller], Awaitable[object]]
    ) -> None:
        self._loops = loops
        self._is_still = is_still
        self._wait_on = wait_on

    async def wait(self) -> list[Look]:
        """Return when nothing is left to do, with what was seen then."""
        while True:
            await self._wait_on(self._loops.home.poller)
            if not self._loops.threads:
                return [self._look(self._loops.home.poller)]
            for thread in self._loops.threads:
                await thread.run(partial(self._wait_on, thread.poller))
            first, second = await self._look_at_all(), await self._look_at_all()
            if None not in first and first == second:
                return second

    async def is_now(self) -> bool:
        """Whether nothing is left to do. A look takes a turn of each thread: that is waited for, and no handler is."""
        if not self._loops.threads:
            return self._is_still(self._loops.home.poller)
        look = asyncio.ensure_future(self._look_until_clear())
        try:
            for _ in range(_GLANCES):
                loops = [thread.loop for thread in self._loops.threads]
                ticks = [loop.ticks for loop in loops]
                await asyncio.wait((look,), timeout=_GLANCE)
                if look.done():
                    return look.result()
                if any(loop.ticking and loop.ticks == seen for loop, seen in zip(loops, ticks, strict=True)):
                    return False
            return False
        finally:
            look.cancel()

    async def _look_until_clear(self) -> bool:
        """As `is_now`: a tick between two looks which found nothing to do does not count."""
        while True:
            first, second = await self._look_at_all(), await self._look_at_all()
            if None in first or None in second:
                return False
            if first == second:
                return True

    async def _look_at_all(self) -> list[Look]:
        return [await one.run(partial(self._look, one.poller)) for one in self._loops.all()]

    def _look(self, poller: Poller) -> Look:
        return (poller.loop.ticks, poller.next_deadline()) if self._is_still(poller) else None


def settled(loops: SystemLoops) -> Stillness:
    """That no message is queued or in hand."""
    return Stillness(loops, Poller.is_settled, Poller.settled)


class LoopsTimeline:
    """A system of several loops as a `ManualClock` sees it: one timeline. On the home loop's thread.

    What is found out holds for one look only: something may be sent afterwards that no loop has seen yet.
    """

    def __init__(self, loops: SystemLoops) -> None:
        self._loops = loops
        self._stillness = Stillness(loops, Poller.is_idle, self._wait_on)
        # What the loops looked like when they were last found idle; and whether `is_idle` has not been called since.
        self._seen: list[Look] = []
        self._is_fresh = False

    def home(self) -> asyncio.AbstractEventLoop | None:
        return self._loops.home.poller.home()

    def next_deadline(self) -> float | None:
        others = [look[1] for look in self._seen[1:] if look is not None]
        deadlines = [moment for moment in [self._loops.home.poller.next_deadline(), *others] if moment is not None]
        return min(deadlines, default=None)

    def time_moved(self) -> None:
        for one in self._loops.all():
            one.post(one.poller.time_moved)

    def is_idle(self) -> bool:
        """Whether nothing was left to do when all were looked at just now, and none has ticked since."""
        if not self._is_fresh:
            return False
        self._is_fresh = False
        return [one.loop.ticks for one in self._loops.all()] == [look[0] for look in self._seen if look is not None]

    async def idle(self) -> None:
        self._seen = await self._stillness.wait()
        self._is_fresh = True

    async def _wait_on(self, poller: Poller) -> None:
        if poller is self._loops.home.poller:
            await self._let_steps_end()
        await poller.idle()

    async def _let_steps_end(self) -> None:
        """Wait until the end of the system has taken the step that it is at: time must not pass over that."""
        calm = 0
        while calm < TURNS:
            await asyncio.sleep(0)
            calm = 0 if self._loops.steps else calm + 1

    def busy(self) -> list[str]:
        """The actors that are at work on the home loop, and the names of other loops that are awake."""
        awake = [thread.name for thread in self._loops.threads if not thread.loop.runq.asleep]
        return self._loops.home.poller.busy() + awake


class Drain:
    """The drain of a system: actors finish what others have asked of them."""

    def __init__(self, loops: SystemLoops) -> None:
        self._loops = loops
        self._drains: dict[Poller, LoopDrain] = {}
        self._stillness = Stillness(loops, lambda poller: self._of(poller).is_done(), lambda one: self._of(one).wait())

    def _of(self, poller: Poller) -> LoopDrain:
        return self._drains.setdefault(poller, LoopDrain(poller))

    async def wait(self) -> None:
        await self._stillness.wait()

    def busy(self) -> list[str]:
        """The paths of the actors at work on the home loop, and of one that was last seen at work on each other loop.

        A loop that is awake, and on which no actor was at work when it was last seen, goes by its own name.
        """
        found = self._of(self._loops.home.poller).busy()
        for thread in self._loops.threads:
            witness = self._of(thread.poller).witness
            if witness is not None:
                found.append(witness.name())
            elif not thread.loop.runq.asleep:
                found.append(thread.label)
        return found


class LoopDrain:
    """The drain of one loop.

    Two things do not keep it from being done, because they would never end: messages that an actor tells itself, and
    timers that have not rung. What an actor pipes to itself does count: it was begun for another's message.

    **Cost.** One actor that is at work is enough to know that the drain is not done. It is remembered, and looked at
    until it is done; only then is another one looked for.
    """

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self._loop = poller.loop
        # An actor that was at work at the last look.
        self.witness: Cell | None = None

    async def wait(self) -> None:
        """Return when it is done: an actor that tells itself something in each tick keeps the loop from sleeping."""
        while not self.is_done():
            if self._loop.runq.asleep:
                await self._poller.next_sleep(_DRAIN_POLL)
            else:
                await asyncio.sleep(0)  # the next tick comes in this turn of asyncio

    def is_done(self) -> bool:
        if self._loop.inbound.waiting() or self._loop.queued_in_rings() > 0:
            return False
        if self.witness is not None and _is_at_work(self.witness):
            return False
        self.witness = next(self._at_work(), None)
        return self.witness is None

    def busy(self) -> list[str]:
        return sorted({cell.name() for cell in self._at_work()})

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
        return False  # it waits to be restarted, and the clock stands still
    return cell.notices > 0 or cell.from_others(cell.ref, 1) > 0
