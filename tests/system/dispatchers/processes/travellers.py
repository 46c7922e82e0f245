"""Context variables, and actors for worker processes that look at them."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import Any

from greenroom import Actor

__all__ = ["LateTraveller", "Traveller", "baggage", "request"]

request: ContextVar[str] = ContextVar("request")
baggage: ContextVar[Any] = ContextVar("baggage")


def here() -> str:
    return request.get("not set")


class Traveller(Actor[Any, Any]):
    """Says to which request each message belongs, and passes it on."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.is_open = False

    def receive(self, message: Any) -> Any:
        match message:
            case "seen":
                return self.seen
            case "baggage":
                return here(), baggage.get("none")
            case ("tell", ref, what):
                ref.tell(what)
                request.set(here() + "!")
                ref.tell(what)
            case ("ask", ref, what):
                return ref.ask_sync(what, timeout=120.0)
            case ("send", ref, what):
                ref.send_sync(what)
            case ("timer", delay, ref):
                self.ctx.send_after(delay, ref, "tick")
            case ("pipe", what):
                self.ctx.pipe_to_self(self.later(what))
            case ("forward", ref):
                self.ctx.forward(ref)
            case ("stash", _) if not self.is_open:
                self.ctx.stash()
            case "open":
                self.is_open = True
                self.ctx.unstash_all()
            case "log":
                logging.getLogger("program").warning("of %s", here())
            case _:
                self.seen.append((message, here()))
                return here()
        return None

    async def later(self, what: Any) -> Any:
        await asyncio.sleep(0)
        return what


class LateTraveller(Actor[Any, Any]):
    """The same, but it awaits something first."""

    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        match message:
            case ("ask", ref, what):
                return await ref.ask(what, timeout=None)
            case ("thread", ref, what):
                return await asyncio.to_thread(ref.ask_sync, what, timeout=120.0)
            case ("send", ref, what):
                await ref.send(what)
        return here()
