"""What may happen to actors, written from the semantics and not from the code (R5): lives, bonds and queues.

The actors at the end of this file tell the model all that they do and all that happens to them, at the moment of it.
The model has no schedule: whatever order things come in, it says of each whether it could come now, and of a quiet
moment whether anything is still due. Where the semantics leave something open the model allows it, and says so beside.

The model is told from inside handlers, where an exception would be the actor's own failure. So it writes its complaints
down, and the test raises them.

Its parts: `Book`, which actors there are, who is bound to whom, and what is queued; the plans that hypothesis draws;
`Ends`, what makes a life leave; `Model`, what each hook and handler may come after; and the actors."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from enum import Enum, auto
from itertools import count
from typing import Any, TypeVar

from hypothesis import strategies as st

from greenroom import (
    Actor,
    ActorSystem,
    Backoff,
    Behaviors,
    DeathPact,
    Directive,
    Down,
    Exit,
    ExitKind,
    ExitReason,
    Ledger,
    LinkBroken,
    OnRestart,
    State,
    Supervision,
)
from greenroom.errors import GreenroomError, NameTaken
from tests.gates import Event
from tests.supervision.children import Boom, Panic

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


T = TypeVar("T")
Op = tuple[Any, ...]
"""A verb, the number of whom it is about, and what else it takes."""

BONDED = 6
"""Numbers from here on are for actors to whom others are bound."""
ANYBODY = 10
"""And from here on for the dead too."""


class Short:
    """Shows itself as the call that makes it, without what is as usual: falsifying examples are made of these."""

    def __repr__(self) -> str:
        values = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}  # type: ignore[arg-type]
        shown = [f"{name}={value if isinstance(value, Enum) else repr(value)}" for name, value in values.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Act(Short):
    """What a handler or hook does: some operations, and then it is to `"return"`, `"raise"`, `"panic"` or `"stop"`.

    `hangs`, if it is async, before that and until the gate is opened: `"weakly"` it lets itself be cancelled, `"once"`
    it returns when it is, and `"stubbornly"` it takes no notice.
    """

    do: tuple[Op, ...] = ()
    then: str = "return"
    hangs: str = ""


@dataclass(frozen=True, repr=False)
class Plan(Short):
    """What an actor is like: its supervision, and the acts of its hooks, by name and number of the instance."""

    suspends: bool = False
    """Whether all its hooks and its handler are async."""
    directive: Directive = Directive.RESTART
    limit: int | None = None
    backoff: float = 0.0
    clears: bool = False
    """Whether a restart empties its mailbox."""
    pact: bool = False
    """Whether it has no `on_terminated`, so that whomever it watches takes it along."""
    hooks: tuple[tuple[str, int, Act], ...] = ()

    def act(self, name: str, instance: int) -> Act:
        return next((act for hook, number, act in self.hooks if (hook, number) == (name, instance)), Act())


class Letter:
    """A message: what to do."""

    def __init__(self, number: int, act: Act) -> None:
        self.number = number
        self.act = act

    def __repr__(self) -> str:
        return f"<letter {self.number}: {self.act}>"


MAKING = ["watch", "watch", "note", "monitor", "monitor", "link", "link", "link", "trap"]
UNDOING = ["unwatch", "demonitor", "leave", "unlink", "untrap"]
BONDS = [*MAKING, *MAKING, *UNDOING]
ORDERS = ["restart", "restart", "fail", "fail", "stop", "finish", "kill"]
ENDS = [*["return"] * 7, "raise", "raise", "panic", "stop"]
HANGS = ["weakly", "once", "stubbornly"]
STARTING = ["init", "pre_start", "restore", "post_restart", "post_start"]
LEAVING = ["pre_restart", "snapshot", "pre_stop", "post_stop"]
PLANS = [
    Plan(suspends, directive, limit, backoff, clears, pact)
    for suspends in (False, True, True)
    for directive in (Directive.RESTART, *Directive)
    for limit in (None, None, 1, 2)
    for backoff in (0.0, 0.0, 0.6)
    for clears in (False, True)
    for pact in (False, True)
]

who = st.integers(0, 11)
names = st.sampled_from([None, "a", "b"])


# Composites, and not `map`, so that examples show the values and not how they were come by.


def _one_of(cases: list[T]) -> st.SearchStrategy[T]:
    """One draw from a long list, not several from short ones: a draw takes longer than a step of the simulation."""

    @st.composite
    def case(draw: st.DrawFn) -> T:
        return cases[draw(st.integers(0, len(cases) - 1))]

    return case()


def _ops(verbs: list[str]) -> st.SearchStrategy[Op]:
    return _one_of([(verb, number) for verb in verbs for number in range(12)])


def _acts(ops: st.SearchStrategy[Op], most: int, hangs: list[str]) -> st.SearchStrategy[Act]:
    lists = st.lists(ops, max_size=most)
    ends = _one_of([(then, hang) for then in ENDS for hang in hangs])

    @st.composite
    def act(draw: st.DrawFn) -> Act:
        return Act(tuple(draw(lists)), *draw(ends))

    return act()


@st.composite
def _plans(draw: st.DrawFn) -> Plan:
    hooks = [(*draw(hook_places), draw(hook_acts)) for _ in range(draw(st.integers(0, 2)))]
    return replace(draw(_one_of(PLANS)), hooks=tuple(hooks))


bonds = _ops(BONDS)
orders = _ops(ORDERS)
simple_ops = _ops([*BONDS, *BONDS, *ORDERS])
# A hook has its turn once in a life or so, a handler again and again: so that is how often they hang.
hook_acts = _acts(simple_ops, 2, [*[""] * 4, *HANGS])
hook_places = _one_of(
    [(name, instance) for name in [*STARTING, *LEAVING, *LEAVING, "on_terminated"] for instance in (1, 1, 2, 2, 3)]
)
plans = _plans()
tells = st.tuples(st.just("tell"), who, _acts(simple_ops, 2, [*[""] * 9, *HANGS]))
spawns = st.tuples(st.just("spawn"), plans, names)
acts = _acts(st.one_of(simple_ops, simple_ops, tells, spawns), 3, [*[""] * 9, *HANGS])


KILLED = ExitReason(ExitKind.KILLED)
NORMAL = ExitReason(ExitKind.NORMAL)
SHUTDOWN = ExitReason(ExitKind.SHUTDOWN)


class Ends(Book):
    """The book, with orders, failures and ends."""

    # -- orders

    def stop(self, life: Life) -> None:
        self._order(life, "stop")

    def kill(self, life: Life) -> None:
        self._order(life, "kill")

    def stop_in_order(self, life: Life) -> None:
        if life.alive:
            life.queue.append(Item("stop"))

    def restart(self, life: Life, cause: BaseException) -> None:
        life.skips_backoff = True  # even one that a failure has brought about
        if self._takes_orders(life):
            self._order(life, "restart", cause)
        elif life.alive:
            life.doubtful_restarts.append(cause)
            self.press(life)

    def fail(self, life: Life, cause: BaseException) -> None:
        if self._takes_orders(life):
            life.failures.append(cause)
            self.press(life)
        elif life.alive:
            life.doubtful_failures.append(cause)
            self.press(life)

    def _takes_orders(self, life: Life) -> bool:
        """On its way in or out, an actor may mind a restart or a failure, and may not."""
        return life.phase is Phase.RUNNING and not life.orders.keys() & {"stop", "kill"}

    def _order(self, life: Life, name: str, *cause: BaseException) -> None:
        if life.alive:
            life.orders.setdefault(name, []).extend(cause)
            self.press(life)

    def press(self, life: Life) -> None:
        """Something waits for what `life` has in hand."""
        if life.pressed_since is None:
            life.pressed_since = self.now()

    def relax(self, life: Life) -> None:
        """It goes on, and its time is counted anew."""
        life.pressed_since = self.now() if life.is_blocked else None

    # -- deadlines

    def is_killed(self, life: Life) -> bool:
        return any("kill" in one.orders for one in life.lineage())

    def may_be_forced(self, life: Life) -> bool:
        """A kill cancels at once; anything else gives the handler or hook in hand its time."""
        since = [self.closing_since, *(one.pressed_since for one in life.lineage())]
        late = any(moment is not None and self.now() >= moment + STOP_TIMEOUT - EPSILON for moment in since)
        return late or self.is_killed(life)

    def give_up(self, life: Life, what: str) -> None:
        """`what` comes next, so if anything is in hand, it took no notice of its cancellation."""
        hook, life.in_hand = life.in_hand, None
        if hook is None:
            return
        self.expect(self.may_be_forced(life), f"{what} of {life} during its {hook.name}")
        self.count(hook.item, "failed")
        if hook.name != "receive":
            life.abandoned = life.instance
        if hook.name in START_HOOKS:
            life.start_broken = True
        elif hook.name == "post_stop" and life.phase is Phase.LEAVING:
            life.phase = Phase.RESTING

    def overdue(self) -> list[str]:
        """Who should be gone by now, whatever hangs; for when there was time enough for every deadline."""

        def has_to_go(life: Life) -> bool:
            told = any(one.orders.keys() & {"stop", "kill"} for one in life.lineage())
            return life.alive and (told or life.phase in (Phase.LEAVING, Phase.STOPPING))

        return [str(life) for life in self.lives if has_to_go(life)]

    # -- why it leaves

    def is_called_off(self, life: Life) -> bool:
        """Whether it has to end, whatever else it is doing."""
        told = bool(life.orders.keys() & {"stop", "kill"}) or self.stop_has_its_turn(life)
        return told or self._ends_with_others(life)

    def _ends_with_others(self, life: Life) -> bool:
        return self.closing_since is not None or any(map(self._ends_children, life.above()))

    def _ends_children(self, life: Life) -> bool:
        if life.phase is Phase.RUNNING:
            # It says so by its `pre_stop`, unless it is killed, fails, or is forced.
            unheard = self.has_failed(life) or self.may_be_forced(life)
            return "kill" in life.orders or ("stop" in life.orders and unheard)
        return life.phase not in (Phase.STARTING, Phase.NEW) or life.may_leave()

    def has_failed(self, life: Life) -> bool:
        return bool(
            life.raised is not None
            or life.failures
            or life.doubtful_failures
            or life.escalated
            or any(self.fatal_notices(life))
        )

    # -- failures

    def decides(self, life: Life, cause: BaseException) -> Directive:
        """`life` has failed with `cause`; what its supervision says."""
        self.expect(life.phase in (Phase.STARTING, Phase.RUNNING), f"{life} fails with {cause!r}")
        self._require_reason_to_fail(life, cause)
        self.give_up(life, "failure")
        life.raised = None
        life.start_broken = False
        if self.is_called_off(life):
            life.fatal.append(cause)  # it ends either way: by what was asked for, or by this
        directive: Directive = life.plan.directive
        outcome = self._outcome(life, directive)
        self._carry_out(life, outcome, cause)
        for child in list(life.escalated):
            self._answer_escalation(life, child, outcome)
        return directive

    def _require_reason_to_fail(self, life: Life, cause: BaseException) -> None:
        if life.raised is cause or _has(life.escalated.values(), cause):
            return
        if _has(life.failures, cause):
            life.failures[:] = [one for one in life.failures if one is not cause]
            return
        notice = self.notice_of(life, cause)
        if notice is not None:
            self.expect(not life.is_blocked, f"{life} fails by a notice, before {[*life.orders, *life.failures]}")
            self.take(life, lambda item: item is notice, f"fails by a notice with {cause!r}")
        elif not _has(life.doubtful_failures, cause) and not life.start_broken:
            self.complain(f"{life} fails with {cause!r}, for no reason")

    def _outcome(self, life: Life, directive: Directive) -> Directive:
        if directive is Directive.RESUME and life.phase is Phase.STARTING:
            directive = Directive.RESTART  # there is nothing to go on with
        return Directive.STOP if directive is Directive.RESTART and self._is_one_too_many(life) else directive

    def _is_one_too_many(self, life: Life) -> bool:
        """The window slides, and its ends are in it."""
        recent = [moment for moment in life.restarts if self.now() - moment <= WITHIN + EPSILON]
        if life.plan.limit is not None and len(recent) >= life.plan.limit:
            return True
        life.restarts.append(self.now())
        return False

    def _carry_out(self, life: Life, outcome: Directive, cause: BaseException) -> None:
        if outcome is Directive.RESUME:
            self.relax(life)
            return
        life.owes_pre_restart = life.phase is Phase.RUNNING
        self.release(life)
        self.press(life)
        if outcome is Directive.RESTART:
            self._leave(life)
            life.restart_cause = cause
        elif outcome is Directive.STOP:
            life.phase = Phase.STOPPING
            life.fatal.append(cause)
        else:
            life.phase = Phase.ESCALATED
            life.fatal.append(cause)
            assert life.parent is not None
            if life.parent.alive:
                life.parent.escalated[life] = cause
                self.press(life.parent)

    def _leave(self, life: Life) -> None:
        never_made = life.is_gone and not life.owes_pre_restart
        life.phase = Phase.RESTING if never_made else Phase.LEAVING
        life.back_at = self.now() + life.plan.backoff

    def release(self, life: Life) -> None:
        """One restart is enough for all that asked for one by now; what is left over may count or not."""
        life.doubtful_restarts += life.orders.pop("restart", [])
        life.doubtful_failures += life.failures
        life.failures.clear()
        self.loosen(life)

    def _answer_escalation(self, life: Life, child: Life, outcome: Directive) -> None:
        """A parent that is resumed resumes the child with it; one that is restarted or stopped takes it along."""
        if outcome is Directive.ESCALATE:
            return
        cause = life.escalated.pop(child)
        life.doubtful_failures.append(cause)  # if it was another failure that was decided on, this one may follow
        if child.phase is not Phase.ESCALATED:
            return
        if outcome is not Directive.RESUME:
            child.phase = Phase.STOPPING
        elif child.owes_pre_restart:
            child.phase = Phase.RUNNING
            child.fatal.remove(cause)
            self.relax(child)
            for grandchild in list(child.escalated):
                self._answer_escalation(child, grandchild, outcome)
        else:  # it has not started, so there is nothing to go on with
            self._leave(child)

    # -- ends

    def ended(self, life: Life, reason: ExitReason) -> None:
        self.expect(life.alive, f"{life} ends, once more")
        self.give_up(life, "end")
        for child in life.children:
            self.expect(not child.alive, f"{life} ends before {child}")
        self.expect(life.is_gone, f"{life} ends without post_stop")
        allowed = list(self._reasons(life))
        by_notice = reason.cause is not None and self._may_fail_unasked(life, reason.cause)
        self.expect(reason in allowed or by_notice, f"{life} ends with {reason!r}, allowed: {allowed}")
        life.phase = Phase.ENDED
        life.reason = reason
        if life.parent is not None and life in life.parent.escalated:
            life.parent.doubtful_failures.append(life.parent.escalated.pop(life))  # its parent may know already
        self.tell_of_end(life)

    def _reasons(self, life: Life) -> Iterator[ExitReason]:
        if self.may_be_forced(life):
            yield KILLED
        if "stop" in life.orders or self.stop_has_its_turn(life):
            yield NORMAL
        if self._ends_with_others(life):
            yield SHUTDOWN
        # A failure beside an order to end: either may be what it ends with.
        causes = [*life.fatal, *life.failures, life.raised, *life.doubtful_failures, *life.escalated.values()]
        yield from (ExitReason.of(cause) for cause in causes if cause is not None)

    def _may_fail_unasked(self, life: Life, cause: BaseException) -> bool:
        """Whoever has to end anyway may still fail, and nobody is asked then what to do about it."""
        return self.is_called_off(life) and self.notice_of(life, cause) is not None


def _has(causes: Iterable[BaseException], cause: BaseException) -> bool:
    """Whether it is that very exception; some compare equal."""
    return any(one is cause for one in causes)


HARMLESS = ["pre_stop", "post_stop", "pre_restart", "snapshot"]
"""Hooks that may raise without consequence: it is logged, and what was going on goes on."""


class Model(Ends):
    """Told of all that happens; `complaints` is what could not have."""

    def __init__(self, now: Callable[[], float], find: Callable[[str], Any]) -> None:
        super().__init__(now)
        self._find = find

    # -- messages

    def told(self, life: Life, message: Any) -> None:
        item = Item("message", message)
        life.queue.append(item)
        self.count(item, "sent")

    def dead_letter(self, life: Life, message: Any) -> None:
        item = next((item for item in life.queue if item.what is message), None)
        if item is None:
            self.complain(f"{message} to {life} is a dead letter, but was not queued")
            return
        life.queue.remove(item)
        self.count(item, "dead_lettered")
        ends = not life.alive or life.phase is Phase.STOPPING or self.is_called_off(life)
        is_cleared = life.plan.clears and (
            self._start_is_broken_off(life) or life.phase in (Phase.LEAVING, Phase.RESTING)
        )
        stops_in_order = any(other.kind == "stop" for other in life.queue)
        self.expect(ends or is_cleared or stops_in_order, f"{message} to {life} is a dead letter")

    def _start_is_broken_off(self, life: Life) -> bool:
        """Whether it may be restarted before it has started."""
        return life.phase is Phase.STARTING and bool(life.doubtful_restarts)

    # -- instances

    def made(self, life: Life) -> None:
        """A new instance is being made."""
        self.give_up(life, "a new instance")
        if life.phase is not Phase.NEW:
            self._require_place(life)
        self.loosen(life)
        self.forget_monitors(life)
        life.instance += 1
        life.phase = Phase.STARTING
        life.traps = life.start_broken = False
        life.skips_backoff = bool(life.doubtful_restarts)
        life.start_hooks = []

    def _require_place(self, life: Life) -> None:
        """There is one instance at a time, and nothing is left of the one before."""
        early = self.now() < life.back_at - EPSILON and not life.skips_backoff
        self.expect(not early, f"{life} is back before {life.back_at:g} s")
        leaves = self._start_is_broken_off(life) or life.phase in (Phase.LEAVING, Phase.RESTING)
        self.expect(leaves and life.is_gone, f"{life} has two instances")
        told = sorted(life.orders.keys() & {"stop", "kill"})
        self.expect(not told or life.skips_backoff, f"{life} is made anew, after {told}")
        left = [str(child) for child in life.children if child.alive and child.parent_instance <= life.instance]
        self.expect(not left, f"{life} is made anew before {left} have ended")

    def made_badly(self, life: Life, cause: BaseException) -> None:
        """Making it has raised: there is no instance, and nobody to call `post_stop` of."""
        life.raised = cause
        life.post_stopped = life.instance

    # -- the beginnings of hooks and handlers

    def begins(self, life: Life, instance: int, name: str, what: Any = None) -> Hook:
        hook = Hook(name)
        self.expect(life.alive, f"{name} of {life}")
        self.expect(instance == life.instance, f"{name} of instance {instance} of {life}")
        self.give_up(life, name)
        life.in_hand = hook
        if name == "receive":
            hook.item = self._begin_message(life, what)
        elif name == "on_terminated":
            hook.item = self._begin_on_terminated(life, *what)
        elif name == "pre_restart":
            self._begin_pre_restart(life, what)
        elif name == "snapshot":
            self.expect(life.phase is Phase.LEAVING and not life.owes_pre_restart, f"snapshot of {life}")
        elif name == "pre_stop":
            self._begin_pre_stop(life)
        elif name == "post_stop":
            self._begin_post_stop(life)
        else:
            self._begin_start_hook(life, name, what)
        return hook

    def _begin_start_hook(self, life: Life, name: str, what: Any) -> None:
        self.expect(life.phase is Phase.STARTING, f"{name} of {life}")
        missing = START_HOOKS[len(life.start_hooks) :]
        # Between the first and the last, those of a restart are called as there is need.
        right = name in missing and (bool(life.start_hooks) or name == "pre_start")
        self.expect(right, f"{name} of {life} after {life.start_hooks}")
        life.start_hooks = START_HOOKS[: START_HOOKS.index(name) + 1]
        if name == "restore":
            self.expect(what == life.kept, f"restore({what!r}) of {life}, not {life.kept!r}")

    def _begin_message(self, life: Life, message: Any) -> Item | None:
        self._require_no_order(life, "receive")
        if isinstance(message, Down):
            return self._begin_notice(life, "down", message)
        if isinstance(message, Exit):
            self.expect(life.traps, f"{life} gets {message} and traps no exits")
            return self._begin_notice(life, "exit", message)
        item = self.take(life, lambda item: item.what is message, f"gets {message}")
        if item is not None and item.kind == "note":
            self._require_free_name(item)
        return item

    def _begin_notice(self, life: Life, kind: str, notice: Any) -> Item | None:
        about = self.of(notice.ref)
        mref = getattr(notice, "mref", None)
        item = self.take(
            life, lambda item: (item.kind, item.about, item.what) == (kind, about, mref), f"gets {kind} of {about}"
        )
        if item is not None:
            self.expect(item.reason == notice.reason, f"{life} gets {notice}, but it ended with {item.reason}")
            self._require_free_name(item)
        return item

    def _begin_on_terminated(self, life: Life, ref: Any, cause: BaseException | None) -> Item | None:
        self._require_no_order(life, "on_terminated")
        about = self.of(ref)
        item = self.take(life, lambda item: (item.kind, item.about) == ("terminated", about), f"hears of {about}")
        if item is not None:
            self.expect(item.reason and item.reason.cause is cause, f"{life} hears of {ref} with {cause!r}")
            self._require_free_name(item)
        return item

    def _require_no_order(self, life: Life, name: str) -> None:
        self.expect(life.phase is Phase.RUNNING, f"{name} of {life}")
        self.expect(not life.is_blocked, f"{name} of {life}, before {[*life.orders, *life.failures]}")

    def _require_free_name(self, item: Item) -> None:
        """Names are unregistered before watchers are told."""
        about = item.about
        assert about is not None
        self.expect(not about.alive, f"{about} is told to have ended")
        self.expect(self._find(about.ref.path) != about.ref, f"{about} has ended and has its name still")

    def _begin_pre_restart(self, life: Life, cause: BaseException | None) -> None:
        asked: list[BaseException | None] = [*life.orders.get("restart", []), *life.doubtful_restarts]
        if life.phase is Phase.LEAVING and life.owes_pre_restart:
            asked.append(life.restart_cause)
        else:
            self.expect(life.phase is Phase.RUNNING, f"pre_restart of {life}")
            life.back_at = self.now()
        self.expect(any(one is cause for one in asked), f"pre_restart({cause!r}) of {life}, asked for: {asked}")
        self.release(life)
        self.press(life)
        life.phase = Phase.LEAVING
        life.owes_pre_restart = False

    def _begin_pre_stop(self, life: Life) -> None:
        self.expect(life.phase in (Phase.RUNNING, Phase.STARTING), f"pre_stop of {life}")
        self.expect(self.is_called_off(life), f"pre_stop of {life}, which nobody asked for")
        self.expect("kill" not in life.orders, f"pre_stop of {life}, which is killed")
        if self.stop_has_its_turn(life):
            life.orders.setdefault("stop", [])
        life.phase = Phase.STOPPING
        self.press(life)

    def _begin_post_stop(self, life: Life) -> None:
        self.expect(life.post_stopped != life.instance, f"post_stop of {life}, once more")
        self.expect(not any(child.alive for child in life.children), f"post_stop of {life} before its children's")
        if life.phase is Phase.LEAVING:
            called_off = self.is_called_off(life) or self.may_be_forced(life)
            self.expect(not life.owes_pre_restart or called_off, f"post_stop of {life} without pre_restart")
        elif life.start_broken and self._start_is_broken_off(life):
            life.phase = Phase.LEAVING
            life.back_at = self.now()
        elif life.phase is not Phase.STOPPING:
            self.expect(self.is_called_off(life), f"post_stop of {life}, which nobody asked for")
            orderly = life.phase is Phase.RUNNING and not self.has_failed(life) and not self.may_be_forced(life)
            self.expect(not orderly, f"post_stop of {life} without pre_stop")
            life.phase = Phase.STOPPING
        life.post_stopped = life.instance

    # -- their ends

    def ends(self, life: Life, hook: Hook, how: str, result: Any = None) -> None:
        """A hook or handler has `"returned"`, `"stopped"`, `"raised"`, or is `"broken"`: cancelled, by the runtime."""
        if life.in_hand is not hook:
            return  # it was given up, and goes on for nobody
        life.in_hand = None
        self.expect(how != "broken" or self.may_be_forced(life), f"{hook.name} of {life} was cancelled")
        well = how in ("returned", "stopped")
        self.count(hook.item, "failed" if not well else "handled or failed" if hook.defiant else "handled")
        if how == "raised" and hook.name not in HARMLESS:
            life.raised = result
        elif how == "broken" and hook.name in START_HOOKS:
            life.start_broken = True
        elif how == "stopped":
            self.stop(life)
        if hook.name == "snapshot":
            life.kept = result if well else None
        elif hook.name == "post_start" and well:
            life.phase = Phase.RUNNING
            self.relax(life)
        elif hook.name == "post_stop" and life.phase is Phase.LEAVING:
            life.phase = Phase.RESTING

    # -- quiet

    def rests(self, ledger: Ledger) -> None:
        """Nothing goes on: whatever was asked for has been done, and every message is accounted for."""
        for life in self.lives:
            letters = [item.what for item in life.queue if item.kind == "message"]
            if life.alive:
                self._require_quiet(life, letters)
            else:
                self.expect(not letters, f"{letters} to {life} were neither handled nor dead letters")
        self._compare(ledger)

    def _require_quiet(self, life: Life, letters: list[Any]) -> None:
        if life.phase is Phase.RESTING:
            self.expect(self.now() <= life.back_at + EPSILON, f"{life} was to be back at {life.back_at:g} s")
            self.expect(not letters, f"{life} rests, with {letters}")
            self.expect(life.ref.state is State.RESTARTING, f"{life} is {life.ref.state}")
        else:
            due = [item for item in life.queue if not self.is_unseen(life, item)]
            self.expect(life.phase is Phase.RUNNING, f"{life} is stranded: {life.ref.history}")
            self.expect(not due, f"{life} has not got {due}")
            self.expect(life.ref.state is State.RUNNING, f"{life} is {life.ref.state}")
        self.expect(self._find(life.ref.path) == life.ref, f"{life} is not found by its path")
        left = [*life.orders, *life.failures, *map(str, life.escalated)]
        self.expect(not left, f"{life} was asked for what was not done: {left}")
        life.doubtful_failures.clear()
        life.doubtful_restarts.clear()

    def _compare(self, ledger: Ledger) -> None:
        tally = self.tally
        most_failed = tally["failed"] + tally["handled or failed"]
        same = (
            ledger.sent == tally["sent"]
            and ledger.dead_lettered == tally["dead_lettered"]
            and tally["failed"] <= ledger.failed <= most_failed
            and ledger.handled + ledger.failed == tally["handled"] + most_failed
        )
        self.expect(same, f"the ledger says {ledger}, where it should be {dict(tally)}")


MANY = 12
"""Actors in one world; there are no more spawns then."""


class World:
    """The system, the model, and the hands of the test in both."""

    def __init__(self, system: ActorSystem, now: Callable[[], float]) -> None:
        self.system = system
        self.model = Model(now, system.actor)
        self.gate = Event()
        # While this is set, nobody hangs.
        self.peace = False
        self._numbers = count(1)
        self._lives: dict[int, Life] = {}
        self._spawns = False
        system.observers.add(self)

    def open_gate(self) -> None:
        self.gate.set()
        self.gate = Event()

    # -- what an observer hears

    def actor_started(self, ref: Any) -> None:
        life = self.model.of(ref)
        self.model.expect(life.phase is Phase.RUNNING, f"{life} is said to run")

    def actor_stopped(self, ref: Any, reason: ExitReason) -> None:
        self.model.ended(self.model.of(ref), reason)

    def dead_letter(self, ref: Any, message: Any, sender: Any, why: str) -> None:
        if isinstance(message, Letter):
            self.model.dead_letter(self.model.of(ref), message)

    # -- what is done, by the test or by an actor; the model hears of it first, for it may have effects at once

    def perform(self, me: Member | None, op: Op) -> None:
        verb, *rest = op
        model = self.model
        if verb == "spawn":
            self.spawn(None if me is None else me.life, *rest)
            return
        if not model.lives:
            return
        other = self.life(rest[0])
        if verb == "tell":
            self.tell(other, *rest[1:])
        elif verb in ("stop", "finish", "kill", "restart", "fail"):
            self._order(verb, other)
        elif me is not None and verb in ("trap", "untrap"):
            me.life.traps = me.ctx.trap_exit = verb == "trap"
        elif me is not None and verb in ("unwatch", "unlink"):
            peers = model.peers(me.life) or [other]
            self._bind(me, verb, peers[rest[0] % len(peers)])
        elif me is not None and other is not me.life:
            self._bind(me, verb, other)

    def life(self, number: int) -> Life:
        """Whoever has that number: one of the living, one of those among them who have bonds, or one of all."""
        among = [life for life in self.model.lives if life.alive]
        if number >= BONDED:
            among = [life for life in among if self.model.is_bonded(life)]
        if number >= ANYBODY or not among:
            among = self.model.lives
        return among[number % len(among)]

    def spawn(self, parent: Life | None, plan: Plan, name: str | None) -> None:
        if len(self.model.lives) >= MANY:
            return
        key = next(self._numbers)
        if parent is None and plan.directive is Directive.ESCALATE:
            plan = replace(plan, directive=Directive.RESTART)  # or it would end the system
        taken = self.model.is_taken(name, parent)
        supervision = Supervision(
            lambda cause: self.model.decides(self._lives[key], cause),
            max_restarts=plan.limit,
            within=WITHIN,
            backoff=Backoff(min=plan.backoff, max=plan.backoff) if plan.backoff else None,
            mailbox=OnRestart.CLEAR if plan.clears else OnRestart.KEEP,
        )
        above = None if parent is None else parent.ref
        self._spawns = True
        try:
            ref = self.system.spawn(_kind(plan), self, key, plan, parent=above, name=name, supervision=supervision)
        except NameTaken:
            self.model.expect(taken, f"the name {name} is not taken")
        except GreenroomError as refused:
            steady = parent is None or (parent.phase is Phase.RUNNING and not parent.may_leave())
            called_off = parent is not None and self.model.is_called_off(parent)
            self.model.expect(not steady or called_off, f"a spawn under {parent} is refused: {refused!r}")
        else:
            self.model.expect(not taken, f"the name {name} is given twice")
            self._lives[key] = self.model.spawned(key, ref, plan, parent)
        finally:
            self._spawns = False

    def life_of(self, key: int) -> Life:
        """Whose instance is being made."""
        self.model.expect(not self._spawns, "an instance is made inside of spawn()")
        return self._lives[key]

    def tell(self, other: Life, act: Act) -> None:
        letter = Letter(next(self._numbers), act)
        self.model.told(other, letter)
        other.ref.tell(letter)

    def _order(self, verb: str, other: Life) -> None:
        model, ref = self.model, other.ref
        if verb == "stop":
            model.stop(other)
            ref.stop()
        elif verb == "finish":
            model.stop_in_order(other)
            ref.stop(after_queued=True)
        elif verb == "kill":
            model.kill(other)
            ref.kill()
        else:
            cause = Boom(f"{verb} {next(self._numbers)}")
            getattr(model, verb)(other, cause)
            getattr(ref, verb)(cause)

    def _bind(self, me: Member, verb: str, other: Life) -> None:
        model, ctx, ref = self.model, me.ctx, other.ref
        if verb in ("watch", "note"):
            note = Letter(next(self._numbers), Act()) if verb == "note" else None
            model.watch(me.life, other, note)
            ctx.watch(ref, note)
        elif verb == "monitor":
            model.monitor(me.life, other, ctx.monitor(ref))
        elif verb in ("demonitor", "leave"):
            mrefs = me.life.made_monitors
            if mrefs:
                mref = mrefs[other.key % len(mrefs)]
                model.demonitor(me.life, mref, verb == "demonitor")
                ctx.demonitor(mref, flush=verb == "demonitor")
        else:
            getattr(model, verb)(me.life, other)
            getattr(ctx, verb)(ref)

    def trouble(self, then: str) -> BaseException:
        return (Panic if then == "panic" else Boom)(f"{then} {next(self._numbers)}")


class Member(Actor[Any, Any]):
    """Without `on_terminated`: whomever it watches takes it along."""

    def __init__(self, world: World, key: int, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.played: set[str] = set()
        self.life = world.life_of(key)
        world.model.made(self.life)
        self.number = self.life.instance
        act = plan.act("init", self.number)
        if act.then in ("raise", "panic"):
            cause = world.trouble(act.then)
            world.model.made_badly(self.life, cause)
            raise cause

    def act(self, name: str) -> Act:
        """What to do in a hook, the first time: one that watches again whoever has ended would hear of it for ever."""
        if name in self.played:
            return Act()
        self.played.add(name)
        return self.plan.act(name, self.number)

    def scene(self, name: str, what: Any = None) -> Generator[tuple[Act, Hook] | None, None, Any]:
        """What happens in a hook or handler; it yields where an async one suspends."""
        world, model, life = self.world, self.world.model, self.life
        act = what.act if isinstance(what, Letter) else self.act(name)
        hook = model.begins(life, self.number, name, what)
        try:
            yield None
            for op in act.do:
                world.perform(self, op)
                yield None
            if act.hangs and not world.peace:
                yield act, hook
            if act.then in ("raise", "panic"):
                raise world.trouble(act.then)
        except GeneratorExit:
            raise
        except asyncio.CancelledError:
            model.ends(life, hook, "broken")
            raise
        except BaseException as cause:
            model.ends(life, hook, "raised", cause)
            raise
        stops = act.then == "stop" and name == "receive"
        model.ends(life, hook, "stopped" if stops else "returned", self.number)
        return Behaviors.stopped if stops else self.number

    def play(self, name: str, what: Any = None) -> Any:
        scene = self.scene(name, what)
        try:
            while True:
                next(scene)
        except StopIteration as end:
            return end.value

    def receive(self, message: Any) -> Any:
        return self.play("receive", message)

    def pre_start(self) -> Any:
        return self.play("pre_start")

    def post_start(self) -> Any:
        return self.play("post_start")

    def pre_stop(self) -> Any:
        return self.play("pre_stop")

    def post_stop(self) -> Any:
        return self.play("post_stop")

    def pre_restart(self, cause: BaseException | None) -> Any:
        return self.play("pre_restart", cause)

    def post_restart(self) -> Any:
        return self.play("post_restart")

    def snapshot(self) -> Any:
        return self.play("snapshot")

    def restore(self, state: Any) -> Any:
        return self.play("restore", state)


class Hearer(Member):
    def on_terminated(self, ref: Any, cause: BaseException | None) -> Any:
        return self.play("on_terminated", (ref, cause))


class Suspending:
    """Every hook and handler really suspends."""

    async def play(self, name: str, what: Any = None) -> Any:
        me: Any = self
        scene = me.scene(name, what)
        try:
            wish = next(scene)
            while True:
                try:
                    await (asyncio.sleep(0) if wish is None else self.hang(*wish))
                except asyncio.CancelledError as cancelled:
                    wish = scene.throw(cancelled)
                else:
                    wish = next(scene)
        except StopIteration as end:
            return end.value

    async def hang(self, act: Act, hook: Hook) -> None:
        me: Any = self
        gate = me.world.gate
        while True:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                if act.hangs == "weakly":
                    raise
                hook.defiant = True
                if act.hangs == "once":
                    return
            else:
                return


class SuspendingMember(Suspending, Member):
    pass


class SuspendingHearer(Suspending, Hearer):
    pass


def _kind(plan: Plan) -> type[Member]:
    if plan.pact:
        return SuspendingMember if plan.suspends else Member
    return SuspendingHearer if plan.suspends else Hearer
