"""Mailboxes with the same room in every lane."""

from collections.abc import Callable
from typing import Any

from greenroom.lanes import Lane, MailboxConfig, Overflow

LANES = [Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA, Lane.LOG]


def bounded(capacity: int, overflow: Overflow = Overflow.REJECT, priority: Callable[[Any], Any] | None = None) -> Any:
    """Every lane holds `capacity` messages."""
    lanes: dict[Lane, int] = {lane: capacity for lane in LANES if lane is not Lane.DATA}
    return MailboxConfig(capacity=capacity, overflow=overflow, lanes=lanes, priority=priority)
