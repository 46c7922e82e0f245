"""Actors for worker processes that note the time, or wait."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom import Actor

__all__ = ["Sleeper"]


class Sleeper(Actor[Any, Any]):
    """Notes the time of each message, or waits for something that never happens."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    async def receive(self, message: str) -> Any:
        if message == "moments":
            return self.moments
        if message == "wait for ever":
            await asyncio.get_running_loop().create_future()
        self.moments.append(self.ctx.now())
        return None
