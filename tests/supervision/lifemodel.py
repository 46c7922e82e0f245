"""What may happen to actors, written from the semantics and not from the code (R5): lives, bonds and queues.

The actors of `lifecast` tell the model everything they do and everything that happens to them, at the moment of it. The
model has no schedule: whatever order things come in, it says of each whether it could come now, and of a quiet moment
whether anything is still due. Where the semantics leave something open the model allows it, and says so beside.

It is told from inside handlers, where an exception would be the actor's own failure. So it writes its complaints down,
and the test raises them.

There are three floors: here, who there is, who is bound to whom, and what is queued; in `lifeends`, what makes a life
leave; in `liferules`, what each hook and handler may come after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from greenroom import DeathPact, ExitKind, ExitReason, LinkBroken

__all__ = ["EPSILON", "START_HOOKS", "STOP_TIMEOUT", "WITHIN", "Book", "Hook", "Item", "Life", "Phase"]

STOP_TIMEOUT = 2.0
WITHIN = 0.9
"""Seconds in which restarts are counted."""
EPSILON = 1e-9
START_HOOKS = ["pre_start", "restore", "post_restart", "post_start"]


class Phase(Enum):
    """Where in its life an actor is, as far as the semantics tell them apart."""

    NEW = auto()
    STARTING = auto()
    RUNNING = auto()
    ESCALATED = auto()
    """It has failed, and its parent decides."""
    LEAVING = auto()
    """The old instance of a restart goes."""
    RESTING = auto()
    """Between two instances."""
    STOPPING = auto()
    ENDED = auto()


@dataclass(eq=False)
class Item:
    """Something in a mailbox: a message, a notice, or the mark of a stop in order."""

    kind: str
    what: Any = None
    about: Life | None = None
    reason: ExitReason | None = None
    end: object = None
    """The end that it tells of: notices of one end come in any order."""
    optional: bool = False
    """It may have had its turn already, unseen."""
    floating: bool = False
    """It was asked for again while queued: it may keep its place or go to the back."""


@dataclass(eq=False)
class Hook:
    """A hook or handler that has begun."""

    name: str
    item: Item | None = None
    """What it handles."""
    defiant: bool = False
    """It was cancelled and took no notice: its message may count as handled or as failed."""


@dataclass(eq=False)
class Life:
    """One actor, from its spawn to its end."""

    key: int
    ref: Any
    plan: Any
    parent: Life | None
    phase: Phase = Phase.NEW
    instance: int = 0
    children: list[Life] = field(default_factory=list)
    parent_instance: int = 1
    """The one that it belongs to; a child that is spawned while its parent rests is the next one's."""
    queue: list[Item] = field(default_factory=list)

    # Bonds.
    watches: dict[Life, Any] = field(default_factory=dict)
    monitors: dict[Any, Life] = field(default_factory=dict)
    made_monitors: list[Any] = field(default_factory=list)
    links: set[Life] = field(default_factory=set)
    traps: bool = False

    # What was asked for and has not acted yet; no message is begun before it has.
    orders: dict[str, list[BaseException]] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    escalated: dict[Life, BaseException] = field(default_factory=dict)
    # The same, where something else came between: it may still act and may be forgotten, until all is quiet.
    doubtful_failures: list[BaseException] = field(default_factory=list)
    doubtful_restarts: list[BaseException] = field(default_factory=list)
    pressed_since: float | None = None
    """Since when it has had something to do that a handler in hand must not hold up for ever."""

    # What is going on.
    in_hand: Hook | None = None
    start_hooks: list[str] = field(default_factory=list)
    start_broken: bool = False
    """A hook of its start was cancelled or abandoned."""
    raised: BaseException | None = None
    post_stopped: int = 0
    """The last instance that has had its `post_stop`."""
    abandoned: int = 0
    """The last instance of which a hook took no notice of its cancellation: none of its hooks is called any more."""

    # Its restart.
    owes_pre_restart: bool = False
    restart_cause: BaseException | None = None
    restarts: list[float] = field(default_factory=list)
    back_at: float = 0.0
    skips_backoff: bool = False
    kept: Any = None
    """What the last `snapshot` returned."""

    fatal: list[BaseException] = field(default_factory=list)
    """Failures that may be what it ends with."""
    reason: ExitReason | None = None

    def __str__(self) -> str:
        return f"{self.ref.path} ({self.phase.name.lower()}, instance {self.instance})"

    @property
    def alive(self) -> bool:
        return self.phase is not Phase.ENDED

    @property
    def is_gone(self) -> bool:
        """Whether the instance has had its `post_stop`, or never will."""
        return self.instance in (self.post_stopped, self.abandoned)

    @property
    def is_blocked(self) -> bool:
        """Orders overtake messages: they act after the message in hand, before the next one."""
        return bool(self.orders or self.failures)

    def above(self) -> Iterator[Life]:
        life = self.parent
        while life is not None:
            yield life
            life = life.parent

    def lineage(self) -> Iterator[Life]:
        yield self
        yield from self.above()

    def may_leave(self) -> bool:
        """Whether its children have to end, or may have to before long."""
        return (
            self.phase in (Phase.LEAVING, Phase.STOPPING)
            or self.is_blocked
            or bool(self.doubtful_failures or self.doubtful_restarts or self.escalated)
            or any(item.kind == "stop" for item in self.queue)
        )


