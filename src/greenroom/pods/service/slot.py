"""The address of a pod, which is the same for good.

A slot is *connected*, *restarting* or *gone*. A handle that finds its rings closed comes here, and waits until the pod
is published again. The rings are those it had: they outlive the pod, and what waits in them has stayed in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom._core.connections.connection import Connection, ShardedInbox
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.scheduler.loop import Loop
    from greenroom.lanes import Lane

CONNECTED = "connected"
RESTARTING = "restarting"
GONE = "gone"


class PodSlot:
    """From any thread, unless a method says otherwise."""

    def __init__(self, name: str, loop: Loop, inbox: ShardedInbox, sizes: Mapping[Lane, int]) -> None:
        self.name = name
        # The loop of its actors.
        self.loop = loop
        self.inbox = inbox
        self.sizes = sizes
        # Held by those who change something here, or settle who holds a handle.
        self.lock = RLock()
        # Written under the lock, as all that follows.
        self.state = CONNECTED
        # The lanes that take nothing any more, though the pod goes on: the troupe ends.
        self._shut: tuple[Lane, ...] = ()
        # Why it is gone, or not back, in words; and what it failed with.
        self.why = ""
        self.cause: BaseException | None = None
        # Who is sent to by each connection; and the cells that the actors have, by name. Before there are any, the
        # pod's own stands for them all.
        self._connections: list[tuple[str, Connection]] = []
        self._cells: dict[str, Cell] = {}
        self._own: Cell | None = None
        # Called, once, when the state changes.
        self._waiters: list[Callable[[], object]] = []

    def belong_to(self, cell: Cell) -> None:
        """Count what is sent to the pod before its actors are there as sent to `cell`."""
        with self.lock:
            self._own = cell
            self._assign()

    def _assign(self) -> None:
        for actor, connection in self._connections:
            connection.cell = self._cells.get(actor, self._own)

    def target_of(self, connection: Connection) -> Cell | None:
        with self.lock:
            return connection.cell

    def connect(self, actor: str, sender: object = None) -> Connection:
        with self.lock:
            connection = self.inbox.connect(self.sizes, sender)
            # Those of holders that are gone matter as long as they hold something.
            self._connections = [pair for pair in self._connections if not pair[1].is_abandoned or pair[1].queued()]
            self._connections.append((actor, connection))
            connection.cell = self._cells.get(actor, self._own)
            if self.state != CONNECTED:
                connection.close()
            for lane in self._shut:
                connection.ring_of(lane).close()
            return connection

    # -- changes of state

    def publish(self, cells: Mapping[str, Cell]) -> None:
        """The pod runs, with these cells: accept messages, and handle those that wait. On the pod's loop."""
        with self.lock:
            if self.state == GONE:
                return
            self._cells.update(cells)
            self._assign()
            self.state = CONNECTED
            self.why, self.cause = "", None
            for _, connection in self._connections:
                connection.open(self._shut)
            waiters = self._take_waiters()
        self.inbox.open()
        _call(waiters)

    def withdraw(self, why: str, wake: bool = False) -> None:
        """The pod does not run: accept nothing until it is published again. `wake` the senders that wait."""
        self._close(RESTARTING, why, None, wake)

    def mark_gone(self, why: str, cause: BaseException | None = None) -> None:
        """The pod will not come back. What waits is for `clear`."""
        self._close(GONE, why, cause, True)

    def _close(self, state: str, why: str, cause: BaseException | None, wake: bool) -> None:
        with self.lock:
            if self.state == GONE:
                return
            self.state = state
            self.why, self.cause = why, cause
            self.inbox.close()
            for _, connection in self._connections:
                connection.close()
            waiters = self._take_waiters() if wake else []
        _call(waiters)

    def revive(self) -> None:
        """The pod may come back, though it was gone: its troupe is brought up again."""
        with self.lock:
            self.state = RESTARTING
            self.why, self.cause = "its troupe is brought up again", None

    def close_lanes(self, lanes: tuple[Lane, ...], why: str) -> None:
        """Refuse what is sent in some lanes from now on, and make dead letters of what waits there."""
        with self.lock:
            self._shut = lanes
            self.why = self.why or why
            self.inbox.shut = sum(1 << lane for lane in lanes)
            for _, connection in self._connections:
                for lane in lanes:
                    connection.ring_of(lane).close()
            waiters = self._take_waiters()
        _call(waiters)
        self._on_loop(partial(self.inbox.bury, why, lanes))

    def _take_waiters(self) -> list[Callable[[], object]]:
        waiters, self._waiters = self._waiters, []
        return waiters

    # -- dead letters

    def clear(self, why: str) -> None:
        """Make dead letters of all that waits. On the pod's loop."""
        self.inbox.bury(why)

    def clear_on_loop(self, why: str) -> None:
        """Clear the rings, from any thread."""
        self._on_loop(partial(self.clear, why))

    def _on_loop(self, call: Callable[[], object]) -> None:
        if not self.loop.inbound.post_back(None, call):
            call()  # it has stopped

    def bury(self, connection: Connection, message: object) -> None:
        """Make a dead letter of what waited in an outbox."""
        cell = self.target_of(connection)
        if cell is not None:
            admission = self.loop.admission
            self.loop.inbound.post_back(
                None, partial(admission.turn_away, cell, message, connection.sender(), self.why)
            )

    # -- for holders of handles

    def on_change(self, waiter: Callable[[], object]) -> bool:
        """Call `waiter` when the state next changes; False if the pod is gone, and it does not any more."""
        with self.lock:
            if self.state == GONE:
                return False
            self._waiters.append(waiter)
            return True

    def forget(self, waiter: Callable[[], object]) -> None:
        with self.lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def refuses(self, lane: Lane) -> bool:
        """Whether this lane accepts nothing any more."""
        return self.state == GONE or lane in self._shut


def _call(waiters: list[Callable[[], object]]) -> None:
    for waiter in waiters:
        waiter()
