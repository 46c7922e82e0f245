"""An actor that starts, handles and ends only when it is let."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom import Actor


class Held(Actor[Any, Any]):
    """Starts, handles and ends only when it is let."""

    def __init__(self, notes: list[str], gate: asyncio.Event, where: str) -> None:
        self.notes = notes
        self.gate = gate
        self.where = where

    async def pass_gate(self, where: str) -> None:
        self.notes.append(where)
        if where == self.where:
            await self.gate.wait()

    async def pre_start(self) -> None:
        await self.pass_gate("pre_start")

    async def receive(self, message: Any) -> Any:
        await self.pass_gate("receive")
        return message

    async def pre_stop(self) -> None:
        await self.pass_gate("pre_stop")

    async def post_stop(self) -> None:
        await self.pass_gate("post_stop")

    def inspect(self, *items: str) -> dict[str, Any]:
        return {"notes": len(self.notes)}


async def reach(notes: list[str], where: str) -> None:
    while where not in notes:  # noqa: ASYNC110 - an event would have to be set by each hook of `Held`
        await asyncio.sleep(0)
