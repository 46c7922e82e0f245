"""File descriptors whose readiness comes as messages: `ctx.watch_fd`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom._core.build import MadeByRuntime
from greenroom._core.delivery.admission import Waiter
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.fdwatch import READ, WRITE
from greenroom.errors import BadArgument
from greenroom.frozen import Frozen
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.records.record import ActorRecord

__all__ = ["READ", "WRITE", "FdWatch", "IoReady", "fd_of", "unwatch_fd", "watch_fd"]


class IoReady(Frozen):
    """A watched descriptor can be read (`events & READ`) or written (`events & WRITE`)."""

    __slots__ = ("events", "fd")
    __match_args__ = ("fd", "events")

    fd: int
    events: int

    def __init__(self, fd: int, events: int) -> None:
        self._set(events, fd)

    @property
    def readiness(self) -> int:
        """Another name for `events`."""
        return self.events

    def __reduce__(self) -> tuple[object, ...]:
        return IoReady, (self.fd, self.events)


class FdWatch(Receipt):
    """One watch of one descriptor. `cancel()` ends it, as do `ctx.unwatch_fd` and the end of its actor.

    It goes with each message it sends, and learns what became of it. Until that is handled there is no other: an actor
    that is slow to read is not flooded.
    """

    __slots__ = ("_cell", "_record", "active", "fd", "once")
    __signature__ = MadeByRuntime("FdWatch")

    def __init__(self, record: ActorRecord, fd: int, once: bool) -> None:
        self._record = record
        self._cell: Cell = record.cell
        self.fd = fd
        self.once = once
        self.active = True
        """Whether there is more to come."""

    def __repr__(self) -> str:
        return f"<FdWatch of {self.fd} by {self._cell.name()}{'' if self.active else ', over'}>"

    def ready(self, events: int) -> None:
        """Send an `IoReady`, once."""
        poller = self._cell.loop.host.poller
        poller.pause(self.fd)
        message = IoReady(self.fd, events)
        admission = self._cell.loop.admission
        if not admission.deliver_if_room(self._cell, message, self, Lane.DATA):
            admission.wait_for_room(self._cell, Waiter(message, self, Lane.DATA, lambda refused: None))

    def live(self) -> bool:
        return self.active

    def settle(self, result: object) -> None:
        self._go_on()

    def fail(self, cause: BaseException) -> None:
        self._go_on()

    def discard(self, why: str) -> None:
        self._go_on()

    def _go_on(self) -> None:
        if self.active and (self.once or not self._cell.loop.host.poller.resume(self.fd, self.ready)):
            self.cancel()

    def cancel(self) -> bool:
        """Watch no more; a queued `IoReady` is withdrawn. False if it was over already. On the actor's own loop."""
        if not self.active:
            return False
        self.active = False
        watches = self._record.ensure_extras().fd_watches
        if watches is not None and watches.get(self.fd) is self:
            del watches[self.fd]
        self._cell.loop.host.poller.unwatch(self.fd, self.ready)
        return True


def fd_of(fd: Any) -> int:
    """The number of a descriptor, or of an object that has one."""
    number = fd if isinstance(fd, int) else getattr(fd, "fileno", lambda: None)()
    if not isinstance(number, int) or isinstance(number, bool):
        raise BadArgument(f"this takes a descriptor, or something with a `fileno()`, not {fd!r}")
    return number


def watch_fd(record: ActorRecord, fd: Any, events: int, once: bool) -> FdWatch:
    if isinstance(events, bool) or events not in (READ, WRITE, READ | WRITE):
        raise BadArgument(f"watch_fd() waits for READ, WRITE or READ | WRITE, not for {events!r}")
    number = fd_of(fd)
    watch = FdWatch(record, number, once)
    record.cell.loop.host.poller.watch(number, events, watch.ready)
    extras = record.ensure_extras()
    if extras.fd_watches is None:
        extras.fd_watches = {}
    stale = extras.fd_watches.get(number)
    if stale is not None:
        stale.active = False  # that file was closed: the number is another's now
    extras.fd_watches[number] = watch
    return watch


def unwatch_fd(record: ActorRecord, fd: Any) -> bool:
    watches = record.ensure_extras().fd_watches
    watch = None if watches is None else watches.get(fd_of(fd))
    return watch is not None and watch.cancel()
