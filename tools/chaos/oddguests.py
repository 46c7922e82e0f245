"""Actors that are hard on the code that starts, restarts and stops them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tools.chaos.guests import AsyncMember, Member
from tools.chaos.poison import NotOrdinary

__all__ = ["BAD_FACTORIES", "Hooked"]


class Hooked(AsyncMember):
    """An actor whose hooks take their time, and some raise."""

    def _has_mood(self, mood: int) -> bool:
        """What a life is like is up to the clock."""
        return int(self.life[-3:-1]) % 7 == mood

    async def post_start(self) -> None:
        await asyncio.sleep(0.002)

    async def pre_stop(self) -> None:
        await asyncio.sleep(0.002)
        if self._has_mood(0):
            raise ValueError("pre_stop")

    def post_stop(self) -> Any:
        super().post_stop()
        if self._has_mood(1):
            raise NotOrdinary("post_stop")
        return asyncio.sleep(0.002) if self._has_mood(2) else None

    def pre_restart(self, cause: BaseException | None) -> None:
        if self._has_mood(3):
            raise ValueError("pre_restart")

    def snapshot(self) -> Any:
        if self._has_mood(4):
            raise ValueError("snapshot")
        return (lambda: 1) if self._has_mood(5) else {"life": self.life}

    def restore(self, state: Any) -> None:
        self.journal.write("restored", self.me, self.life)

    def inspect(self, *items: str) -> Any:
        return {"odd": lambda: 1} if self._has_mood(6) else {"life": self.life}


class Fussy(Member):
    """Wants one argument more."""

    def __init__(self, path: str, system: str, home: int, more: Any) -> None:
        super().__init__(path, system, home)


class Bursts(Member):
    """Cannot be made, and says so with what is no Exception."""

    def __init__(self, path: str, system: str, home: int) -> None:
        raise NotOrdinary("on purpose")


def nobody(path: str, system: str, home: int) -> Any:
    """Makes what is no actor."""
    return 42


def _local() -> type[Member]:
    class Local(Member):
        """Cannot be imported by its name."""

    return Local


BAD_FACTORIES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "unpicklable": lambda: (Fussy, (lambda: 1,)),
    "too few": lambda: (Fussy, ()),
    "bursts": lambda: (Bursts, ()),
    "nobody": lambda: (nobody, ()),
    "local": lambda: (_local(), ()),
}
"""What to spawn, and what to give it beside the usual."""
