"""What a child of `os.fork` must not keep: the descriptors of a connection.

A descriptor that is not inheritable is closed by `exec` only. A child that just forks keeps it. Then the other end sees
no end of file when this process ends, and what the child writes would be read as ours.

`subprocess` has the same trouble with a pipe of its own, while it starts a process: a child that is forked in that
moment, by another thread, holds it open, and the start is not over before that child ends. So forks wait until it is.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    import socket


class _Private(Protocol):
    """Something that is of no use in a forked child."""

    def after_fork(self) -> object:
        """Close what it has open. Called in the child."""
        ...


_private: WeakSet[_Private] = WeakSet()
no_forks = threading.RLock()
"""Held while a process is started, or descriptors are opened: other threads fork when it is free."""


def keep_from_forks(thing: _Private) -> None:
    """Have `thing.after_fork()` called in children that this process forks, as long as there is the thing."""
    _private.add(thing)


def close_in_child(sock: socket.socket) -> None:
    """Close a socket in a forked child, even if others refer to it: uvloop would keep it open."""
    fd = sock.detach()
    if fd >= 0:
        os.close(fd)


def _forked() -> None:
    things = list(_private)
    _private.clear()
    for thing in things:
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
    os.register_at_fork(
        before=no_forks.acquire,
        after_in_parent=no_forks.release,
        after_in_child=no_forks.release,
    )
