"""Actors that watch descriptors."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from greenroom import Actor, ActorRef, IoReady

__all__ = ["DISPATCHERS", "AsyncWatcher", "Pair", "Ref", "Watcher", "do", "reading"]

Ref = ActorRef[Any, Any]
DISPATCHERS = pytest.mark.parametrize("dispatcher", [None, "parallel", "pinned"])


class Watcher(Actor[Any, Any]):
    """Does with its context what a message says; tells a witness of each `IoReady`, then does what it is for."""

    def __init__(self, witness: Ref, on_ready: Any = None, first: Any = None) -> None:
        self.witness = witness
        self.on_ready = on_ready
        self.first = first

    def pre_start(self) -> None:
        if self.first is not None:
            self.first(self.ctx)

    def receive(self, message: Any) -> Any:
        if isinstance(message, IoReady):
            self.witness.tell(message)
            return None if self.on_ready is None else self.on_ready(self.ctx, message)
        if callable(message):
            try:
                return message(self.ctx), None
            except Exception as exc:
                return None, exc
        self.witness.tell(message)
        return None


class AsyncWatcher(Watcher):
    async def receive(self, message: Any) -> Any:
        done = super().receive(message)
        return await done if asyncio.iscoroutine(done) else done


async def do(ref: Ref, action: Any) -> Any:
    result, error = await ref.ask(action, timeout=None)
    if error is not None:
        raise error
    return result


Pair = tuple[socket.socket, socket.socket]


def reading(sock: socket.socket) -> Any:
    """What a watcher does to take in what has come: one byte, for the next may be there before this one is taken."""
    return lambda ctx, message: sock.recv(1)
