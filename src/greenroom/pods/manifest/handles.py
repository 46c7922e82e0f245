"""Names of handles and of pod mates, declared by users so that editors and type checkers know them.

An actor's class says `peers: EnginePeers` and `pod: EngineMates`, subclasses of `Handles` and `Mates`.
Each name in them has its type: `display: ServiceHandle[Frame]`, `config: Config`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any


class _Names:
    """Attributes that are given later, by name."""

    _what = "attribute"
    _hint = ""

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
            why = f"{self._owner} has no {self._what} {name!r}; there are: {known}{self._hint}"
            raise AttributeError(why, name=name, obj=self)

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return (name for name in self.__dict__ if not name.startswith("_"))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"what {self._owner} has is settled by its troupe: {name!r} cannot be set")  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._owner}: {', '.join(self)}>"  # type: ignore[attr-defined]


class Handles(_Names):
    """Service handles, by name. Subclass it to declare which, and what may be sent to each.

    >>> from greenroom import Actor
    >>> from greenroom.pods import ServiceHandle
    >>> class Peers(Handles):
    ...     engine: ServiceHandle[int]
    >>> class Dial(Actor[int, None]):
    ...     peers: Peers
    ...     def receive(self, message: int) -> None:
    ...         self.peers.engine.send(message)
    """

    _what = "peer"


class Exposed(Handles):
    """The handles that a troupe exposes."""

    _what = "exposed actor"
    _hint = ". A pod exposes its actors with `expose=True`"


class Mates(_Names):
    """The other actors of a pod, by name: the instances themselves. Subclass it to declare which."""

    _what = "pod mate"
