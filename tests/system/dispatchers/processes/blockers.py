"""Actors for worker processes that block their thread, or would."""

from __future__ import annotations

import asyncio
from typing import Any

from greenroom import Actor

__all__ = ["AsyncBlocker", "Blocker"]


class Blocker(Actor[Any, Any]):
    """Waits for others, in plain functions."""

    def receive(self, message: Any) -> Any:
        match message:
            case ("send", ref, what, timeout):
                return ref.send_sync(what, timeout=timeout)
            case ("ask", ref, what, timeout, waits):
                return ref.ask_sync(what, timeout=timeout, wait_for_room=waits)
            case ("started", ref):
                return ref.started_sync(120.0)
            case ("terminated", ref, timeout):
                return ref.terminated_sync(timeout)
            case ("inspect", ref):
                return ref.inspect_sync(timeout=120.0)
            case "settle":
                return self.ctx.system.settle_sync()
            case ("fill itself", ref):
                ref.send_sync("one")
                ref.send_sync("two")
            case ("note the time", action):
                try:
                    self.receive(action)
                except TimeoutError:
                    return self.ctx.now()
        return message


class AsyncBlocker(Actor[Any, Any]):
    """Asks as a coroutine does, and tries what only plain functions may do."""

    async def receive(self, message: Any) -> Any:
        match message:
            case ("ask", ref, what):
                self.ctx.pipe_to_self(self.answer(self.ctx.defer_reply(), ref, what))
            case ("give up", ref, what):
                asked = ref.ask(what, timeout=None, wait_for_room=True)
                assert asked.cancel()
                return "gave up"
            case ("from a thread", ref, what):
                try:
                    await asyncio.to_thread(ref.ask_sync, what, timeout=0.01, wait_for_room=True)
                except TimeoutError as exc:
                    return type(exc).__name__
            case ("block", name, ref):
                getattr(ref, name)(*(["x"] if name in ("send_sync", "ask_sync") else []))
        return None

    async def answer(self, reply: Any, ref: Any, what: Any) -> None:
        reply.send(await ref.ask(what, timeout=None, wait_for_room=True))