class Book:
    """All lives, who is bound to whom, and what is queued where."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.lives: list[Life] = []
        self.complaints: list[str] = []
        self.closing_since: float | None = None
        """When the shutdown began."""
        self.tally: Counter[str] = Counter()
        """Messages, by what became of them."""

    def complain(self, text: str) -> None:
        self.complaints.append(f"at {self.now():g} s: {text}")

    def expect(self, condition: object, text: str) -> None:
        if not condition:
            self.complain(text)

    def count(self, item: Item | None, column: str) -> None:
        """What became of an item; notices do not count."""
        self.tally[column] += item is not None and item.kind == "message"

    def of(self, ref: Any) -> Life:
        return next(life for life in self.lives if life.ref == ref)

    # -- spawns and names

    def spawned(self, key: int, ref: Any, plan: Any, parent: Life | None) -> Life:
        life = Life(key, ref, plan, parent)
        self.lives.append(life)
        if parent is not None:
            self.expect(parent.alive, f"{ref.path} was spawned under {parent}")
            parent.children.append(life)
            life.parent_instance = parent.instance + (parent.phase in (Phase.NEW, Phase.RESTING))
        return life

    def is_taken(self, name: str | None, parent: Life | None) -> bool:
        """A name is taken until its actor has ended, and not a moment longer."""
        siblings = parent.children if parent is not None else [life for life in self.lives if life.parent is None]
        return name is not None and any(life.alive and life.ref.name == name for life in siblings)

    # -- bonds: only a final end fires them; one to the dead fires at once

    def watch(self, me: Life, other: Life, note: Any) -> None:
        if other.alive:
            me.watches[other] = note
            return
        queued = self._queued(me, other, "terminated", "note")
        if queued is None:
            me.queue.append(self._terminated(other, note))
        else:  # watching twice is told once, and the last message counts
            queued.kind, queued.what = ("terminated", None) if note is None else ("note", note)
            queued.floating = True

    def unwatch(self, me: Life, other: Life) -> None:
        me.watches.pop(other, None)
        me.queue[:] = [item for item in me.queue if item.about is not other or item.kind not in ("terminated", "note")]

    def monitor(self, me: Life, other: Life, mref: Any) -> None:
        me.made_monitors.append(mref)
        if other.alive:
            me.monitors[mref] = other
        else:
            me.queue.append(Item("down", mref, other, other.reason))

    def demonitor(self, me: Life, mref: Any, flush: bool) -> None:
        me.monitors.pop(mref, None)
        if flush:
            me.queue[:] = [item for item in me.queue if item.kind != "down" or item.what != mref]

    def forget_monitors(self, me: Life) -> None:
        """They belong to one incarnation, and so does a `Down` that is queued."""
        me.monitors.clear()
        me.queue[:] = [item for item in me.queue if item.kind != "down"]

    def link(self, me: Life, other: Life) -> None:
        if other.alive:
            me.links.add(other)
            other.links.add(me)
            return
        queued = self._queued(me, other, "exit")
        if queued is None:
            me.queue.append(Item("exit", None, other, other.reason))
        else:
            queued.floating = True

    def unlink(self, me: Life, other: Life) -> None:
        me.links.discard(other)
        other.links.discard(me)
        me.queue[:] = [item for item in me.queue if item.about is not other or item.kind != "exit"]

    def _queued(self, me: Life, other: Life, *kinds: str) -> Item | None:
        return next((item for item in me.queue if item.about is other and item.kind in kinds), None)

    def _terminated(self, other: Life, note: Any, end: object = None) -> Item:
        return Item("terminated" if note is None else "note", note, other, other.reason, end)

    def peers(self, me: Life) -> list[Life]:
        """Whom it is bound to, and of whose end it is still to hear."""
        told = [item.about for item in me.queue if item.about is not None]
        return sorted({*told, *me.watches, *me.links}, key=lambda life: life.key)

    def is_bonded(self, life: Life) -> bool:
        """Whether anybody would be told of its end."""
        return any(
            life in other.watches or life in other.links or life in other.monitors.values()
            for other in self.lives
            if other.alive
        )

    def tell_of_end(self, life: Life) -> None:
        """Every watch, monitor and link hears of a final end once; then it is gone, on both sides."""
        end = object()
        for other in self.lives:
            if not other.alive:
                continue
            if life in other.watches:
                other.queue.append(self._terminated(life, other.watches.pop(life), end))
            for mref in [mref for mref, target in other.monitors.items() if target is life]:
                del other.monitors[mref]
                other.queue.append(Item("down", mref, life, life.reason, end))
            if life in other.links:
                other.links.remove(life)
                other.queue.append(Item("exit", None, life, life.reason, end))
        life.watches.clear()
        life.monitors.clear()
        life.links.clear()

    # -- queues: messages and notices come in the order in which they arrived

    def take(self, life: Life, wanted: Callable[[Item], bool], text: str) -> Item | None:
        """What has its turn now, out of its queue."""
        item = next(filter(wanted, life.queue), None)
        if item is None:
            self.complain(f"{life} {text}, which is not queued")
            return None
        place = life.queue.index(item)
        left = []
        for other in life.queue[:place]:
            same_end = other.end is not None and other.end is item.end
            unseen = self.is_unseen(life, other)
            if same_end or other.floating:
                other.optional = other.optional or (other.floating and unseen)
                left.append(other)
            elif not unseen:
                self.complain(f"{life} {text}, before {other.kind} {other.what or other.about}")
        life.queue[: place + 1] = left
        return item

    def is_unseen(self, life: Life, item: Item) -> bool:
        """Whether nobody would notice that an item has its turn: a normal end, to one that is linked and traps none."""
        harmless = item.kind == "exit" and not life.traps and item.reason is not None and not item.reason.abnormal
        return item.optional or harmless

    def loosen(self, life: Life) -> None:
        """The instance changes, and with it whether exits are trapped: what could go unseen until now may have gone."""
        for item in life.queue:
            if not self.is_unseen(life, item):
                return
            item.optional = True

    def stop_has_its_turn(self, life: Life) -> bool:
        """Whether a stop in order comes next."""
        first = next((item for item in life.queue if not self.is_unseen(life, item) and not item.floating), None)
        return first is not None and first.kind == "stop"

    # -- notices that are failures

    def fatal_notices(self, life: Life) -> Iterator[Item]:
        """Those that make `life` fail when they have their turn."""
        for item in life.queue:
            abnormal = item.reason is not None and item.reason.abnormal
            if (item.kind == "exit" and abnormal and not life.traps) or (item.kind == "terminated" and life.plan.pact):
                yield item

    def notice_of(self, life: Life, cause: BaseException) -> Item | None:
        """The notice that makes `life` fail with `cause`, if one does."""
        return next((item for item in self.fatal_notices(life) if self._brings(item, cause)), None)

    def _brings(self, item: Item, cause: BaseException) -> bool:
        """Death pacts have an error of their own, and so has a link to one that was killed; a failure is handed on."""
        assert item.about is not None
        assert item.reason is not None
        if item.kind == "terminated":
            return isinstance(cause, DeathPact) and cause.ended == item.about.ref
        if item.reason.kind is ExitKind.KILLED:
            return isinstance(cause, LinkBroken) and cause.peer == item.about.ref
        return item.reason.cause is cause
