"""How tests see what happens in a worker."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom import ActorSystem
from greenroom.errors import WorkerLost

__all__ = ["pid_of", "witness_in"]


def witness_in(system: ActorSystem) -> tuple[Any, asyncio.Event]:
    """An actor at home that is told when something has begun, and what that sets."""
    begun = asyncio.Event()
    return system.spawn(lambda ctx, message: begun.set()), begun


async def pid_of(ref: Any) -> int | None:
    """The worker that `ref` is in; None if that ends before it can say so."""
    try:
        pid: int = await ref.ask("pid")
    except WorkerLost:
        return None
    return pid
