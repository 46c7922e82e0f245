"""What a probe's actor has heard and its test has not read yet.

The test may run on another thread than the system, so one lock guards what both sides touch. Several coroutines may
wait at once: all are woken, and those that find nothing left wait on. So nobody sleeps through a message that another
one, cancelled meanwhile, was woken for.
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
    """One message, who sent it, and the reply it is owed if it was asked."""

    message: Any
    sender: ActorRef | None = None
    reply: Reply | None = None


class Inbox:
    """One side puts in what it hears, the other takes it out, or waits for it."""

    def __init__(self) -> None:
        # What the reading side does not want to see.
        self.ignored: tuple[object, ...] = ()
        self._lock = Lock()
        # Invariant: all of these are written under _lock; `arrivals` counts what was put in, and the end
        self.arrivals = 0
        self.ended: ExitReason | None = None
        self._envelopes: deque[Envelope] = deque()
        self._waiters: list[_Waiter] = []

    # -- the side that hears

    def put(self, envelope: Envelope) -> None:
        """Something was heard. From any thread."""
        with self._lock:
            self._envelopes.append(envelope)
            waiters = self._note_arrival()
        for waiter in waiters:
            waiter.wake()

    def end(self, reason: ExitReason) -> None:
        """Nothing will be heard any more. From any thread."""
        with self._lock:
            self.ended = reason
            waiters = self._note_arrival()
        for waiter in waiters:
            waiter.wake()

    def _note_arrival(self) -> list[_Waiter]:
        self.arrivals += 1
        waiters, self._waiters = self._waiters, []
        return waiters

    # -- the side that reads

    def unread(self) -> list[Envelope]:
        """What can be taken, oldest first."""
        with self._lock:
            envelopes = list(self._envelopes)
        if not self.ignored:
            return envelopes
        # Without the lock, for functions of the test are called.
        kept = [one for one in envelopes if not any(matches(unwanted, one.message) for unwanted in self.ignored)]
        known = {id(one) for one in envelopes}
        wanted = {id(one) for one in kept}
        with self._lock:
            self._envelopes = deque(one for one in self._envelopes if id(one) in wanted or id(one) not in known)
        return kept

    def take(self) -> Envelope | None:
        """The oldest that is unread, if there is any."""
        unread = self.unread()
        if not unread:
            return None
        with self._lock:
            # By identity: what came while we looked has not been sifted yet.
            place = next(place for place, envelope in enumerate(self._envelopes) if envelope is unread[0])
            del self._envelopes[place]
        return unread[0]

    async def wait_for_arrival(self, until: float, arrivals: int) -> bool:
        """Wait until there are more than so many `arrivals`; False when time is up, even if there are by then.

        `until` is a time of the running asyncio loop. Who reads on as long as this is True comes to an end, however
        much comes that he does not want.
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
    """The actor of a probe: hands everything on to its inbox. What it is asked stays open, for the test to answer."""

    __greenroom_stays_on_loop__ = True

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox

    def receive(self, message: object) -> None:
        """Put a message into the inbox. If it was asked, leave the reply to the test."""
        asked = isinstance(self.ctx._receipt(), Question)
        self.inbox.put(Envelope(message, self.ctx.sender, self.ctx.defer_reply() if asked else None))

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> None:
        """It is there to be spared a `DeathPact`."""

    def on_signal(self, signal: Signal) -> None:
        """The end of one that is watched is read like a message."""
        if isinstance(signal, Terminated):
            self.inbox.put(Envelope(signal))


ProbeActor.__name__ = "TestProbe"  # what a probe without a name is called after


class ProbeEndWaiter:
    """Stands among those who wait for an ear's end. A hook would not do: none runs when an end is forced."""

    for_start = False

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def ended(self, _: object, reason: ExitReason) -> None:
        """The ear has ended."""
        self._inbox.end(reason)


class _Waiter:
    """One coroutine that waits."""

    def __init__(self) -> None:
        self._aio = asyncio.get_running_loop()
        self._thread = get_ident()
        self._future: asyncio.Future[None] = self._aio.create_future()

    def wake(self) -> None:
        """Something has come. From any thread."""
        if get_ident() == self._thread:
            self._finish()
        else:
            with suppress(RuntimeError):  # that loop is closed: nobody waits any more
                self._aio.call_soon_threadsafe(self._finish)

    async def is_woken(self, until: float) -> bool:
        """Wait to be woken: whether that was in time."""
        handle = self._aio.call_at(until, self._finish)
        try:
            await self._future
        finally:
            handle.cancel()
        return self._aio.time() < until

    def _finish(self) -> None:
        if not self._future.done():
            self._future.set_result(None)
