# cython: boundscheck=False, wraparound=False, nonecheck=False
"""The compiled half of a service handle: its hot path.

A handle has one holder, the first thread that sends with it. So the rings behind it have one producer each.
"""

from __future__ import annotations

from _thread import get_ident

from greenroom._core.build import COMPILED
from greenroom._core.connections.connection import Connection
from greenroom._core.connections.spscring import SENT
from greenroom._core.simulation.director import directing
from greenroom.lanes import Lane

__all__ = ["HandleBase"]

_DATA = Lane.DATA


class HandleBase:
    """Sends what can simply be pushed. What cannot is for `_send_otherwise` of the class above."""

    __slots__ = ("_connection", "_holder", "_is_plain")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # The number of the holder's thread; 0 before there is one.
        self._holder = 0
        # Invariant: true iff a message may simply be pushed: its outbox is empty, and nobody has to look at it
        self._is_plain = True

    def send(self, message: object, *, lane: Lane = _DATA, timeout: float | None = None) -> None:
        """Send a message; see `ServiceHandle`."""
        is_holder = thread_ident() == self._holder if COMPILED else get_ident() == self._holder
        if is_holder and self._is_plain and not directing and self._connection.offer(message, lane) == SENT:
            return
        self._send_otherwise(message, lane, timeout)

    def _send_otherwise(self, message: object, lane: Lane, timeout: float | None) -> None:
        raise NotImplementedError
