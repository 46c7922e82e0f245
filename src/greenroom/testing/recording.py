"""Records what the actor under test does, and turns every other actor into a stub.

**Other actors are stubs.** The director reports each new cell while it is made. The recorder keeps the cell out of the
run queue until its spawn is complete, then exchanges its factory for `StubActor`. To the runtime a stub is an actor
like any other: it starts, stops, is watched and restarted. But it runs none of the user's code.

**Effects** come from three sources. Messages pass the director. Calls of the context are recorded by the context
itself, a `RecordingContext`: a timer that was started cannot be seen from outside. Failures show in the states that the
actor goes through. So `effects` has all of them, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from greenroom._core.flags import HELD, ORDERS, RESUME
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom._core.simulation.director import Interceptor
from greenroom._core.simulation.schedules import Schedule
from greenroom._core.world import world_here
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.loopcontext import LoopContext
from greenroom.actor.life.hooks import actor_of
from greenroom.actor.life.spec import spec_of
from greenroom.actor.messaging.question import Question
from greenroom.actor.messaging.timers import KeyedTimers
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import Failure, restart_state_of
from greenroom.actor.records.states import Stage, State
from greenroom.actor.relations import known_relations
from greenroom.policy.directives import Directive
from greenroom.testing.effects import (
    Demonitored,
    Effect,
    Failed,
    Linked,
    Monitored,
    Sent,
    Spawned,
    Stopped,
    TimerStarted,
    Unlinked,
    Unwatched,
    Watched,
)

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.timing.timers import Timer
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.signals import MonitorRef
    from greenroom.lanes import Lane
    from greenroom.system.deadletters import DeadLetter

_DECISIONS = {State.RUNNING: Directive.RESUME, State.RESTARTING: Directive.RESTART}
"""The decision about a failure, by the next state; any other state means STOP."""
_BUDGET = 8
"""Messages per visit: few, so that an actor which keeps itself busy is detected soon."""


class StubActor(Actor):
    """Takes the place of another actor. It does nothing, and leaves questions open for the test to answer."""

    __greenroom_stays_on_loop__ = True

    def pre_start(self) -> None:
        """Trap exits, so that the end of the actor under test does not end it."""
        self.ctx.trap_exit = True

    def receive(self, message: object) -> None:
        receipt = self.ctx._receipt()
        if isinstance(receipt, Question) and not receipt.replied:
            self.ctx.defer_reply()


StubActor.__name__ = "TestInbox"  # the name that stubs get by default


class Recorder(Interceptor):
    """Records effects. The director calls it in place of a fault injector; it never interferes."""

    def __init__(self, settle: Callable[[], None]) -> None:
        self._settle = settle
        # Whether the actors run now, not the test; and whether the harness is closed.
        self.is_running = False
        self.is_over = False
        # The loop of the harness: an actor may have systems of its own.
        self.loop: Loop | None = None
        self.expects_subject = False
        self.subject: Cell | None = None
        self._record: ActorRecord | None = None
        self._history: _StateHistory | None = None
        # The last instance.
        self.actor: Actor | None = None
        self.effects: list[Effect] = []
        self._timers: list[TimerStarted] = []
        # Asks that may be open; `clear` keeps them.
        self._asks: list[Sent] = []
        self.dead_letters: list[DeadLetter] = []
        # Failures that the test has not looked at, and the causes that it passed to `fail`, once each.
        self.unseen: list[Failed] = []
        self._wanted: list[BaseException] = []
        self._undecided: Failed | None = None
        self._last_failure: Failure | None = None
        # The ids of actors whose end is no effect: it was recorded when they were told to stop, or the test told them.
        self._told: set[int] = set()
        self._told_by_test: set[int] = set()

    def note(self, effect: Effect) -> None:
        # Failures count to the very end: the last hooks run while the harness closes.
        if not self.is_over or isinstance(effect, Failed):
            self.effects.append(effect)
            if isinstance(effect, TimerStarted):
                self._timers.append(effect)

    @property
    def timers(self) -> list[TimerStarted]:
        self._timers = [timer for timer in self._timers if timer.active]
        return list(self._timers)

    def sent_to(self, ref: ActorRef) -> list[Sent]:
        return [effect for effect in self.effects if isinstance(effect, Sent) and effect.to == ref]

    def messages_to(self, ref: ActorRef) -> list[Any]:
        return [sent.message for sent in self.sent_to(ref)]

    def first_ask_of(self, ref: ActorRef) -> Sent | None:
        self._asks = [sent for sent in self._asks if sent.is_open]
        return next((sent for sent in self._asks if sent.to == ref), None)

    # -- called by the director

    def meets(self, cell: Cell) -> None:
        """A cell is being made: of the actor under test, or of one that becomes a stub."""
        loop: Loop = cell.loop
        if loop is not self.loop:
            return
        if self.expects_subject:
            self.expects_subject = False
            self.subject = cell
            return
        spawned = Spawned(self.messages_to) if self.is_running else None
        if spawned is not None:
            self.note(spawned)
        # Pretend that it is in the run queue already, so that nothing puts it there.
        cell.idle = False
        loop.inbound.post(None, partial(self._make_stub, cell, spawned))

    def _make_stub(self, cell: Cell, spawned: Spawned | None) -> None:
        """The spawn is complete: turn the new actor into a stub."""
        record = cell.record
        if isinstance(record, ActorRecord):
            if spawned is not None:
                spawned.complete(record)
            record.spec = spec_of(StubActor, (), {})
            record.args = ()
            cell.idle = True
            cell.make_runnable()
        elif spawned in self.effects:  # there was no room for it
            self.effects.remove(spawned)

    def holds(self, cell: Cell, message: object, sender: object, lane: Lane, by_timer: bool) -> bool:
        """A message is sent: record it, here or in the harness whose actor sent it."""
        if self.is_running:
            if cell.loop is self.loop and (cell is not self.subject or self._sends_itself(cell)):
                self._note_sent(cell, message, sender, lane)
        else:
            other = getattr(world_here(), "faults", None)
            if isinstance(other, Recorder):
                other._note_sent(cell, message, sender, lane)
        return False

    def _sends_itself(self, cell: Cell) -> bool:
        """Whether the actor's own code sends: in a handler, or outside a tick, but not by a timer or pipe."""
        if cell.loop.visits.hand is cell:
            return True
        extras = None if self._record is None else self._record.extras
        return not cell.loop.ticking and (extras is None or asyncio.current_task() not in extras.pipes)

    def _note_sent(self, cell: Cell, message: object, sender: object, lane: Lane) -> None:
        question = sender if isinstance(sender, Question) else None
        shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
        to, known = cast("ActorRef", cell.shown()), cast("ActorRef | None", shown)
        sent = Sent(to, message, lane, known, question, self._settle)
        self.note(sent)
        if sent.is_ask:
            self._asks.append(sent)

    def lets_handle(self, loop: object) -> bool:
        """Whether actors of `loop` handle messages: not on the harness's own loop, where all but one are stubs."""
        return loop is not self.loop

    def close(self) -> None:
        if self._history is not None:
            # A `Tombstone` keeps the history, and the garbage collector does not follow it.
            self._history.enters = None
        self.subject = self._record = self._history = None

    # -- called as an observer

    def mailbox_full(self, ref: object, message: object, lane: object) -> None:
        """The mailbox refused the message that was just recorded as sent."""
        last = self.effects[-1] if self.effects else None
        if isinstance(last, Sent) and last.to == ref and last.message is message:
            self.effects.pop()

    def actor_stopped(self, ref: ActorRef, reason: object) -> None:
        """An actor has ended: an effect, unless it was told to stop."""
        if ref._cell is not self.subject and ref.id not in self._told and ref.id not in self._told_by_test:
            self.note(Stopped(ref))

    def take_dead_letter(self, letter: DeadLetter) -> None:
        if not self.is_over:
            self.dead_letters.append(letter)

    # -- the lifecycle of the actor under test

    def adopt(self, record: ActorRecord) -> None:
        """Begin to record the actor under test, before any of its code has run."""
        record.__class__ = RecordingContext
        self._record = record
        self._history = record.ensure_extras().history = _StateHistory(self._enters)

    def begin(self) -> None:
        """The actors begin to run. Those that have an order already got it from the test."""
        if self.subject is not None:
            for cell in self.subject.loop.table:
                record = cell.record
                if (
                    cell is not self.subject
                    and isinstance(record, ActorRecord)
                    and record.state > 0
                    and cell.waiting_orders()
                ):
                    self._told_by_test.add(cell.id)
        self.is_running = True

    def end(self) -> None:
        self.is_running = False
        self._told_by_test.clear()

    def _enters(self, state: State) -> None:
        """The actor enters a state: note its instance, its failure, or the decision about a failure."""
        record = cast("ActorRecord", self._record)
        actor = actor_of(record)
        if isinstance(actor, Actor):
            self.actor = actor
        if state is State.FAILED:
            failure = restart_state_of(record).failure
            # An actor that is restarted while it starts passes this state too, without a failure.
            if failure is not None and failure is not self._last_failure:
                self._last_failure = failure
                self._fails(failure)
        elif self._undecided is not None:
            escalated = record.stage == Stage.ESCALATED
            self._undecided.decision = Directive.ESCALATE if escalated else _DECISIONS.get(state, Directive.STOP)
            self._undecided = None

    def _fails(self, failure: Failure) -> None:
        failed = self._undecided = Failed(failure.cause, failure.activity)
        if not _take(failure.cause, self._wanted, self._wanted):
            self.unseen.append(failed)
        self.note(failed)

    def hook_raised(self, cell: Cell, name: str, cause: BaseException) -> None:
        """A hook raised, which changes nothing else. A cancelled hook does not count: it was told to end."""
        if cell is self.subject and not isinstance(cause, asyncio.CancelledError):
            failed = Failed(cause, f"in {name}")
            self.unseen.append(failed)
            self.note(failed)

    def want(self, cause: BaseException) -> None:
        """The test makes the actor fail with `cause`, and so expects it."""
        self._wanted.append(cause)

    def see(self, cause: BaseException) -> bool:
        """The test has seen `cause`. Return whether it was an unseen failure; raised again, it is unseen again."""
        return _take(cause, [failed.cause for failed in self.unseen], self.unseen)

    def clear(self) -> None:
        """Forget the effects, except failures that the test has not looked at."""
        self.effects = [effect for effect in self.effects if any(effect is failed for failed in self.unseen)]
        self.dead_letters.clear()

    def tell_to_stop(self, ref: ActorRef) -> None:
        """The actor told `ref` to stop: record that, and not the end of `ref`."""
        self._told.add(ref.id)
        self.note(Stopped(ref))


