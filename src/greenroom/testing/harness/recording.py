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
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from greenroom._core.flags import HELD, ORDERS, RESUME
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom._core.simulation.director import director_here
from greenroom._core.simulation.schedules import Schedule
from greenroom.actor.api.actor import Actor
from greenroom.actor.life.hooks import actor_of
from greenroom.actor.life.spec import spec_of
from greenroom.actor.messaging.question import Question
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import Failure, restart_state_of
from greenroom.actor.records.states import State
from greenroom.policy.directives import Directive
from greenroom.testing.effects import Effect, Failed, Sent, Spawned, Stopped, TimerStarted
from greenroom.testing.harness.recordingcontext import RecordingContext

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.deadletters import DeadLetter
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.lanes import Lane

__all__ = ["Recorder", "SteppingSchedule", "StubActor"]


class StubActor(Actor):
    """Stands in for another actor. It does nothing, and what it is asked stays open for the test to answer."""

    __greenroom_stays_on_loop__ = True

    def pre_start(self) -> None:
        """Not even the end of the actor under test means anything to it."""
        self.ctx.trap_exit = True

    def receive(self, message: object) -> None:
        """Leave a question open for the test; ignore everything else."""
        receipt = self.ctx._receipt()
        if isinstance(receipt, Question) and not receipt.replied:
            self.ctx.defer_reply()


StubActor.__name__ = "StandIn"  # what one without a name is called after


class Recorder:
    """Stands where a simulation's faults stand: it is asked about all that happens, and lets everything happen."""

    def __init__(self, settle: Callable[[], None]) -> None:
        self._settle = settle
        # Whether what happens now is the actors' doing, and not the test's; and whether all is over.
        self.is_running = False
        self.is_over = False
        # The loop that all of this is about: an actor may have systems of its own.
        self.loop: Loop | None = None
        self.expects_subject = False
        self.subject: Cell | None = None
        self._record: ActorRecord | None = None
        self._history: _StateHistory | None = None
        # The last instance there was.
        self.actor: Actor | None = None
        self.effects: list[Effect] = []
        self._timers: list[TimerStarted] = []
        # Asks that may be open; clearing what has happened does not answer them.
        self._asks: list[Sent] = []
        self.dead_letters: list[DeadLetter] = []
        # Failures that the test has not looked at, and what it wants the actor to fail with, once each.
        self.unseen: list[Failed] = []
        self._wanted: list[BaseException] = []
        self._undecided: Failed | None = None
        self._last_failure: Failure | None = None
        # The numbers of actors whose end is no news: it was noted when they were told; or the test has told them.
        self._told: set[int] = set()
        self._told_by_test: set[int] = set()

    def note(self, effect: Effect) -> None:
        """Write down an effect."""
        # How it fails counts to the very end: its last hooks run when all else is over.
        if not self.is_over or isinstance(effect, Failed):
            self.effects.append(effect)
            if isinstance(effect, TimerStarted):
                self._timers.append(effect)

    @property
    def timers(self) -> list[TimerStarted]:
        """The timers that are active."""
        self._timers = [timer for timer in self._timers if timer.active]
        return list(self._timers)

    def sent_to(self, ref: ActorRef) -> list[Sent]:
        """What was sent to one actor."""
        return [effect for effect in self.effects if isinstance(effect, Sent) and effect.to == ref]

    def messages_to(self, ref: ActorRef) -> list[Any]:
        """The same, the messages alone."""
        return [sent.message for sent in self.sent_to(ref)]

    def first_ask_of(self, ref: ActorRef) -> Sent | None:
        """The oldest ask of one actor that is open."""
        self._asks = [sent for sent in self._asks if sent.is_open]
        return next((sent for sent in self._asks if sent.to == ref), None)

    # -- what the director asks

    def meets(self, cell: Cell) -> None:
        """A cell is made."""
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
        # As if it stood in the run queue already, so that nobody puts it there.
        cell.idle = False
        loop.inbound.call(None, partial(self._make_stub, cell, spawned))

    def _make_stub(self, cell: Cell, spawned: Spawned | None) -> None:
        """The spawn is complete: have the new actor be nobody in particular."""
        record = cell.record
        if isinstance(record, ActorRecord):
            if spawned is not None:
                spawned.complete(record)
            record.spec = spec_of(StubActor, (), {})
            cell.idle = True
            cell.make_runnable()
        elif spawned in self.effects:  # there was no room for it
            self.effects.remove(spawned)

    def holds(self, cell: Cell, message: object, sender: object, lane: Lane, by_timer: bool) -> bool:
        """A message is sent: by the actor under test, or by that of another harness, which should know."""
        if self.is_running:
            if cell.loop is self.loop and (cell is not self.subject or self._sends_itself(cell)):
                self._note_sent(cell, message, sender, lane)
        else:
            here = director_here()
            if here is not None and isinstance(here.faults, Recorder):
                here.faults._note_sent(cell, message, sender, lane)
        return False

    def _sends_itself(self, cell: Cell) -> bool:
        """Whether it is its own code that does: in a handler, or outside any tick; but not its timers and pipes."""
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

    def approaches(self, cell: Cell) -> None:
        """Somebody looks whether there is room: there is as much as ever."""

    def holds_notice(self, cell: Cell, notice: object) -> bool:
        """A notice is sent."""
        return False

    def handle(self, cell: Cell, message: object) -> object:
        """Have a message handled."""
        return cell.handler(cell.subject, message)

    def after_step(self, step: int) -> None:
        """A visit has ended."""

    def lets_handle(self, loop: object) -> bool:
        """Whether actors of this loop handle messages: here all but one are stand-ins."""
        return loop is not self.loop

    def is_on_the_way(self, loop: object) -> bool:
        """Whether messages are on their way: they always arrive at once."""
        return False

    def close(self) -> None:
        """The simulation is over: let go of the runtime, and be let go of."""
        if self._history is not None:
            # What is left of an ended actor keeps it, and is not followed by the garbage collector (`Tombstone`).
            self._history.enters = None
        self.subject = self._record = self._history = None

    # -- what observers are told

    def mailbox_full(self, ref: object, message: object, lane: object) -> None:
        """What was written down as sent has been refused."""
        last = self.effects[-1] if self.effects else None
        if isinstance(last, Sent) and last.to == ref and last.message is message:
            self.effects.pop()

    def actor_stopped(self, ref: ActorRef, reason: object) -> None:
        """Somebody has ended."""
        if ref._cell is not self.subject and ref.id not in self._told and ref.id not in self._told_by_test:
            self.note(Stopped(ref))

    def take_dead_letter(self, letter: DeadLetter) -> None:
        """A message was not handled."""
        if not self.is_over:
            self.dead_letters.append(letter)

    # -- the life of the actor under test

    def adopt(self, record: ActorRecord) -> None:
        """Write down what becomes of the actor under test, of which nothing has run yet."""
        record.__class__ = RecordingContext
        self._record = record
        self._history = record.ensure_extras().history = _StateHistory(self._enters)

    def begin(self) -> None:
        """The actors have their turn: who has been told something by now was told by the test."""
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
        """The test has its turn."""
        self.is_running = False
        self._told_by_test.clear()

    def _enters(self, state: State) -> None:
        """It is in another state: a moment to see who it is, how it has failed, or what was decided about that."""
        record = cast("ActorRecord", self._record)
        actor = actor_of(record)
        if isinstance(actor, Actor):
            self.actor = actor
        if state is State.FAILED:
            failure = restart_state_of(record).failure
            # One that is restarted while it starts goes through this state too, and has not failed.
            if failure is not None and failure is not self._last_failure:
                self._last_failure = failure
                self._fails(failure)
        elif self._undecided is not None:
            restart_state = restart_state_of(record)
            # Who was resumed with its parent had escalated.
            escalated = restart_state.escalated or (restart_state.spared and state is State.RUNNING)
            self._undecided.decision = Directive.ESCALATE if escalated else _DECISIONS.get(state, Directive.STOP)
            self._undecided = None

    def _fails(self, failure: Failure) -> None:
        failed = self._undecided = Failed(failure.cause, failure.activity)
        if not _take(failure.cause, self._wanted, self._wanted):
            self.unseen.append(failed)
        self.note(failed)

    def hook_raised(self, cell: Cell, name: str, cause: BaseException) -> None:
        """One of its hooks raised, which changes nothing. One that was broken off has not: it was told to end."""
        if cell is self.subject and not isinstance(cause, asyncio.CancelledError):
            failed = Failed(cause, f"in {name}")
            self.unseen.append(failed)
            self.note(failed)

    def want(self, cause: BaseException) -> None:
        """The test has the actor fail with `cause`."""
        self._wanted.append(cause)

    def see(self, cause: BaseException) -> bool:
        """The test has seen `cause`: whether that was a failure. The same one may be raised again, unseen."""
        return _take(cause, [failed.cause for failed in self.unseen], self.unseen)

    def clear(self) -> None:
        """Forget what has happened, but for failures that the test has not looked at."""
        self.effects = [effect for effect in self.effects if any(effect is failed for failed in self.unseen)]
        self.dead_letters.clear()

    def tell_to_stop(self, ref: ActorRef) -> None:
        """It has told `ref` to stop: that is the effect, and not its end."""
        self._told.add(ref.id)
        self.note(Stopped(ref))


