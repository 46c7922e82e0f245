"""The sleep of a loop's thread, until another thread brings something.

A sleeping loop is roused once, by the first to bring something, not once per message.

The loop says that it sleeps, and then looks whether something is there; who brings something puts it in, and then looks
whether the loop sleeps. With a fence between the two steps on either side, one of them sees the other.
"""

from __future__ import annotations

from collections.abc import Callable

from greenroom._core.build import COMPILED
from greenroom._core.delivery.reservations import Reservations

__all__ = ["Rousable"]


class Rousable(Reservations):
    """What other threads rouse a loop by. Fields are written under `_lock`, but for `sleeping` by the loop's thread."""

    __slots__ = ("bell", "closed", "rouse", "sleeping")

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        # Whether something was pushed into a ring that the loop drains. Rung from any thread, stilled by its own.
        self.bell = False
        # Invariant: sleeping only while the loop's thread waits for something to happen, and nobody has roused it
        self.sleeping = False
        self.rouse: Callable[[], object] | None = None

    def waiting(self) -> bool:
        """A glance, without the lock: whether there is something to take in. For the loop's thread."""
        return self.bell or self.has_brought()

    def has_brought(self) -> bool:
        """The same, but for what is in rings."""
        raise NotImplementedError

    def ring_bell(self) -> None:
        """Something was pushed into a ring. From any thread."""
        if not self.closed:
            self.bell = True
            self._end_sleep()

    def still_bell(self) -> None:
        """The loop looks into the rings next: whoever pushes from now on rings again."""
        self.bell = False
        if COMPILED:
            fence()

    def fall_asleep(self) -> bool:
        """Ask to be roused by the next to bring something; False when something is here already.

        Without the lock, here and in `wake`: to be roused when awake does no harm.
        """
        self.sleeping = True
        if COMPILED:
            fence()
        if self.waiting():
            self.sleeping = False
            return False
        return True

    def wake(self) -> None:
        """The loop's thread is awake: nobody has to rouse it."""
        self.sleeping = False

    def rouse_by(self, rouse: Callable[[], object] | None) -> None:
        """From now on, have the loop's thread roused by this. For that thread."""
        with self._lock:
            self.rouse = rouse

    def _end_sleep(self) -> None:
        """Rouse the loop if it sleeps. Outside the lock: rousing gives up the GIL, and others would queue up behind."""
        if COMPILED:
            fence()
        if self.sleeping:
            rouse = self._take_rouse()
            if rouse is not None:
                try:
                    rouse()
                except BaseException:
                    with self._lock:
                        self.sleeping = True  # it still does: the next sender tries again
                    raise

    def _take_rouse(self) -> Callable[[], object] | None:
        """What rouses the loop, for the first that finds it asleep; None for all others."""
        with self._lock:
            if not self.sleeping:
                return None
            self.sleeping = False
            return self.rouse
