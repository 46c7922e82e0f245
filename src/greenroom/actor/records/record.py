"""The runtime's record of one actor, and of its children; and what is left of it.

An idle actor must be small, so a record holds only what every actor has; the rest is in `Extras`, made on first use.
Children are linked to one another: adding and removing one costs the same however many there are, and no table has to
be kept for those without a name.

When there are many actors, the compiled build hides living ones from the garbage collector. A hundred thousand took the
collector as long as everything else that they did (`make bench`, P18F): each was six objects to traverse, again and
again, though none of them could be garbage, because their system has them. The price: a system that is dropped with
more actors than are tracked, and never stopped, is not collected. At its end, all of an actor is tracked again: what
others still have of it may be part of a reference cycle, through the traceback of what it failed with, say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import Cell
from greenroom.errors import NameTaken
from greenroom.exits import KILLED, NORMAL, SHUTDOWN, ExitReason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from logging import Logger, LoggerAdapter

    from greenroom._core.timing.timers import ScheduledCall
    from greenroom.actor.api.behavior import CurrentBehavior
    from greenroom.actor.life.stopping import Deadline
    from greenroom.actor.messaging.question import Question
    from greenroom.actor.messaging.timers import ReceiveTimer
    from greenroom.actor.messaging.waiting import LifeEvent
    from greenroom.actor.records.restartstate import RestartState
    from greenroom.actor.records.states import State
    from greenroom.actor.relations import Relations
    from greenroom.policy.specs import Supervision

TRACKED = 1000
"""How many actors of a loop the garbage collector tracks."""


class ActorRecord:
    """One living actor, beside its cell: how it is made, its stage and its kin."""

    __slots__ = (
        "_next",
        "_previous",
        "args",
        "cell",
        "child_list",
        "extras",
        "reason",
        "spec",
        "stage",
        "state",
        "watchers",
    )

    # As with refs: `cell`, `spec` and `args` are set by `Lifecycle`, and no C methods means no table of them. As for
    # threads, in the words of `Cell`: these three are settled, `stage` and `state` are numbers, and `extras` is settled
    # once it is there.
    cell: Cell
    spec: Any
    args: tuple[Any, ...]

    def __init__(self) -> None:
        # How far its life has come: a `Stage`. And what users see of that: the code of a `State`.
        self.stage = 0
        self.state = 0
        # How it will have ended, once that is decided.
        self.reason: ExitReason | None = None
        # Its children, if it ever had any.
        self.child_list: ChildList | None = None
        # Invariant: those whose `Relations.watching` has this actor's cell; a dict for its order
        self.watchers: dict[Cell, None] | None = None
        self.extras: Extras | None = None
        # Its siblings, in the order they were spawned.
        self._next: ActorRecord | None = None
        self._previous: ActorRecord | None = None

    def ensure_extras(self) -> Extras:
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def settings(self) -> Settings:
        """The settings it hands down to its children: its own, or the system's."""
        extras = self.extras
        own = (
            None
            if extras is None
            else extras.settings
            if extras.settings_of_behavior is None
            else extras.settings_of_behavior
        )
        return self.cell.loop.host.settings if own is None else own


class Settings:
    """What an actor hands down to its children, unless their spawn says otherwise."""

    __slots__ = ("env", "stop_timeout", "supervision")

    def __init__(self, supervision: Supervision, env: Mapping[str, Any], stop_timeout: float | None = None) -> None:
        self.supervision = supervision
        self.env = env
        # Seconds that it has to end, if that is not the system's `stop_timeout`.
        self.stop_timeout = stop_timeout

    def supervised_by(self, supervision: Supervision) -> Settings:
        return Settings(supervision, self.env, self.stop_timeout)


def attach_record(record: ActorRecord, cell: Cell, spec: object, args: tuple[object, ...]) -> None:
    """Give `cell` a record that `Lifecycle` has not made."""
    record.cell = cell
    record.spec = spec
    record.args = args
    cell.record = record


