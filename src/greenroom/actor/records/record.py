"""The runtime's record of one actor, and of its children; and what is left of it.

An idle actor must be small, so a body holds only what every actor has; the rest is in `Extras`, made on first use.
Children are linked to one another: adding and removing one costs the same however many there are, and no table has to
be kept for those without a name.
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

    from greenroom._core.timing.timers import Alarm
    from greenroom.actor.records.parts import (
        BehaviorPart,
        Cancellable,
        EndDeadline,
        LifeWaiting,
        OwedReply,
        ReceiveTiming,
        Watching,
    )
    from greenroom.actor.records.restartstate import RestartState
    from greenroom.actor.records.states import State
    from greenroom.policy.specs import Supervision

__all__ = ["ActorRecord", "ChildList", "Extras", "Settings", "Tombstone", "attach_record", "tombstone_of"]


class ActorRecord:
    """One living actor, beside its cell: how it was made, how far its life has come, and its kin."""

    __slots__ = ("_next", "_previous", "args", "cell", "child_list", "extras", "phase", "spec", "state", "watchers")

    # As with refs: `cell`, `spec` and `args` are set by `Lifecycle`, and no C methods means no table of them. As for
    # threads, in the words of `Cell`: these three are settled, `state` and `phase` are numbers, and `extras` is settled
    # once it is there.
    cell: Cell
    spec: Any
    args: tuple[Any, ...]

    def __init__(self) -> None:
        # A code of `states`.
        self.state = 0
        # How far its ending has come, as in `ending`.
        self.phase = 0
        # Its children, if it ever had any.
        self.child_list: ChildList | None = None
        # Invariant: those whose `Extras.watching` has this actor's cell; a dict for its order
        self.watchers: dict[Cell, None] | None = None
        self.extras: Extras | None = None
        # Its siblings, in the order they were spawned.
        self._next: ActorRecord | None = None
        self._previous: ActorRecord | None = None

    def ensure_extras(self) -> Extras:
        """What few actors need; made on first use."""
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def settings(self) -> Settings:
        """What it hands down to its children: its own settings, or the system's."""
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
        """The same, with another supervision."""
        return Settings(supervision, self.env, self.stop_timeout)


def attach_record(record: ActorRecord, cell: Cell, spec: object, args: tuple[object, ...]) -> None:
    """Let a body that was made by somebody else than `Lifecycle` be that of `cell`."""
    record.cell = cell
    record.spec = spec
    record.args = args
    cell.record = record


class Extras:
    """What few actors need."""

    __slots__ = (
        "abandoned",
        "answers",
        "behaviors",
        "deadline",
        "deferred",
        "dispatcher",
        "drain",
        "ending",
        "executor",
        "fd_watches",
        "forced",
        "history",
        "keyed",
        "links",
        "log",
        "monitors",
        "never_ran",
        "on_signal",
        "orderly",
        "pipes",
        "receive_timer",
        "refusal_log",
        "restart_state",
        "settings",
        "settings_of_behavior",
        "start_deadline",
        "stash",
        "waiters",
        "watching",
    )

    def __init__(self) -> None:
        # What it hands down to its children, if that is not the system's own.
        self.settings: Settings | None = None
        # The same, as the behavior of the present incarnation has it.
        self.settings_of_behavior: Settings | None = None
        # By which dispatcher its code runs, and where, if that is not on its loop's own thread. In a simulation it is
        # run there all the same, and there is no place.
        self.dispatcher: str | None = None
        self.executor: Any = None
        # What becomes of queued messages when it stops.
        self.drain: Any = None
        # How it will have ended, once that is decided.
        self.ending: ExitReason | None = None
        # Whether it ended, or will, without ever having been RUNNING; and whether its handler or hook was broken off.
        self.never_ran = False
        self.abandoned = False
        # Whether it was cancelled because it did not stop in time.
        self.forced = False
        # Whether its children end one after the other, the youngest first: a supervisor's do.
        self.orderly = False
        # Its restarts so far, and what is to come of its failures; its links and monitors.
        self.restart_state: RestartState | None = None
        self.links: Any = None
        self.monitors: Any = None
        # What forces it to end in time; and to start in time, if its start waits for something.
        self.deadline: EndDeadline | None = None
        self.start_deadline: Alarm | None = None
        # The states it went through, if somebody wants to know.
        self.history: list[State] | None = None
        # Who waits for it to start, or to end.
        self.waiters: list[LifeWaiting] = []
        # Invariant: those that have this actor's cell among their watchers, or whose Terminated is on its way
        self.watching: dict[Cell, Watching] = {}
        # Questions whose reply was put off.
        self.deferred: dict[OwedReply, None] = {}
        # Behaviors to go back to; who takes the present one's signals, and which exceptions are its answers.
        # Invariant: behaviors[0] is the actor's first one, and there is none iff it has that at present
        self.behaviors: list[BehaviorPart] = []
        self.on_signal: Callable[..., object] | None = None
        self.answers: tuple[type[Exception], ...] = ()
        # How many of its refusals were logged lately.
        self.refusal_log: Any = None
        self.stash: Any = None
        self.keyed: Any = None
        # The receive timeout.
        self.receive_timer: ReceiveTiming | None = None
        self.pipes: dict[Cancellable, None] = {}
        # The descriptors it watches, by their numbers.
        self.fd_watches: dict[int, Any] | None = None
        self.log: LoggerAdapter[Logger] | None = None

    def can_end_at_once(self) -> bool:
        """Whether none of this changes how the actor ends: it has only to be let go of."""
        return (
            self.restart_state is None
            and self.executor is None
            and self.ending is None
            and self.drain is None
            and self.stash is None
            and self.on_signal is None
            and not self.behaviors
            and not self.forced
            and not self.orderly
        )

    def has_run(self) -> bool:
        """Whether an incarnation before the present one was there."""
        return self.restart_state is not None and self.restart_state.incarnation > 1


