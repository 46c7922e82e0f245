"""Who stands in for others beside an actor under test, and the context which that actor is given."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.context import Context
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.timers import KeyedTimers
from greenroom.testing.effects import (
    Demonitored,
    Linked,
    Monitored,
    TimerStarted,
    Unlinked,
    Unwatched,
    Watched,
)

if TYPE_CHECKING:
    from greenroom._core.timing.timers import Timer
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.signals import MonitorRef
    from greenroom.testing.harness.recording import Recorder

__all__ = ["Inert", "ObservedContext"]


class Inert(Actor):
    """Stands in for another actor. It does nothing, and what it is asked stays open for the test to answer."""

    __greenroom_stays_on_loop__ = True

    def pre_start(self) -> None:
        """Not even the end of the actor under test means anything to it."""
        self.ctx.trap_exit = True

    def receive(self, message: Any) -> None:
        """Any message, or the notice of an exit."""
        receipt = self.ctx._receipt()
        if isinstance(receipt, Question) and not receipt.replied:
            self.ctx.defer_reply()


Inert.__name__ = "StandIn"  # what one without a name is called after


class ObservedContext(Context):
    """The context of the actor under test: writes down what is asked of it."""

    __slots__ = ()

    def _recorder(self) -> Recorder:
        recorder: Recorder = self.cell.loop.director.faults
        return recorder

    def stop(self, child: ActorRef | None = None) -> None:
        """As every context does."""
        super().stop(child)
        if child is not None:
            self._recorder().tell_to_stop(child)

    def watch(self, ref: ActorRef, message: object = None) -> None:
        """As every context does."""
        super().watch(ref, message)
        self._recorder().note(Watched(ref, message))

    def unwatch(self, ref: ActorRef) -> None:
        """As every context does."""
        was_watched = self.extras is not None and ref._cell in self.extras.watching
        super().unwatch(ref)
        if was_watched:
            self._recorder().note(Unwatched(ref))

    def monitor(self, ref: ActorRef) -> MonitorRef:
        """As every context does."""
        mref = super().monitor(ref)
        self._recorder().note(Monitored(ref, mref))
        return mref

    def demonitor(self, mref: MonitorRef, flush: bool = True) -> bool:
        """As every context does."""
        was_monitored = super().demonitor(mref, flush)
        if was_monitored:
            self._recorder().note(Demonitored(mref.ref, mref))
        return was_monitored

    def link(self, ref: ActorRef) -> None:
        """As every context does."""
        super().link(ref)
        self._recorder().note(Linked(ref))

    def unlink(self, ref: ActorRef) -> None:
        """As every context does."""
        was_linked = self.extras is not None and self.extras.links is not None and ref._cell in self.extras.links.peers
        super().unlink(ref)
        if was_linked:
            self._recorder().note(Unlinked(ref))

    def send_after(self, delay: float, target: ActorRef, message: object) -> Timer:
        """As every context does."""
        timer = super().send_after(delay, target, message)
        self.note_timer(timer, None, delay)
        return timer

    def send_every(self, interval: float, target: ActorRef, message: object, *, fixed_rate: bool = False) -> Timer:
        """As every context does."""
        timer = super().send_every(interval, target, message, fixed_rate=fixed_rate)
        self.note_timer(timer, None, interval)
        return timer

    @property
    def timers(self) -> KeyedTimers:
        """Timers by key."""
        more = self.ensure_extras()
        if more.keyed is None:
            more.keyed = _ObservedTimers(self)
        keyed: KeyedTimers = more.keyed
        return keyed

    def note_timer(self, timer: Timer, key: Hashable, delay: float) -> None:
        """Write down a timer that has just been started."""
        target: Any = timer.target
        if target is not None:  # else the actor is ending, and the timer has ended before it began
            self._recorder().note(TimerStarted(timer, key, target.shown(), float(delay), self.now))


class _ObservedTimers(KeyedTimers):
    """Timers by key, which are written down too."""

    __slots__ = ("_context",)

    def __init__(self, context: ObservedContext) -> None:
        super().__init__(context.cell)
        self._context = context

    def start(
        self,
        key: Hashable,
        delay: float,
        message: object,
        *,
        every: float | None = None,
        fixed_rate: bool = False,
        target: Any = None,
    ) -> Timer:
        """As every context's timers do."""
        timer = super().start(key, delay, message, every=every, fixed_rate=fixed_rate, target=target)
        self._context.note_timer(timer, key, delay)
        return timer