class Extras:
    """What few actors need, made on first use."""

    __slots__ = (
        "abandoned",
        "answers",
        "behaviors",
        "deadline",
        "deferred",
        "dispatcher",
        "drain",
        "executor",
        "fd_watches",
        "forced",
        "history",
        "keyed",
        "log",
        "never_ran",
        "on_signal",
        "orderly",
        "pipes",
        "receive_timer",
        "refusal_log",
        "relations",
        "restart_state",
        "settings",
        "settings_of_behavior",
        "start_deadline",
        "stash",
        "waiters",
    )

    def __init__(self) -> None:
        # What it hands down to its children, if that is not the system's own.
        self.settings: Settings | None = None
        # What the behavior of the present incarnation says instead (`Behaviors.supervise`).
        self.settings_of_behavior: Settings | None = None
        # By which dispatcher its code runs, and where, if that is not on its loop's own thread. Where threads are not
        # real, all code runs on that thread, and there is no place.
        self.dispatcher: str | None = None
        self.executor: Any = None
        # What becomes of queued messages when it stops.
        self.drain: Any = None
        # Whether it ended, or will, without ever having been RUNNING; and whether its handler or hook was broken off.
        self.never_ran = False
        self.abandoned = False
        # Whether it was cancelled because it did not stop in time.
        self.forced = False
        # Whether its children end one after the other, the youngest first: a supervisor's do.
        self.orderly = False
        # Its restarts so far, and what is to come of its failures.
        self.restart_state: RestartState | None = None
        # Its watches, monitors and links.
        self.relations: Relations | None = None
        # What forces it to end in time; and to start in time, if its start waits for something.
        self.deadline: Deadline | None = None
        self.start_deadline: ScheduledCall | None = None
        # The states it went through, if the system keeps them.
        self.history: list[State] | None = None
        # Those who wait for it to start, or to end.
        self.waiters: list[LifeEvent] = []
        # Questions whose reply was put off.
        self.deferred: dict[Question, None] = {}
        # Behaviors to go back to; who takes the present one's signals, and which exceptions are its answers.
        # Invariant: behaviors[0] is the actor's first one, and there is none iff it has that at present
        self.behaviors: list[CurrentBehavior] = []
        self.on_signal: Callable[..., object] | None = None
        self.answers: tuple[type[Exception], ...] = ()
        # How many of its refusals were logged lately.
        self.refusal_log: Any = None
        self.stash: Any = None
        self.keyed: Any = None
        # The receive timeout.
        self.receive_timer: ReceiveTimer | None = None
        # What ends with it: tasks, and whatever else has a `cancel`.
        self.pipes: dict[Any, None] = {}
        # The descriptors it watches, by their numbers.
        self.fd_watches: dict[int, Any] | None = None
        self.log: LoggerAdapter[Logger] | None = None

    def can_end_at_once(self) -> bool:
        """Whether nothing in here changes how the actor ends."""
        return (
            self.restart_state is None
            and self.executor is None
            and self.drain is None
            and self.stash is None
            and self.on_signal is None
            and not self.behaviors
            and not self.forced
            and not self.orderly
        )