class ChildList:
    """The children of one actor, or those that have no parent."""

    __slots__ = ("_first", "_last", "_left", "count", "names")

    def __init__(self) -> None:
        self.set_up()

    def set_up(self) -> None:
        """What `__init__` does; `Lifecycle` makes lists without one."""
        self._first: ActorRecord | None = None
        self._last: ActorRecord | None = None
        self.count = 0
        # Invariant: the bodies in here that have a name of their own, by that name; None if none ever had
        self.names: dict[str, ActorRecord] | None = None
        # What is left of the last nameless child that ended in the ordinary way.
        self._left: Tombstone | None = None

    def share_names(self, names: dict[str, ActorRecord]) -> None:
        """Have the names of others, of whom none may have the same: they may be on other threads."""
        self.names = names

    def named(self, name: str) -> ActorRecord | None:
        """The child that was given this name."""
        return None if self.names is None else self.names.get(name)

    def require_free(self, name: str, parent: Any) -> None:
        """Raise when a child of `parent` has this name."""
        if self.names is not None and name in self.names:
            raise NameTaken(f"{'' if parent is None else parent.path}/{name}")

    def add(self, record: ActorRecord, name: str | None) -> None:
        """Take in a child, as the youngest."""
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
        """Let a child stand next before `younger`, as if it were that much older."""
        self._unlink(record)
        record._next = younger
        record._previous = younger._previous
        if younger._previous is None:
            self._first = record
        else:
            younger._previous._next = record
        younger._previous = record

    def remove(self, record: ActorRecord, name: object) -> None:
        """Let a child go; its name is free at once."""
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
        """What is to be left of a child: one object for nameless ones of a kind that end alike."""
        left = self._left
        if left is not None and left.reason is reason and left.name is name and history is None:
            return left
        left = tombstone_of(reason, name, parent, history)
        if type(name) is tuple and history is None and (reason is NORMAL or reason is SHUTDOWN or reason is KILLED):
            self._left = left
        return left

    def youngest(self) -> ActorRecord:
        """The last child that was taken in; there must be one."""
        last: ActorRecord = self._last  # type: ignore[assignment]
        return last

    def records(self) -> list[ActorRecord]:
        """The children, eldest first."""
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
        """What `__init__` would do."""
        self.reason = reason
        self.name = name
        self.parent = parent
        self.history = history


def tombstone_of(reason: ExitReason, name: str | tuple[str], parent: Any, history: Sequence[State] | None) -> Tombstone:
    """Made without a call of the class, which costs three times as much."""
    tombstone = new_object(Tombstone) if COMPILED else Tombstone()
    tombstone.set_up(reason, name, parent, history)
    if COMPILED and parent is None and history is None and (reason is NORMAL or reason is SHUTDOWN or reason is KILLED):
        # Nothing in it leads back to the system, as a parent does, and a traceback may: the garbage collector need not
        # follow it.
        untrack(tombstone)
    return tombstone
