"""The orders by which an actor begins and ends. A loop's host carries them out, in `Lifecycle` and `EndingHost`."""

from __future__ import annotations

from greenroom._core.mailbox.hostorder import HostOrder

__all__ = ["CLOSE", "KILL", "SHUT_DOWN", "START", "STOP", "STOP_ITSELF"]

START = HostOrder(0, "start")
STOP = HostOrder(1, "stop")
STOP_ITSELF = HostOrder(2, "stop by itself")
"""An actor's own: until it acts, the handler that asked for it is not hurried."""
SHUT_DOWN = HostOrder(3, "shut down")
KILL = HostOrder(4, "be killed")
CLOSE = HostOrder(5, "close")
"""Its children are gone: its ending goes on."""
