"""An actor that puts messages aside until it is opened, for tests of the stash."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom import Actor

__all__ = ["DOORS", "AsyncDoor", "Door"]


class Door(Actor[Any, Any]):
    """Puts everything aside until it is opened; answers and writes down what comes then."""

    def __init__(self, heard: list[Any], capacity: int | None = None) -> None:
        self.heard = heard
        self.capacity = capacity
        self.open = False

    def pre_start(self) -> None:
        if self.capacity is not None:
            self.ctx.stash_capacity = self.capacity

    def receive(self, message: Any) -> Any:
        if message == "open":
            self.open = True
            return self.ctx.unstash_all()
        if message == "close":
            self.open = False
            return None
        if not self.open:
            self.ctx.stash()
            return "not an answer"
        self.heard.append(message)
        return ("answer", message)


class AsyncDoor(Door):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        result = super().receive(message)
        await asyncio.sleep(0)
        return result


DOORS = [Door, AsyncDoor]
