"""Actors for worker processes that note the time, or wait."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from greenroom import Actor
from greenroom.errors import AskTimeout

__all__ = ["Cleaner", "Fickle", "Sleeper"]


class Sleeper(Actor[Any, Any]):
    """Notes the time of each message, or waits for something that never happens."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    async def receive(self, message: Any) -> Any:
        match message:
            case "moments":
                return self.moments
            case "wait for ever":
                await asyncio.get_running_loop().create_future()
            case "block, and say so twice":
                with self.ctx.blocking():
                    with self.ctx.blocking():
                        pass
                    threading.Event().wait(600.0)
            case ("gather", others):
                await asyncio.gather(*(other.ask(turns, timeout=None) for turns, other in enumerate(others)))
            case ("task beside an ask", silent, other):
                task = asyncio.ensure_future(self.note_after_an_answer(other))
                with suppress(AskTimeout):
                    await silent.ask("?", timeout=5.0)
                await task
            case ("pipe", other):
                self.ctx.pipe_to_self(self.work_after_an_answer(other))
                return None
        self.moments.append(self.ctx.now())
        return None

    async def note_after_an_answer(self, other: Any) -> None:
        await self.work_after_an_answer(other)
        self.moments.append(self.ctx.now())

    async def work_after_an_answer(self, other: Any) -> str:
        await other.ask(3, timeout=None)
        time.sleep(0.1)  # noqa: ASYNC251 - it is at work, and nobody else in this process is
        return "piped"


class Cleaner(Actor[Any, Any]):
    """Takes its time to clean up when it is cancelled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def receive(self, message: str) -> Any:
        if message == "wait for ever":
            self.file.with_suffix(".begun").touch()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0.05)
                self.file.touch()
        return message


class Fickle:
    """Can be pickled when it is told, and not when it is sent."""

    def __init__(self) -> None:
        self.times = 0

    def __reduce__(self) -> Any:
        self.times += 1
        if self.times > 1:
            raise ValueError("only once")
        return str, ()
