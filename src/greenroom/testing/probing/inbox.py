"""The inbox of a probe: messages that its actor received and the test has not read yet.

The test may run on another thread than the system, so a lock guards the shared fields. Several coroutines may wait at
once. A message wakes all of them, and those that find nothing wait again. So no message is lost when a coroutine is
cancelled after it was woken.
"""

from __future__ import annotations

import asyncio
from _thread import get_ident
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actor.api.actor import Actor
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.signals import Signal, Terminated
from greenroom.testing.probing.matching import matches

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.reply import Reply
    from greenroom.exits import ExitReason

__all__ = ["Envelope", "Inbox", "ProbeActor", "ProbeEndWaiter"]


class Envelope(NamedTuple):
    """A message with its sender and, if it was asked, the reply to send."""

    message: Any
    sender: ActorRef | None = None
    reply: Reply | None = None


class Inbox:
    """The probe's actor puts messages in; the test takes them out, or waits for them."""

    def __init__(self) -> None:
        # Values, types or functions: messages that match are dropped unread.
        self.ignored: tuple[object, ...] = ()
        self._lock = Lock()
        # Invariant: all of these are written under _lock; `arrivals` counts the messages, and the actor's end
        self.arrivals = 0
        self.ended: ExitReason | None = None
        self._envelopes: deque[Envelope] = deque()
        self._waiters: list[_Waiter] = []

    # -- for the probe's actor

    def put(self, envelope: Envelope) -> None:
        """Add a message. From any thread."""
        with self._lock:
            self._envelopes.append(envelope)
            waiters = self._note_arrival()
        for waiter in waiters:
            waiter.wake()

    def end(self, reason: ExitReason) -> None:
        """The actor has ended: no more messages will come. From any thread."""
        with self._lock:
            self.ended = reason
            waiters = self._note_arrival()
        for waiter in waiters:
            waiter.wake()

    def _note_arrival(self) -> list[_Waiter]:
        self.arrivals += 1
        waiters, self._waiters = self._waiters, []
        return waiters

    # -- for the test

    def unread(self) -> list[Envelope]:
        """The unread messages, oldest first, without the ignored ones."""
        with self._lock:
            envelopes = list(self._envelopes)
        if not self.ignored:
            return envelopes
        # Not under the lock: this calls functions of the test.
        kept = [one for one in envelopes if not any(matches(unwanted, one.message) for unwanted in self.ignored)]
        known = {id(one) for one in envelopes}
        wanted = {id(one) for one in kept}
        with self._lock:
            self._envelopes = deque(one for one in self._envelopes if id(one) in wanted or id(one) not in known)
        return kept

    def take(self) -> Envelope | None:
        """Take out the oldest unread message, if there is one."""
        unread = self.unread()
        if not unread:
            return None
        with self._lock:
            # By identity: messages that came meanwhile have not been filtered yet.
            place = next(place for place, envelope in enumerate(self._envelopes) if envelope is unread[0])
            del self._envelopes[place]
        return unread[0]

    async def wait_for_arrival(self, until: float, arrivals: int) -> bool:
        """Wait until there have been more than `arrivals`. False when the time is up, even if there have been more.

        `until` is a time of the running asyncio loop. So a caller that waits as long as this is True stops in time,
        however many unwanted messages come.
        """
        waiter = _Waiter()
        with self._lock:
            if self.arrivals <= arrivals:
                self._waiters.append(waiter)
            else:
                waiter.wake()
        try:
            return await waiter.is_woken(until)
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)


class ProbeActor(Actor):
    """The actor of a probe: puts every message into the inbox. The test answers what was asked."""

    __greenroom_stays_on_loop__ = True

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox

    def receive(self, message: object) -> None:
        """Put a message into the inbox. If it was asked, leave the reply to the test."""
        asked = isinstance(self.ctx._receipt(), Question)
        self.inbox.put(Envelope(message, self.ctx.sender, self.ctx.defer_reply() if asked else None))

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> None:
        """Defined so that the end of a watched actor raises no `DeathPact`."""

    def on_signal(self, signal: Signal) -> None:
        """Put the end of a watched actor into the inbox, like a message."""
        if isinstance(signal, Terminated):
            self.inbox.put(Envelope(signal))


ProbeActor.__name__ = "TestProbe"  # the name that probes get by default


class ProbeEndWaiter:
    """Tells the inbox when the probe's actor has ended. A hook could not: none runs when an end is forced."""

    for_start = False

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def ended(self, _: object, reason: ExitReason) -> None:
        """The probe's actor has ended."""
        self._inbox.end(reason)


class _Waiter:
    """One waiting coroutine."""

    def __init__(self) -> None:
        self._aio = asyncio.get_running_loop()
        self._thread = get_ident()
        self._future: asyncio.Future[None] = self._aio.create_future()

    def wake(self) -> None:
        """Wake the coroutine. From any thread."""
        if get_ident() == self._thread:
            self._finish()
        else:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._aio.call_soon_threadsafe(self._finish)

    async def is_woken(self, until: float) -> bool:
        """Wait to be woken. Return whether that was in time."""
        handle = self._aio.call_at(until, self._finish)
        try:
            await self._future
        finally:
            handle.cancel()
        return self._aio.time() < until

    def _finish(self) -> None:
        if not self._future.done():
            self._future.set_result(None)
