"""Actors that count what they are told, in both kinds, for tests of a harness."""

from __future__ import annotations

import asyncio

import pytest

from greenroom import Actor

__all__ = ["COUNTERS", "AsyncCounter", "Counter"]


class Counter(Actor[int, int]):
    def __init__(self, total: int = 0) -> None:
        self.total = total

    def receive(self, message: int) -> int:
        if message < 0:
            raise ValueError(f"no {message}")
        self.total += message
        return self.total


class AsyncCounter(Counter):
    async def receive(self, message: int) -> int:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().receive(message)


COUNTERS = pytest.mark.parametrize("counter", [Counter, AsyncCounter])
