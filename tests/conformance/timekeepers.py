"""Actors that keep time for tests of timers, and functions that tell them what to start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from greenroom import Actor, Context, Timer

__all__ = ["TIMED", "AsyncTimed", "Tick", "Timed", "Waiting", "after", "cancel", "every"]

Tick = tuple[float, Any]


class Timed(Actor[Any, Any]):
    """Does what it is sent, if that is a function of its context; writes down anything else, and the time."""

    def __init__(self, ticks: list[Tick], pause: Callable[[], Any] | None = None) -> None:
        self.ticks = ticks
        self.pause = pause

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        self.ticks.append((self.ctx.now(), message))
        if self.pause is not None:
            self.pause()
        return None


class AsyncTimed(Timed):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)


TIMED = [Timed, AsyncTimed]


def after(delay: float, message: Any) -> Callable[[Context], Timer]:
    return lambda ctx: ctx.send_after(delay, ctx.self, message)


def every(interval: float, message: Any, fixed_rate: bool = False) -> Callable[[Context], Timer]:
    return lambda ctx: ctx.send_every(interval, ctx.self, message, fixed_rate=fixed_rate)


def cancel(timer: Timer) -> Callable[[Context], bool]:
    return lambda ctx: timer.cancel()


class Waiting(Timed):
    """At `("hold", gate, act)`, lets everything queue until the gate opens; then does `act(ctx)`."""

    async def receive(self, message: Any) -> Any:
        if isinstance(message, tuple) and message[0] == "hold":
            await message[1].wait()
            return message[2](self.ctx)
        return super().receive(message)