class ChildList:
    """The children of one actor, or those that have no parent."""

    __slots__ = ("_first", "_last", "_left", "count", "names")

    def __init__(self) -> None:
        self.set_up()

    def set_up(self) -> None:
        """For `Lifecycle`, which makes lists without `__init__`."""
        self._first: ActorRecord | None = None
        self._last: ActorRecord | None = None
        self.count = 0
        # Invariant: the records in here that have a name of their own, by that name; None if none ever had
        self.names: dict[str, ActorRecord] | None = None
        # What is left of the last nameless child that ended in the ordinary way.
        self._left: Tombstone | None = None

    def share_names(self, names: dict[str, ActorRecord]) -> None:
        """Use the names of the other loops' top actors too, which may be on other threads."""
        self.names = names

    def named(self, name: str) -> ActorRecord | None:
        return None if self.names is None else self.names.get(name)

    def require_free(self, name: str, parent: Any) -> None:
        if self.names is not None and name in self.names:
            raise NameTaken(f"{'' if parent is None else parent.path}/{name}")

    def add(self, record: ActorRecord, name: str | None) -> None:
        if name is not None:
            if self.names is None:
                self.names = {}
            if self.names.setdefault(name, record) is not record:
                raise NameTaken(f"/{name}")  # on another loop, since `require_free`
        last = self._last
        if last is None:
            self._first = record
        else:
            last._next = record
            record._previous = last
        self._last = record
        self.count += 1

    def put_before(self, record: ActorRecord, younger: ActorRecord) -> None:
        """Move a child next before `younger`."""
        self._unlink(record)
        record._next = younger
        record._previous = younger._previous
        if younger._previous is None:
            self._first = record
        else:
            younger._previous._next = record
        younger._previous = record

    def remove(self, record: ActorRecord, name: object) -> None:
        self._unlink(record)
        record._next = record._previous = None
        self.count -= 1
        if type(name) is str:
            self.names.pop(name, None)  # type: ignore[union-attr]

    def _unlink(self, record: ActorRecord) -> None:
        if record._previous is None:
            self._first = record._next
        else:
            record._previous._next = record._next
        if record._next is None:
            self._last = record._previous
        else:
            record._next._previous = record._previous

    def tombstone_of(
        self, reason: ExitReason, name: str | tuple[str], parent: Any, history: Sequence[State] | None
    ) -> Tombstone:
        """The tombstone of a child: one object for nameless children of a kind that end alike."""
        left = self._left
        if left is not None and left.reason is reason and left.name is name and history is None:
            return left
        left = tombstone_of(reason, name, parent, history)
        if type(name) is tuple and history is None and (reason is NORMAL or reason is SHUTDOWN or reason is KILLED):
            self._left = left
        return left

    def youngest(self) -> ActorRecord:
        last: ActorRecord = self._last  # type: ignore[assignment]
        return last

    def records(self) -> list[ActorRecord]:
        found: list[ActorRecord] = []
        record = self._first
        while record is not None:
            found.append(record)
            record = record._next
        return found

    def __iter__(self) -> Iterator[ActorRecord]:
        return iter(self.records())

    def __len__(self) -> int:
        return self.count


class Tombstone:
    """What is left of an actor in its cell: how it ended, and what its refs are called."""

    __slots__ = ("history", "name", "parent", "reason")

    def set_up(self, reason: ExitReason, name: str | tuple[str], parent: Any, history: Sequence[State] | None) -> None:
        self.reason = reason
        self.name = name
        self.parent = parent
        self.history = history


def tombstone_of(reason: ExitReason, name: str | tuple[str], parent: Any, history: Sequence[State] | None) -> Tombstone:
    """A tombstone, made without a call of the class, which costs three times as much."""
    tombstone = new_object(Tombstone) if COMPILED else Tombstone()
    tombstone.set_up(reason, name, parent, history)
    if COMPILED and parent is None and history is None and (reason is NORMAL or reason is SHUTDOWN or reason is KILLED):
        # Nothing in it leads back to the system, as a parent does, and a traceback may: the garbage collector need not
        # follow it.
        untrack(tombstone)
    return tombstone


def untrack_actor(record: ActorRecord) -> None:
    untrack(record)
    untrack(record.cell)
    untrack(record.cell.ref)
    if record.args:
        untrack(record.args)


def untrack_instance(record: ActorRecord, actor: object) -> None:
    """Hide the user's instance, if its actor is hidden."""
    if not is_tracked(record) and is_tracked(actor):
        untrack(actor)


def track_actor(record: ActorRecord) -> None:
    _track(record)
    _track(record.cell)
    _track(record.cell.ref)
    if record.args:
        _track(record.args)
    if record.child_list is not None:
        _track(record.child_list)
    track_instance(record)


def track_instance(record: ActorRecord) -> None:
    """Have the user's instance tracked again; a function has the actor's record in that place."""
    if record.extras is not None:
        for behavior in record.extras.behaviors:
            if behavior.subject is not record:
                _track(behavior.subject)
    if record.cell.subject is not record:
        _track(record.cell.subject)


def _track(thing: object) -> None:
    if COMPILED and can_be_tracked(thing) and not is_tracked(thing):
        track(thing)
