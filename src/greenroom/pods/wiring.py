"""How the actors of a pod are made: each is given its peers and its pod mates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.props import Props, label_of
from greenroom.errors import NotAnActor
from greenroom.errors.base import add_note
from greenroom.pods.manifest.handles import Handles, Mates
from greenroom.system.loops.cores import keep_on_core

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.pods.service.handle import ServiceHandle

__all__ = ["ActorFactory", "Relayed", "RemoteActorFactory"]

Relayed = dict[str, Any]
"""What a process has for handles, by name: a `RelayedHandle`, or as much of a troupe within."""

_mates: dict[str, Mates] = {}
"""In a process that is a pod's own: the actors there, by the pod's token."""


class ActorFactory:
    """Makes one actor of a pod, afresh for each start."""

    def __init__(self, name: str, factory: Any, peers: Mapping[str, Any], mates: Mates) -> None:
        self.name = name
        self.factory: Callable[..., Any] = factory.factory if isinstance(factory, Props) else factory
        self.args = factory.args if isinstance(factory, Props) else ()
        self.kwargs = factory.kwargs if isinstance(factory, Props) else {}
        self._peers = Handles(peers, name)
        self._mates = mates
        self.__name__ = label_of(self.factory)

    def __call__(self) -> Actor:
        try:
            actor = self.factory(*self.args, **self.kwargs)
        except AttributeError as exc:
            if exc.name in ("peers", "pod") and isinstance(exc.obj, Actor):
                add_note(exc, f"Greenroom: an actor has `{exc.name}` from `pre_start` on, and not yet in `__init__`")
            raise
        if not isinstance(actor, Actor):
            raise NotAnActor(f"{self.__name__} made {actor!r} for {self.name!r}, which is not an Actor")
        try:
            actor.peers = self._peers  # type: ignore[attr-defined]
            actor.pod = self._mates  # type: ignore[attr-defined]
        except AttributeError as exc:
            why = f"{type(actor).__name__} has __slots__ without 'peers' and 'pod': add them"
            raise NotAnActor(f"{why}, because a pod gives both to its actors") from exc
        self._mates.__dict__[self.name] = actor
        return actor

    def stand_for(self, ref: ActorRef) -> None:
        """What it makes is the instance of this actor: the sender of all that its handles send."""
        for handle in _all_in(self._peers):
            handle._connection.sent_by(ref)


def _all_in(handles: Handles) -> Iterator[ServiceHandle]:
    """All handles, also those of troupes within."""
    for name in handles:
        one = getattr(handles, name)
        if isinstance(one, Handles):
            yield from _all_in(one)
        else:
            yield one


class RemoteActorFactory(ActorFactory):
    """Makes one actor of a pod that is in another process: there, where it is unpickled."""

    def __init__(
        self,
        name: str,
        factory: Any,
        peers: Mapping[str, Any],
        mates: Mates,
        token: str,
        relayed: Relayed,
        cores: tuple[int, ...],
    ) -> None:
        super().__init__(name, factory, peers, mates)
        self._remote = (token, relayed, cores)

    def __reduce__(self) -> tuple[Any, ...]:
        return _FactoryInProcess, (self.name, Props(self.factory, self.args, self.kwargs), *self._remote)


class _FactoryInProcess(ActorFactory):
    """The same, in the process."""

    def __init__(self, name: str, factory: Props, token: str, relayed: Relayed, cores: tuple[int, ...]) -> None:
        super().__init__(name, factory, _handles_in(relayed, name), _mates.setdefault(token, Mates({}, token)))
        self._cores = cores

    def __call__(self) -> Actor:
        if len(self._cores) == 1:
            keep_on_core(f"the process of {self.name}", self._cores[0])
        elif self._cores:  # the thread that started this process may be kept on one
            os.sched_setaffinity(0, self._cores)
        return super().__call__()


def _handles_in(relayed: Relayed, owner: str) -> dict[str, Any]:
    return {
        name: Handles(_handles_in(one, owner), owner) if isinstance(one, dict) else one for name, one in relayed.items()
    }
