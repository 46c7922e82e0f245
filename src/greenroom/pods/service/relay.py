"""How a pod in another process reaches a peer: by way of an actor in the main process, which has the handle.

Each send is an ask, and returns when the relay's handle has taken the message. So it waits, fails and succeeds like a
send in the main process, and what was reported as sent is not lost with the process. There is a relay for each peer, so
waiting for one does not hold up what is sent to another.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.actor import Actor
from greenroom.errors import NotSendable, WaitsForItself
from greenroom.lanes import Lane, as_lane
from greenroom.validation import require_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.pods.service.handle import ServiceHandle

_MORE = 5.0
"""Seconds that an answer may take beyond the time that the send has."""


class PeerRelay(Actor[Any, Any]):
    """Sends with one handle, for an actor of a pod in another process."""

    __greenroom_stays_on_loop__ = True
    # Whatever goes wrong is the sender's to know, and none of this actor's business.
    answers: ClassVar[tuple[type[Exception], ...]] = (Exception,)

    def __init__(self, handle: ServiceHandle) -> None:
        self._handle: Any = handle

    async def receive(self, message: tuple[object, Lane, float | None, bool] | str) -> object:
        """Send a message, and answer whether that was possible; or with the property of the handle that is named."""
        if isinstance(message, str):
            return getattr(self._handle, message)
        content, lane, timeout, waits = message
        if not waits:
            return self._handle.try_send(content, lane=lane)
        await self._handle.asend(content, lane=lane, timeout=timeout)
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

    @property
    def is_gone(self) -> bool:
        return bool(self._ask("is_gone"))

    @property
    def waiting(self) -> int:
        waiting: int = self._ask("waiting")
        return waiting

    def _ask(self, what: str) -> Any:
        with _about(None, self.name, f"use `await asyncio.to_thread(lambda: self.peers.{self.name}.{what})`"):
            return self._relay.ask_sync(what, timeout=self._timeout)

    def send(self, message: object, *, lane: Lane = Lane.DATA, timeout: float | None = None) -> None:
        patience = self._patience(timeout)
        with _about(message, self.name):
            self._relay.ask_sync((message, as_lane(lane), patience, True), timeout=patience + _MORE)

    def try_send(self, message: object, *, lane: Lane = Lane.DATA) -> bool:
        with _about(message, self.name):
            sent: bool = self._relay.ask_sync((message, as_lane(lane), None, False), timeout=self._timeout)
        return sent

    async def asend(self, message: object, *, lane: Lane = Lane.DATA, timeout: float | None = None) -> None:
        patience = self._patience(timeout)
        with _about(message, self.name):
            await self._relay.ask((message, as_lane(lane), patience, True), timeout=patience + _MORE)

    def _patience(self, timeout: float | None) -> float:
        if timeout is None:
            return self._timeout
        require_seconds("timeout", timeout)
        return timeout

    def clone(self) -> RelayedHandle:
        """This one: a relay has one connection."""
        return self


@contextmanager
def _about(message: object, peer: str, remedy: str = "") -> Iterator[None]:
    """In errors, name the message and the peer, and not the relay and what it is sent."""
    try:
        yield
    except NotSendable as exc:
        raise NotSendable(message, exc.why) from None
    except WaitsForItself:
        why = f"from another process, the peer {peer!r} is asked and waited for, which would hold up this coroutine"
        raise WaitsForItself(f"{why}: {remedy or f'write `await self.peers.{peer}.asend(...)`'}") from None
