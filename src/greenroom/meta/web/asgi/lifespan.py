"""Starts and stops an application with its server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenroom.meta.web.asgi.scope import Message
    from greenroom.meta.web.targets import Asgi

__all__ = ["Lifespan"]


class Lifespan:
    """The lifespan of one application."""

    def __init__(self, target: Asgi) -> None:
        self._target = target
        self._in: asyncio.Queue[Message] = asyncio.Queue()
        self._out: asyncio.Queue[Message] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._is_abandoned = False
        self.state: dict[str, Any] = {}

    async def startup(self) -> None:
        """Start it. An application that knows nothing of this is fine too; one that fails is not."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        answer = await self._exchange("lifespan.startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            raise RuntimeError(f"the ASGI application could not be started: {answer.get('message', '')}")

    async def shutdown(self) -> None:
        """Stop it."""
        try:
            if self._task is not None and not self._task.done():
                await self._exchange("lifespan.shutdown")
        finally:
            self.abandon()
        await self.cancel()

    async def cancel(self) -> None:
        """Let it be, and wait for it to end."""
        self.abandon()
        if self._task is not None:
            await asyncio.wait([self._task])

    def abandon(self) -> None:
        """Let it be, and do not wait for it."""
        if self._task is not None and not self._is_abandoned:
            self._is_abandoned = True  # once only: it may have something to await before it ends
            self._task.cancel()

    async def _exchange(self, kind: str) -> Message | None:
        """What it answers; None if it ended instead."""
        self._in.put_nowait({"type": kind})
        answer = asyncio.get_running_loop().create_task(self._out.get())
        task = self._task
        assert task is not None
        try:
            await asyncio.wait([answer, task], return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            # It may have said something and ended in one go.
            return None if self._out.empty() else self._out.get_nowait()
        finally:
            answer.cancel()

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        with suppress(Exception):  # it does not know of this: so be it
            await self._target.app(scope, self._in.get, self._out.put)
