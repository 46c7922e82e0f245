"""The runtime's record of one actor, and of its children; and what is left of it.

An idle actor must be small, so a body holds only what every actor has; the rest is in `More`, made on first use.
Children are linked to one another: adding and removing one costs the same however many there are, and no table has to
be kept for those without a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import Cell
from greenroom.errors import NameTaken
from greenroom.exits import KILLED, NORMAL, SHUTDOWN, ExitReason

__all__ = ["Body", "Family", "More", "Obituary", "move_in", "obituary_of"]


class Body:
    """One living actor, beside its cell: how it was made, how far its life has come, and its kin."""

    __slots__ = ("_next", "_previous", "cell", "family", "more", "spec", "state", "watchers")

    # As with refs: `cell` and `spec` are set by `Lifecycle`, and no C methods means no table of them.
    cell: Cell
    spec: Any

    def __init__(self) -> None:
        # A code of `states`.
        self.state = 0
        # Its children, if it ever had any.
        self.family: Family | None = None
        # Invariant: those whose `More.watching` has this actor's cell; a dict for its order
        self.watchers: dict[Cell, None] | None = None
        self.more: More | None = None
        # Its siblings, in the order they were spawned.
        self._next: Body | None = None
        self._previous: Body | None = None

    def extra(self) -> More:
        """What few actors need; made on first use."""
        if self.more is None:
            self.more = More()
        return self.more

    def settings(self) -> Any:
        """What it hands down to its children: its own settings, or the system's."""
        more = self.more
        own = None if more is None else more.settings if more.by_behavior is None else more.by_behavior
        return self.cell.loop.host.settings if own is None else own


def move_in(body: Body, cell: Cell, spec: Any) -> None:
    """Let a body that was made by somebody else than `Lifecycle` be that of `cell`."""
    body.cell = cell
    body.spec = spec
    cell.body = body


class More:
    """What few actors need."""

    __slots__ = (
        "abandoned",
        "behaviors",
        "bonds",
        "by_behavior",
        "deadline",
        "deferred",
        "dispatcher",
        "drain",
        "ending",
        "history",
        "keyed",
        "log",
        "never_ran",
        "on_signal",
        "orderly",
        "phase",
        "pipes",
        "place",
        "quiet",
        "settings",
        "standing",
        "stash",
        "waiters",
        "watching",
    )

    def __init__(self) -> None:
        # What it hands down to its children, if that is not the system's own.
        self.settings: Any = None
        # The same, as the behavior of the present incarnation has it.
        self.by_behavior: Any = None
        # By which dispatcher its code runs, and where, if that is not on its loop's own thread. In a simulation it is
        # run there all the same, and there is no place.
        self.dispatcher: str | None = None
        self.place: Any = None
        # What becomes of queued messages when it stops.
        self.drain: Any = None
        # How it will have ended, once that is decided.
        self.ending: Any = None
        # Whether it ended, or will, without ever having been RUNNING; and whether its handler or hook was broken off.
        self.never_ran = False
        self.abandoned = False
        # How far its ending has come, as in `ending`.
        self.phase = 0
        # Whether its children end one after the other, the youngest first: a supervisor's do.
        self.orderly = False
        # How it stands with whoever decides about its failures; its links and monitors.
        self.standing: Any = None
        self.bonds: Any = None
        # What forces it to end in time.
        self.deadline: Any = None
        # The states it went through, if somebody wants to know.
        self.history: list[Any] | None = None
        # Who waits for it to start, or to end.
        self.waiters: list[Any] = []
        # Invariant: those that have this actor's cell among their watchers, or whose Terminated is on its way
        self.watching: dict[Cell, Any] = {}
        # Questions whose reply was put off.
        self.deferred: dict[Any, None] = {}
        # Behaviors to go back to, and who takes the present one's signals.
        self.behaviors: list[Any] = []
        self.on_signal: Any = None
        self.stash: Any = None
        self.keyed: Any = None
        # The receive timeout.
        self.quiet: Any = None
        self.pipes: dict[Any, None] = {}
        self.log: Any = None

    def has_run(self) -> bool:
        """Whether an incarnation before the present one was there."""
        return self.standing is not None and self.standing.incarnation > 1


class Family:
    """The children of one actor, or those that have no parent."""

    __slots__ = ("_first", "_last", "count", "names")

    def __init__(self) -> None:
        self._first: Body | None = None
        self._last: Body | None = None
        self.count = 0
        # Invariant: the bodies in here that have a name of their own, by that name
        self.names: dict[str, Body] = {}

    def require_free(self, name: str, parent: Any) -> None:
        """Raise when a child of `parent` has this name."""
        if name in self.names:
            raise NameTaken(f"{'' if parent is None else parent.path}/{name}")

    def add(self, body: Body, name: str | None) -> None:
        """Take in a child, as the youngest."""
        last = self._last
        if last is None:
            self._first = body
        else:
            last._next = body
            body._previous = last
        self._last = body
        self.count += 1
        if name is not None:
            self.names[name] = body

    def put_before(self, body: Body, younger: Body) -> None:
        """Let a child stand next before `younger`, as if it were that much older."""
        self._unlink(body)
        body._next = younger
        body._previous = younger._previous
        if younger._previous is None:
            self._first = body
        else:
            younger._previous._next = body
        younger._previous = body

    def remove(self, body: Body, name: Any) -> None:
        """Let a child go; its name is free at once."""
        self._unlink(body)
        body._next = body._previous = None
        self.count -= 1
        if type(name) is str:
            self.names.pop(name, None)

    def _unlink(self, body: Body) -> None:
        if body._previous is None:
            self._first = body._next
        else:
            body._previous._next = body._next
        if body._next is None:
            self._last = body._previous
        else:
            body._next._previous = body._previous

    def youngest(self) -> Body:
        """The last child that was taken in; there must be one."""
        last: Body = self._last  # type: ignore[assignment]
        return last

    def bodies(self) -> list[Body]:
        """The children, eldest first."""
        found: list[Body] = []
        body = self._first
        while body is not None:
            found.append(body)
            body = body._next
        return found

    def __iter__(self) -> Iterator[Body]:
        return iter(self.bodies())

    def __len__(self) -> int:
        return self.count


class Obituary:
    """What is left of an actor in its cell: how it ended, and what its refs are called."""

    __slots__ = ("history", "name", "parent", "reason")

    def set_up(self, reason: ExitReason, name: Any, parent: Any, history: Any) -> None:
        """What `__init__` would do."""
        self.reason = reason
        self.name = name
        self.parent = parent
        self.history = history


def obituary_of(reason: ExitReason, name: Any, parent: Any, history: Any) -> Obituary:
    """Made without a call of the class, which costs three times as much."""
    obituary = new_object(Obituary) if COMPILED else Obituary()
    obituary.set_up(reason, name, parent, history)
    if COMPILED and parent is None and (reason is NORMAL or reason is SHUTDOWN or reason is KILLED):
        # Nothing in it leads back to the system, as a parent does, and a traceback may: the garbage collector need not
        # follow it.
        untrack(obituary)
    return obituary