_DECISIONS = {State.RUNNING: Directive.RESUME, State.RESTARTING: Directive.RESTART}
"""What was decided about a failure, by the state that comes next; any other is an end."""


def _take(cause: BaseException, causes: list[BaseException], entries: list[Failed] | list[BaseException]) -> bool:
    """Take the entry that has `cause` out, once, and that very one: an equal exception is another failure."""
    for place, one in enumerate(causes):
        if one is cause:
            del entries[place]
            return True
    return False


class _StateHistory(list[State]):
    """The states of an actor, for a runtime that writes them down, and for somebody who wants to know at once."""

    __slots__ = ("enters",)

    def __init__(self, enters: Callable[[State], None]) -> None:
        super().__init__((State.CREATED,))
        self.enters: Callable[[State], None] | None = enters

    def append(self, state: State) -> None:
        """The actor is in another state."""
        super().append(state)
        if self.enters is not None:
            self.enters(state)


_BUDGET = 8
"""Messages in one visit: few, so that an actor which keeps itself busy is found out soon."""


class SteppingSchedule(Schedule):
    """First come first served. While it is `single`, the actor under test takes one message, and no other."""

    def __init__(self) -> None:
        # The actor under test.
        self.subject: Cell | None = None
        self.single = False
        self.took_one = False
        # Whether the rest of its messages is kept waiting by us.
        self.held = False

    def budget(self, step: int) -> int:
        """How many messages this visit may handle."""
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
