"""The systems of this process, by their tokens: where pickled refs find their way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from greenroom.errors import RefGone

if TYPE_CHECKING:
    from greenroom.actor.ports import SystemPort

__all__ = ["enrol", "resolve", "systems"]

_systems: WeakValueDictionary[str, Any] = WeakValueDictionary()


def enrol(system: SystemPort) -> None:
    """Let refs of `system` be unpickled in this process."""
    _systems[system.token] = system


def systems() -> list[Any]:
    """Those that are still there."""
    return list(_systems.values())


def resolve(token: str, cell_id: int, path: str) -> Any:
    """The ref that was pickled."""
    system = _systems.get(token)
    ref = None if system is None else system.ref_of_id(cell_id, path)
    if ref is None:
        raise RefGone(token.partition("@")[0], path)
    return ref
