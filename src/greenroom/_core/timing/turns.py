"""When asyncio on another thread has come to rest, for a clock that is turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from greenroom.clock import TURNS

__all__ = ["after_turns"]


def after_turns(then: Callable[[], object], left: int = TURNS) -> None:
    """Call `then` when the asyncio loop of this thread has done what it has ready."""
    if left:
        asyncio.get_running_loop().call_soon(after_turns, then, left - 1)
    else:
        then()
