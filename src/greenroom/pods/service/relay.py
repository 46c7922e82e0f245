"""How a pod in another process reaches its peers: by way of an actor in the main process, which has the handles.

Each send is an ask, and returns when the relay's handle has taken the message. So it waits, fails and succeeds like a
send in the main process, and what was reported as sent is not lost with the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenroom.actor.api.actor import Actor
from greenroom.lanes import Lane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.pods.service.handle import ServiceHandle

__all__ = ["PeerRelay", "RelayedHandle"]

_MORE = 5.0
"""Seconds that an answer may take beyond the time that the send has."""


class PeerRelay(Actor[Any, Any]):
    """Sends for one actor of a pod in another process."""

    __greenroom_stays_on_loop__ = True

    def __init__(self, peers: Mapping[str, ServiceHandle]) -> None:
        self._peers = peers

    async def receive(self, message: tuple[str, object, Lane, float | None, bool]) -> object:
        """Send a message to a peer: whether that was possible."""
        peer, content, lane, timeout, waits = message
        handle: Any = self._peers[peer]
        if not waits:
            return handle.try_send(content, lane=lane)
        await handle.asend(content, lane=lane, timeout=timeout)
        return True


class RelayedHandle:
    """What an actor in another process has for a `ServiceHandle`, with the same methods."""

    __slots__ = ("_relay", "_timeout", "name", "pod")

    def __init__(self, name: str, pod: str, relay: ActorRef, timeout: float) -> None:
        self.name = name
        self.pod = pod
        self._relay = relay
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"<ServiceHandle of {self.name} in the pod {self.pod}, by relay>"

    def send(self, message: object, *, lane: Lane = Lane.DATA, timeout: float | None = None) -> None:
        """Send a message; see `ServiceHandle`."""
        patience = self._timeout if timeout is None else timeout
        self._relay.ask_sync((self.name, message, lane, patience, True), timeout=patience + _MORE)

    def try_send(self, message: object, *, lane: Lane = Lane.DATA) -> bool:
        """Send a message if that can be done now."""
        sent: bool = self._relay.ask_sync((self.name, message, lane, None, False), timeout=self._timeout)
        return sent

    async def asend(self, message: object, *, lane: Lane = Lane.DATA, timeout: float | None = None) -> None:
        """As `send`, but awaits."""
        patience = self._timeout if timeout is None else timeout
        await self._relay.ask((self.name, message, lane, patience, True), timeout=patience + _MORE)

    def clone(self) -> RelayedHandle:
        """The same: a relay has one connection."""
        return self