def _take(cause: BaseException, causes: list[BaseException], entries: list[Failed] | list[BaseException]) -> bool:
    """Remove the first entry with this very `cause`: an equal exception is another failure."""
    for place, one in enumerate(causes):
        if one is cause:
            del entries[place]
            return True
    return False


class _StateHistory(list[State]):
    """The state history of an actor, which also calls `enters` for each new state."""

    __slots__ = ("enters",)

    def __init__(self, enters: Callable[[State], None]) -> None:
        super().__init__((State.CREATED,))
        self.enters: Callable[[State], None] | None = enters

    def append(self, state: State) -> None:
        super().append(state)
        if self.enters is not None:
            self.enters(state)


class SteppingSchedule(Schedule):
    """First come, first served. While `single` is set, the actor under test takes one message only."""

    def __init__(self) -> None:
        # The actor under test.
        self.subject: Cell | None = None
        self.single = False
        self.took_one = False
        # Whether we hold back the rest of its messages.
        self.held = False

    def budget(self, step: int) -> int:
        cell = self.subject
        if not self.single or cell is None or cell.loop.visits.hand is not cell:
            return _BUDGET
        if cell.flags & (ORDERS | RESUME | HELD) == 0:
            if self.took_one:
                cell.hold()
                self.held = True
            else:
                self.took_one = cell.waiting()
        return 1


