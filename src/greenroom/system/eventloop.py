"""What the threads of a system run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["LoopTimeout", "loop_factory"]


class LoopTimeout(Exception):
    """A loop's thread did not come to do what others wanted of it in time."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop when it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
