"""The context of an actor under test: records which relations and timers the actor asks for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol, cast

from greenroom.actor.api.loopcontext import LoopContext
from greenroom.actor.messaging.timers import KeyedTimers
from greenroom.testing.effects import (
    Demonitored,
    Effect,
    Linked,
    Monitored,
    TimerStarted,
    Unlinked,
    Unwatched,
    Watched,
)

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom._core.timing.timers import Timer
    from greenroom.actor.messaging.address import Address
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.signals import MonitorRef

__all__ = ["EffectLog", "RecordingContext"]


class EffectLog(Protocol):
    """Where effects are recorded: the harness's `Recorder`."""

    def note(self, effect: Effect) -> None:
        """Record an effect."""

    def tell_to_stop(self, ref: ActorRef) -> None:
        """Record that the actor told `ref` to stop."""


class RecordingContext(LoopContext):
    """The context of the actor under test: records each call that has an effect."""

    __slots__ = ()

    def _effect_log(self) -> EffectLog:
        log: EffectLog = self.cell.loop.director.faults
        return log

    def stop(self, child: ActorRef | None = None) -> None:
        """As `Context` does, and record it."""
        super().stop(child)
        if child is not None:
            self._effect_log().tell_to_stop(child)

    def watch(self, ref: ActorRef, message: object = None) -> None:
        """As `Context` does, and record it."""
        super().watch(ref, message)
        self._effect_log().note(Watched(ref, message))

    def unwatch(self, ref: ActorRef) -> None:
        """As `Context` does, and record it."""
        was_watched = self.extras is not None and ref._cell in self.extras.watching
        super().unwatch(ref)
        if was_watched:
            self._effect_log().note(Unwatched(ref))

    def monitor(self, ref: ActorRef) -> MonitorRef:
        """As `Context` does, and record it."""
        mref = super().monitor(ref)
        self._effect_log().note(Monitored(ref, mref))
        return mref

    def demonitor(self, mref: MonitorRef, flush: bool = True) -> bool:
        """As `Context` does, and record it."""
        was_monitored = super().demonitor(mref, flush)
        if was_monitored:
            self._effect_log().note(Demonitored(mref.ref, mref))
        return was_monitored

    def link(self, ref: ActorRef) -> None:
        """As `Context` does, and record it."""
        super().link(ref)
        self._effect_log().note(Linked(ref))

    def unlink(self, ref: ActorRef) -> None:
        """As `Context` does, and record it."""
        was_linked = self.extras is not None and self.extras.links is not None and ref._cell in self.extras.links.peers
        super().unlink(ref)
        if was_linked:
            self._effect_log().note(Unlinked(ref))

    def send_after(self, delay: float, target: ActorRef, message: object) -> Timer:
        """As `Context` does, and record it."""
        timer = super().send_after(delay, target, message)
        self.note_timer(timer, None, delay)
        return timer

    def send_every(self, interval: float, target: ActorRef, message: object, *, fixed_rate: bool = False) -> Timer:
        """As `Context` does, and record it."""
        timer = super().send_every(interval, target, message, fixed_rate=fixed_rate)
        self.note_timer(timer, None, interval)
        return timer

    @property
    def timers(self) -> KeyedTimers:
        """Timers by key."""
        extras = self.ensure_extras()
        if extras.keyed is None:
            extras.keyed = _RecordingTimers(self)
        keyed: KeyedTimers = extras.keyed
        return keyed

    def note_timer(self, timer: Timer, key: Hashable, delay: float) -> None:
        """Record a timer that has just been started."""
        target: Cell | None = timer.target
        if target is not None:  # else the actor is ending, and the timer never started
            self._effect_log().note(TimerStarted(timer, key, cast("ActorRef", target.shown()), float(delay), self.now))


class _RecordingTimers(KeyedTimers):
    """Timers by key, which are recorded."""

    __slots__ = ("_context",)

    def __init__(self, context: RecordingContext) -> None:
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
        target: Address | None = None,
    ) -> Timer:
        """As `KeyedTimers` does, and record it."""
        timer = super().start(key, delay, message, every=every, fixed_rate=fixed_rate, target=target)
        self._context.note_timer(timer, key, delay)
        return timer
