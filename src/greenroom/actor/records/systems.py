"""The systems of this process, by their tokens: where pickled refs find their way back."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from greenroom.errors import RefGone

if TYPE_CHECKING:
    from greenroom.system.system import ActorSystem

_systems: WeakValueDictionary[str, Any] = WeakValueDictionary()
_elsewhere: list[Callable[[str, int, str], Any]] = []
"""Functions that make refs to actors of other processes. Written before anything is unpickled."""


def enrol(system: ActorSystem) -> None:
    """Make refs of `system` known to pickle in this process, and call the system when the program ends."""
    if not _systems:
        atexit.unregister(_tell_of_exit)
        atexit.register(_tell_of_exit)
    _systems[system.token] = system


def _tell_of_exit() -> None:
    for system in systems():
        system._program_ends()


def systems() -> list[Any]:
    return list(_systems.values())


def find_elsewhere(finder: Callable[[str, int, str], Any]) -> None:
    """Add a function that makes refs to actors of systems in other processes; it may return None."""
    _elsewhere.append(finder)


def resolve(token: str, cell_id: int, path: str) -> Any:
    """The ref that was pickled with these values."""
    system = _systems.get(token)
    if system is not None:
        ref = system._ref_of_id(cell_id, path)
    else:
        ref = next((found for finder in _elsewhere if (found := finder(token, cell_id, path)) is not None), None)
    if ref is None:
        raise RefGone(token.partition("@")[0], path)
    return ref
