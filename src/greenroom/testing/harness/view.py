"""The read-only side of a harness: the state of the actor under test, and its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, cast

from greenroom.actor.api.context import Context
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.states import State
from greenroom.errors import BadArgument
from greenroom.exits import ExitReason
from greenroom.system.system import ActorSystem
from greenroom.testing.effects import Effect, Failed, Sent, Spawned, Stopped, TimerStarted
from greenroom.testing.harness.recording import Recorder
from greenroom.testing.simulating.session import Session
from greenroom.testing.tracing.trace import Trace

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from greenroom.actor.api.actor import Actor
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.records.record import Extras, Tombstone
    from greenroom.system.deadletters import DeadLetter

    A = TypeVar("A", bound=Actor, default=Any)
    E = TypeVar("E", bound=Effect)
else:
    from typing import TypeVar

    A = TypeVar("A")
    E = TypeVar("E")

__all__ = ["HarnessView"]


class HarnessView(Generic[A]):
    """What a test can read from a harness."""

    def __init__(self, recorder: Recorder, session: Session) -> None:
        self._recorder = recorder
        self._session = session
        self._ref: ActorRef | None = None

    # -- the present state

    @property
    def system(self) -> ActorSystem:
        """The system that the actor runs in."""
        return self._session.system

    @property
    def ref(self) -> ActorRef:
        """The ref of the actor under test. A message sent through it is handled in the next call of the harness."""
        if self._ref is None:
            raise BadArgument("there is no actor under test yet: give it to `start`")
        return self._ref

    @property
    def actor(self) -> A:
        """The actor instance; after its end, the last instance."""
        found = self._recorder.actor
        if found is None:
            raise BadArgument(f"{self.ref} has no instance: it is made of functions, or was never made")
        return cast("A", found)

    @property
    def state(self) -> State:
        """Its lifecycle state."""
        return self.ref.state

    @property
    def ended(self) -> ExitReason | None:
        """Its exit reason, if it has ended."""
        record: ActorRecord | Tombstone = self.ref._cell.record
        return None if isinstance(record, ActorRecord) else record.reason

    @property
    def is_suspended(self) -> bool:
        """Whether its handler or a hook is suspended at an `await`."""
        return self.ref._cell.task is not None

    @property
    def queued(self) -> int:
        """How many messages are in its mailbox; stashed ones do not count."""
        return int(self.ref._cell.queued())

    @property
    def stashed(self) -> int:
        """How many messages it has stashed."""
        extras = self._extras
        return 0 if extras is None or extras.stash is None else len(extras.stash)

    @property
    def receive_timeout(self) -> float | None:
        """The seconds that it gave to `set_receive_timeout`."""
        extras = self._extras
        return None if extras is None or extras.receive_timer is None else float(extras.receive_timer.seconds)

    @property
    def children(self) -> list[ActorRef]:
        """Its living children, oldest first."""
        record = self.ref._cell.record
        return record.children if isinstance(record, Context) else []

    @property
    def timers(self) -> list[TimerStarted]:
        """Its active timers, in the order they were started."""
        return self._recorder.timers

    @property
    def watched(self) -> list[ActorRef]:
        """The actors that it watches."""
        extras = self._extras
        watching = {} if extras is None else extras.watching
        return [cast("ActorRef", cell.shown()) for cell, watch in watching.items() if watch.notice is None]

    @property
    def monitored(self) -> list[ActorRef]:
        """The actors that it monitors, once for each monitor."""
        extras = self._extras
        monitors = None if extras is None else extras.monitors
        return [] if monitors is None else [mref.ref for mref, notice in monitors.own.items() if notice is None]

    @property
    def linked(self) -> list[ActorRef]:
        """The actors that it is linked to."""
        extras = self._extras
        links = None if extras is None else extras.links
        return [] if links is None else [cell.shown() for cell, notice in links.peers.items() if notice is None]

    @property
    def now(self) -> float:
        """Virtual seconds since the harness was made."""
        return self._session.now

    @property
    def trace(self) -> Trace:
        """The trace so far, of all actors."""
        return self._session.trace

    # -- what has happened since the last `clear`

    @property
    def effects(self) -> list[Effect]:
        """All effects, in order."""
        self._recorder.unseen.clear()
        return list(self._recorder.effects)

    @property
    def sent(self) -> list[Sent]:
        """The messages that it sent, to others and to itself."""
        return self._effects(Sent)

    @property
    def spawned(self) -> list[Spawned]:
        """The actors that it spawned."""
        return self._effects(Spawned)

    @property
    def stopped(self) -> list[ActorRef]:
        """The actors that it told to stop, and those that ended with it."""
        return [effect.ref for effect in self._effects(Stopped)]

    @property
    def failures(self) -> list[Failed]:
        """Its failures, with the decisions about them."""
        self._recorder.unseen.clear()
        return self._effects(Failed)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Messages that nobody handled: sent by it, or sent to it."""
        return list(self._recorder.dead_letters)

    def clear(self) -> None:
        """Forget the effects so far, except failures that the test has not looked at."""
        self._recorder.clear()

    def _effects(self, kind: type[E]) -> list[E]:
        return [effect for effect in self._recorder.effects if isinstance(effect, kind)]

    @property
    def _extras(self) -> Extras | None:
        """What the runtime keeps for the few actors that need it."""
        record = self.ref._cell.record
        return record.extras if isinstance(record, ActorRecord) else None
