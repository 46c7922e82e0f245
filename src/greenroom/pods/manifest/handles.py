"""Names of handles and of pod mates, declared by users so that editors and type checkers know them.

An actor's class says `peers: EnginePeers` and `pod: EngineMates`, subclasses of `Handles` and `Mates`.
Each name in them has its type: `display: ServiceHandle[Frame]`, `config: Config`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_origin

__all__ = ["Handles", "Mates", "declared_by", "names_in"]


class _Names:
    """Attributes that are given later, by name."""

    _what = "attribute"

    def __init__(self, found: Mapping[str, Any], owner: str = "", later: tuple[str, ...] = ()) -> None:
        self.__dict__.update(found)
        self.__dict__["_owner"] = owner
        # Those that will be given.
        self.__dict__["_later"] = later

    if not TYPE_CHECKING:  # to type checkers, what is not declared is not there

        def __getattr__(self, name: str) -> Any:
            if name in self.__dict__.get("_later", ()):
                why = "has not started yet: declare it before this one in its pod, or wait for the first message"
                raise AttributeError(f"the {self._what} {name!r} of {self._owner} {why}", name=name, obj=self)
            known = ", ".join(self) or "none"
            raise AttributeError(f"{self._owner} has no {self._what} {name!r}; there are: {known}", name=name, obj=self)

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return (name for name in self.__dict__ if not name.startswith("_"))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"what {self._owner} has is settled by its troupe: {name!r} cannot be set")  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._owner}: {', '.join(self)}>"  # type: ignore[attr-defined]


class Handles(_Names):
    """Service handles, by name. Subclass it to declare which, and what may be sent to each.

    >>> class Peers(Handles):
    ...     engine: "ServiceHandle[int]"
    >>> names_in(Peers)
    ('engine',)
    """

    _what = "peer"


class Mates(_Names):
    """The other actors of a pod, by name: the instances themselves. Subclass it to declare which."""

    _what = "pod mate"


def names_in(declared: type) -> tuple[str, ...]:
    """The names that a subclass of `Handles` or `Mates` declares."""
    found: dict[str, None] = {}
    for base in reversed(declared.__mro__):
        found.update(dict.fromkeys(name for name in vars(base).get("__annotations__", ()) if not name.startswith("_")))
    return tuple(found)


def declared_by(owner: type, attribute: str, kind: type) -> type | None:
    """The subclass of `kind` that `owner` declares as its `attribute`, if it does, and it can be found."""
    for base in owner.__mro__:
        given = vars(base).get("__annotations__", {}).get(attribute)
        if given is None:
            continue
        if isinstance(given, str):
            module = sys.modules.get(base.__module__)
            try:
                given = eval(given, dict(vars(module)) if module is not None else {}, dict(vars(base)))
            except Exception:
                return None  # it is there for type checkers only
        given = get_origin(given) or given
        return given if isinstance(given, type) and issubclass(given, kind) else None
    return None
