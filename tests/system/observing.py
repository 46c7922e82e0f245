"""Observers for tests, and what they look at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from greenroom import Context

HOOKS = {
    "actor_started": 1,
    "actor_stopped": 2,
    "actor_restarted": 2,
    "escalated": 2,
    "mailbox_full": 3,
    "message_dropped": 3,
    "dead_letter": 4,
    "slow_handler": 3,
}
"""Each hook, and how many arguments it is called with."""


class Everything:
    """Notes every event, and on which thread it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.threads: set[int] = set()

    def note(self, *event: Any) -> None:
        self.told.append(event)
        self.threads.add(threading.get_ident())

    def actor_started(self, ref: Any) -> None:
        self.note("actor_started", ref)

    def actor_stopped(self, ref: Any, reason: Any) -> None:
        self.note("actor_stopped", ref, reason)

    def actor_restarted(self, ref: Any, cause: Any) -> None:
        self.note("actor_restarted", ref, cause)

    def escalated(self, ref: Any, cause: Any) -> None:
        self.note("escalated", ref, cause)

    def mailbox_full(self, ref: Any, message: Any, lane: Any) -> None:
        self.note("mailbox_full", ref, message, lane)

    def message_dropped(self, ref: Any, message: Any, lane: Any) -> None:
        self.note("message_dropped", ref, message, lane)

    def dead_letter(self, ref: Any, message: Any, sender: Any, why: str) -> None:
        self.note("dead_letter", ref, message, sender, why)

    def slow_handler(self, ref: Any, message: Any, seconds: float) -> None:
        self.note("slow_handler", ref, message, seconds)

    def of(self, event: str) -> list[tuple[Any, ...]]:
        return [details[1:] for details in self.told if details[0] == event]


class Only:
    """Has one hook."""

    def __init__(self, event: str, hook: Callable[..., Any]) -> None:
        setattr(self, event, hook)


class HandClock:
    """Goes on when a handler says so."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


def noted(ctx: Context, message: Any) -> Any:
    return message


async def noted_later(ctx: Context, message: Any) -> Any:
    await asyncio.sleep(0)
    return message
