"""Actors that use an alias, or want a meta-process, in a worker process."""

from __future__ import annotations

from typing import Any

from greenroom import Actor
from greenroom.meta import MetaProcess

__all__ = ["AsksIt", "Nothing", "Spawns"]


class AsksIt(Actor[Any, Any]):
    """Tells and asks an alias, wherever it runs; notes its end."""

    async def receive(self, message: Any) -> Any:
        what, alias = message
        match what:
            case "tell":
                alias.tell("told")
                return None
            case "ask":
                return await alias.ask("asked", timeout=100.0)
            case "watch":
                self.ctx.watch(alias, ("ended", alias))
                return None
            case "same":
                return alias
            case "ended":
                return None
        return None


class Nothing(MetaProcess):
    pass


class Spawns(Actor[Any, Any]):
    """Wants a meta-process, where there can be none."""

    def receive(self, message: Any) -> Any:
        try:
            self.ctx.spawn_meta(Nothing())
        except Exception as exc:
            return type(exc).__name__, str(exc)
        return "spawned", ""
