"""What home and its workers say to one another.

To a worker, each frame says one thing: its first part is a head, a tuple that begins with one of the words below; the
rest is a value, which the worker may be unable to read, and then says so. To home, a frame is mail: a list of such
tuples, gathered in a tick. Frames travel in order, and so what a handler sends is home before home hears that it is
done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["MAIL", "ORDER", "STASHED", "UNHANDLED", "Asked", "Progress"]

ORDER = 1
"""The kind of a frame to a worker."""
MAIL = 2
"""The kind of a frame to home."""

UNHANDLED = 1
STASHED = 2


class Asked(NamedTuple):
    """In a sender's place: the message was asked, by an actor or by somebody else."""

    sender: Any


class Progress(NamedTuple):
    """How far a guest is. Its messages are numbered, through all its incarnations."""

    done: int
    """All before this number are done; if the guest has failed, on this one."""
    asides: list[tuple[int, int]]
    """Those among them that were not simply handled: number, and UNHANDLED or STASHED."""
    returned: int | None
    """What was sent from this number on was not begun, and will not be: it is home's again."""
    epoch: int
    """How many times it has sent something back: what is sent in the belief of an earlier one is not taken in."""
    waits: bool
    """Whether nothing further is to be sent before this message is done: the guest has something to say first."""
    failure: Any
    """With what the guest has failed."""
