# cython: boundscheck=False, wraparound=False, nonecheck=False
"""Which cell runs next: every runnable one once, first come first served.

The queue also knows whose it is: the one thread that may touch it and the cells in it, and whether that thread has to
be roused for what arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED

if TYPE_CHECKING:
    from greenroom.lanes import Lane

_FIRST_SIZE = 16


class AdmissionBase:
    """What lets messages in. `Admission` is one; a cell knows it only as this."""

    def admit(self, cell: Any, message: object, sender: object, lane: Lane) -> None:
        """Put a message into the mailbox, or do what its policy says."""
        raise NotImplementedError


class InboundBase:
    """Where other threads put their messages. `Inbound` is one; a cell knows it only as this."""

    def tell(self, cell: Any, message: object, sender: object, lane: Lane) -> None:
        raise NotImplementedError

    def send(self, cell: Any, message: object, sender: object, lane: Lane) -> None:
        raise NotImplementedError


class RunQueue:
    """A FIFO of cells. `bring_forward` is the one point where a simulation decides otherwise."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        # Invariant: mask + 1 == len(buf), a power of two; the i-th cell stands at (head + i) & mask; compiled, buf is
        # an array, as in a `Ring`
        self.head = 0
        self.count = 0
        if COMPILED:
            make_cells(self, _FIRST_SIZE)
        else:
            self.buf: list[object] = [None] * _FIRST_SIZE
            self.mask = _FIRST_SIZE - 1
        # The ref of the actor in hand, here or on a neighbour: a tell without a sender comes from it.
        self.current_ref: object = None
        # Invariant: asleep iff a poller is attached, no tick runs and none is due without further cause
        self.asleep = False
        self.rouse: Callable[[], object] | None = None
        # Where messages go that cannot simply walk in: from this thread, and from others.
        self.admission: AdmissionBase = None  # type: ignore[assignment]
        self.inbound: Any = None

    def __dealloc__(self) -> None:
        if COMPILED:
            free_cells(self)

    def push(self, cell: object) -> None:
        """Put a cell at the end. The caller sees to it that a cell stands here once."""
        while self.count > self.mask:
            self._grow()
        if COMPILED:
            put_cell(self, (self.head + self.count) & self.mask, cell)
        else:
            self.buf[(self.head + self.count) & self.mask] = cell
        self.count += 1
        if self.asleep:
            self.wake()

    def make_room(self, cells: int) -> None:
        """Grow for so many cells now, so that `push` cannot fail for want of memory."""
        while cells > self.mask:
            self._grow()

    def wake(self) -> None:
        """Have the sleeping loop tick again."""
        self.asleep = False
        try:
            self.rouse()  # type: ignore[misc]
        except BaseException:
            self.asleep = True  # it still does: the next one tries again
            raise

    def take(self) -> Any:
        """Take the next cell; there must be one."""
        head = self.head
        self.head = (head + 1) & self.mask
        self.count -= 1
        if COMPILED:
            return take_cell(self, head)
        cell = self.buf[head]
        self.buf[head] = None
        return cell

    def at(self, position: int) -> Any:
        """The cell at `position`, counted from the next one."""
        if not 0 <= position < self.count:
            raise IndexError(position)
        return cell_at(self, position) if COMPILED else self.buf[(self.head + position) & self.mask]

    def bring_forward(self, position: int) -> None:
        """Make the cell at `position` the next; the others keep their order."""
        chosen = self.at(position)
        if COMPILED:
            bring_cell_forward(self, position)
            return
        while position > 0:
            self.buf[(self.head + position) & self.mask] = self.buf[(self.head + position - 1) & self.mask]
            position -= 1
        self.buf[self.head] = chosen

    def _grow(self) -> None:
        if COMPILED:
            make_cells(self, 2 * (self.mask + 1))
            return
        while True:
            old = self.buf
            new = old[self.head :] + old[: self.head] + [None] * len(old)
            # As in `Ring.grow`: a finalizer that ran meanwhile may have made the queue grow already.
            if self.buf is old:
                break
        self.buf = new
        self.mask = len(new) - 1
        self.head = 0


if COMPILED:
    show_queue(RunQueue(0))
