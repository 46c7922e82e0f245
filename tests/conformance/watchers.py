"""Actors that watch, and actors to be watched."""

from __future__ import annotations

from typing import Any

from greenroom import Actor, ActorRef

__all__ = ["BAD", "Doer", "Plain", "Ref", "Watcher", "end"]

Ref = ActorRef[Any, Any]
BAD = ValueError("bad")


class Doer(Actor[Any, Any]):
    """Does with its context what a message says, if that is a function; notes it, if not."""

    def __init__(self, log: list[Any] | None = None) -> None:
        self.log = [] if log is None else log

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        self.log.append(message)
        return None


class Watcher(Doer):
    def on_terminated(self, ref: Ref, cause: BaseException | None) -> Any:
        self.log.append((ref, cause))


class Plain(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


async def end(ref: Ref, cause: BaseException | None = None) -> Ref:
    if cause is None:
        ref.stop()
    else:
        ref.fail(cause)
    await ref.terminated()
    return ref
