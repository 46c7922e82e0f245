"""What each thread that works for a loop, and is not its own, is doing at present.

Whoever needs to know looks itself up by its thread's number. Apart from `work`, because nearly everything may ask
and only systems with such threads need the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom._core.handoff.handoff import Work

__all__ = ["doing"]

doing: dict[int, Work] = {}
"""By the thread's number. Each entry is written and removed by that thread alone, and a dict bears that."""
