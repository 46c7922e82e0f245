"""What a simulated system has one of: a network, say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

__all__ = ["belonging"]

T = TypeVar("T")
_WHERE = "_simulated_belongings"


def belonging(loop: Loop, make: Callable[[Loop], T]) -> T | None:
    """What `make(loop)` has made for the system of `loop`, or makes now; None for a system that is not simulated.

    The system itself holds it. It refers to the system, and would keep it alive if anybody else did.
    """
    if loop.director is None:
        return None
    kept: dict[Any, object] = vars(loop.host.port).setdefault(_WHERE, {})
    if make not in kept:
        kept[make] = make(loop)
    return cast("T", kept[make])
