"""The inbox of a probe: messages that its actor received and the test has not read yet.

The test may run on another thread than the system, so a lock guards the shared fields. Several coroutines may wait at
once. A message wakes all of them, and those that find nothing wait again. So no message is lost when a coroutine is
cancelled after it was woken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from greenroom.actor.api.actor import Actor
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.signals import Signal, Terminated
from greenroom.actor.messaging.waiting import TaskWait
from greenroom.testing.probing.matching import matches

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.reply import Reply
    from greenroom.exits import ExitReason


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
        self._waiters: list[TaskWait] = []

    # -- for the probe's actor

    def put(self, envelope: Envelope) -> None:
        with self._lock:
            self._envelopes.append(envelope)
            waiters = self._note_arrival()
        for waiter in waiters:
            waiter.end(None)

    def end(self, reason: ExitReason) -> None:
        with self._lock:
            self.ended = reason
            waiters = self._note_arrival()
        for waiter in waiters:
            waiter.end(None)

    def _note_arrival(self) -> list[TaskWait]:
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
        dropped = {id(one) for one in envelopes} - {id(one) for one in kept}
        with self._lock:
            self._envelopes = deque(one for one in self._envelopes if id(one) not in dropped)
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
        waiter = TaskWait()
        aio = asyncio.get_running_loop()
        timeout = aio.call_at(until, waiter.end, None)
        with self._lock:
            if self.arrivals <= arrivals:
                self._waiters.append(waiter)
            else:
                waiter.end(None)
        try:
            await waiter.result()
            return aio.time() < until
        finally:
            timeout.cancel()
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)


class ProbeActor(Actor):
    """The actor of a probe: puts every message into the inbox. The test answers what was asked."""

    __greenroom_stays_on_loop__ = True

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox

    def receive(self, message: object) -> None:
        asked = isinstance(self.ctx._receipt(), Question)
        self.inbox.put(Envelope(message, self.ctx.sender, self.ctx.defer_reply() if asked else None))

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> None:
        """Defined so that the end of a watched actor raises no `DeathPact`."""

    def on_signal(self, signal: Signal) -> None:
        """Put the end of a watched actor into the inbox, like a message."""
        if isinstance(signal, Terminated):
            self.inbox.put(Envelope(signal))


ProbeActor.__name__ = "TestProbe"  # the name that probes get by default