class RecordingContext(LoopContext):
    """The context of the actor under test: records each call that has an effect."""

    __slots__ = ()

    def _recorder(self) -> Recorder:
        return cast("Recorder", self.cell.loop.world.faults)

    def stop(self, child: ActorRef | None = None) -> None:
        super().stop(child)
        if child is not None:
            self._recorder().tell_to_stop(child)

    def watch(self, ref: ActorRef, message: object = None) -> None:
        super().watch(ref, message)
        self._recorder().note(Watched(ref, message))

    def unwatch(self, ref: ActorRef) -> None:
        relations = known_relations(self)
        was_watched = relations is not None and ref._cell in relations.watching
        super().unwatch(ref)
        if was_watched:
            self._recorder().note(Unwatched(ref))

    def monitor(self, ref: ActorRef) -> MonitorRef:
        mref = super().monitor(ref)
        self._recorder().note(Monitored(ref, mref))
        return mref

    def demonitor(self, mref: MonitorRef, flush: bool = True) -> bool:
        was_monitored = super().demonitor(mref, flush)
        if was_monitored:
            self._recorder().note(Demonitored(mref.ref, mref))
        return was_monitored

    def link(self, ref: ActorRef) -> None:
        super().link(ref)
        self._recorder().note(Linked(ref))

    def unlink(self, ref: ActorRef) -> None:
        relations = known_relations(self)
        was_linked = relations is not None and ref._cell in relations.linked
        super().unlink(ref)
        if was_linked:
            self._recorder().note(Unlinked(ref))

    def send_after(self, delay: float, target: ActorRef, message: object) -> Timer:
        return self.note_timer(super().send_after(delay, target, message), None, delay)

    def send_every(self, interval: float, target: ActorRef, message: object, *, fixed_rate: bool = False) -> Timer:
        return self.note_timer(super().send_every(interval, target, message, fixed_rate=fixed_rate), None, interval)

    def _new_timers(self) -> KeyedTimers:
        return _RecordingTimers(self)

    def note_timer(self, timer: Timer, key: Hashable, delay: float) -> Timer:
        target: Cell | None = timer.target
        if target is not None:  # else the actor is ending, and the timer never started
            self._recorder().note(TimerStarted(timer, key, cast("ActorRef", target.shown()), float(delay), self.now))
        return timer


class _RecordingTimers(KeyedTimers):
    __slots__ = ("_context",)

    def __init__(self, context: RecordingContext) -> None:
        super().__init__(context.cell)
        self._context = context

    def start(self, key: Hashable, delay: float, message: object, **options: Any) -> Timer:
        return self._context.note_timer(super().start(key, delay, message, **options), key, delay)
