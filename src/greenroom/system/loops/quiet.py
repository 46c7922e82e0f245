"""Whether several loops are at rest, or quiet, at the same time.

Each loop is looked at on its own thread, one after the other, and then all a second time. What one sends another is
sent in a tick. So if no loop ticked between its two looks, there was a moment, between the first round and the second,
at which none had anything to do and nothing was on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from greenroom.system.ending.quiet import Quiet

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.scheduler.poller import Poller
    from greenroom.system.loops.thread import LoopThread

__all__ = ["QuietLoops", "is_at_rest"]


def is_at_rest(poller: Poller) -> int | None:
    """How many ticks a loop has had, if it is at rest; else None. On its own thread."""
    # Another loop may have sent what waits for time to pass, after this one was found at rest.
    return poller.loop.ticks if poller.is_at_rest() else None


class QuietLoops:
    """As `Quiet`, for several loops. On the home loop's thread."""

    __slots__ = ("_home", "_others", "_over")

    def __init__(self, loop: Loop, poller: Poller, threads: Sequence[LoopThread]) -> None:
        self._home = Quiet(loop, poller)
        self._others: list[tuple[LoopThread, Quiet]] = [(one, Quiet(one.loop, one.end.poller)) for one in threads]
        self._over = asyncio.Event()

    async def wait(self) -> bool:
        """Return True when all are quiet, or False when `give_up` is called: also if a handler holds a thread then."""
        waits = asyncio.ensure_future(self._wait())
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((waits, over), return_when=asyncio.FIRST_COMPLETED)
            return waits.done() and waits.result()
        finally:
            waits.cancel()
            over.cancel()

    async def _wait(self) -> bool:
        while not self._over.is_set():
            if not await self._home.wait():
                return False
            for thread, quiet in self._others:
                if not await thread.do(quiet.wait):
                    return False
            first, second = await self._look_at_all(), await self._look_at_all()
            if None not in first and first == second:
                return True
        return False

    async def _look_at_all(self) -> list[int | None]:
        return [self._home.look(), *[await thread.do(quiet.look) for thread, quiet in self._others]]

    def give_up(self) -> None:
        """Wait no longer."""
        self._over.set()
        self._home.give_up()
        for thread, quiet in self._others:
            thread.post(quiet.give_up)

    def busy(self) -> list[str]:
        """The paths of those at work on the home loop, and of one that was last seen at work on each other loop.

        A loop that is awake, and on which nobody was at work when it was last seen, goes by its own name.
        """
        others = [
            quiet.witness() or (None if thread.loop.runq.asleep else thread.label) for thread, quiet in self._others
        ]
        return [*self._home.busy(), *(name for name in others if name is not None)]
