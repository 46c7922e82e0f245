"""The lives of the actors of one loop, from spawn to tombstone: what a loop's host is for.

An actor without hooks, as most are, begins and ends here without a detour. A hook that returns nothing is a plain call.
All else goes by the table of `machine`, whose actions are in `starting`, `stopping` and `restarting`.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from asyncio import CancelledError
from functools import partial
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from greenroom._core.build import COMPILED
from greenroom._core.flags import INTERCEPTED, MAY_NOT_ASK, OFFLOADED
from greenroom._core.mailbox.cell import ENDED, Cell
from greenroom._core.mailbox.mailbox import Mailbox
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.host import HostBase
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import SAME, Behavior, become_next
from greenroom.actor.api.behavior import STOPPED as STOPPED_BEHAVIOR
from greenroom.actor.api.context import Context
from greenroom.actor.api.loopcontext import LoopContext
from greenroom.actor.failure import decision
from greenroom.actor.failure.decision import FailOrder
from greenroom.actor.failure.reports import is_refusal, report_undecided
from greenroom.actor.life import machine, restarting, starting, stopping
from greenroom.actor.life.hooks import (
    attempt,
    begin,
    call_hook,
    deliver_notice,
    hook_raised,
    inspect,
    rest_of_hook,
    rest_of_signal,
)
from greenroom.actor.life.machine import (
    BREAK_OFF,
    CLOSE,
    KILL,
    SHUT_DOWN,
    START,
    STOP,
    STOP_ITSELF,
    Action,
    Event,
)
from greenroom.actor.life.restarting import RestartOrder
from greenroom.actor.life.spec import BEHAVIOR, CLASS, HANDLER, args_of, class_info_of, spec_of
from greenroom.actor.life.starting import HALT, POST_START, PRE_START
from greenroom.actor.life.stopping import POST_STOP, PRE_STOP
from greenroom.actor.messaging.address import direct
from greenroom.actor.messaging.ref import ActorRef, Alias
from greenroom.actor.messaging.signals import ChildTerminated
from greenroom.actor.offload.executor import OffloadedContext
from greenroom.actor.records.record import (
    TRACKED,
    ActorRecord,
    ChildList,
    Settings,
    Tombstone,
    tombstone_of,
    track_actor,
    untrack_actor,
    untrack_instance,
)
from greenroom.actor.records.restartstate import incarnation_of
from greenroom.actor.records.states import (
    COMES_BACK,
    GOES_DOWN,
    RUNS_POST_STOP,
    STATES,
    WAITS_FOR_CHILDREN,
    Stage,
    State,
)
from greenroom.actor.relations import tell_watchers, unwatch
from greenroom.errors import ActorTerminated, RefGone, SystemStopped
from greenroom.exits import FORCED, KILLED, NORMAL, SHUTDOWN, ExitKind, ExitReason, ends_system
from greenroom.lanes import MailboxConfig
from greenroom.tracebacks import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import TypeVar

    from greenroom._core.behavior import BehaviorBase
    from greenroom._core.mailbox.cell import Order
    from greenroom.actor.failure.siblings import Siblings
    from greenroom.actor.life.hooks import Procedure
    from greenroom.actor.life.spawnsite import SpawnSite
    from greenroom.actor.life.spec import ActorClassInfo, ActorSpec
    from greenroom.actor.messaging.address import Address
    from greenroom.actor.messaging.drain import Discards, Drain
    from greenroom.actor.messaging.question import Question
    from greenroom.actor.messaging.signals import Signal
    from greenroom.actor.records.restartstate import RestartState
    from greenroom.system.system import ActorSystem

    T = TypeVar("T")

CREATED = int(Stage.CREATED)
STARTING = int(Stage.STARTING)
RUNNING = int(Stage.RUNNING)
STOPPING = int(Stage.STOPPING)
STOPPED = int(Stage.STOPPED)
TERMINATED = int(Stage.TERMINATED)
RESTING = int(Stage.RESTING)
ESCALATED = int(Stage.ESCALATED)
STOPPING_POST_STOP = int(Stage.STOPPING_POST_STOP)

# What stands between the user's line and `Spawner.spawn`, if the spawn is a context's.
BY_CONTEXT = getattr(Context.spawn, "__code__", None)
BY_OFFLOADED = getattr(OffloadedContext.spawn, "__code__", None)
BY_LOOP_CONTEXT = getattr(LoopContext.spawn, "__code__", None)  # compiled, it has none
NO_MORE_CHILDREN = int(Stage.RESTARTING_CHILDREN)
"""From this stage on, an actor's children are being stopped, or are gone."""
STOP_IN_ORDER = object()
"""The notice of a stop that waits for what is queued before it."""
HISTORY_KEPT = 1000
"""How many states of an actor its history keeps: those of some two hundred restarts."""
_NO_KWARGS: dict[str, object] = {}
_ENDINGS = (STOP, STOP_ITSELF, SHUT_DOWN, KILL, CLOSE, BREAK_OFF)
_START_ORDER = START.what
_CLOSE_ORDER = CLOSE.what
_REASONS = (None, NORMAL, NORMAL, SHUTDOWN, KILLED, None, None)
"""By the number of an order: the reason with which it ends an actor, if it does."""

_DO: dict[Action, Callable[..., object]] = {
    Action.MAKE: starting.make,
    Action.PRE_START: starting.pre_start,
    Action.TAKE_UP: starting.take_up,
    Action.POST_START: starting.post_start,
    Action.RUN: starting.run,
    Action.HOLD: restarting.hold,
    Action.RELEASE: restarting.release,
    Action.CLOSE: stopping.close,
    Action.PRE_STOP: stopping.pre_stop,
    Action.DRAIN: stopping.drain_all,
    Action.DRAIN_MESSAGES: stopping.drain_messages,
    Action.END_CHILDREN: stopping.end_children,
    Action.KILL_CHILDREN: stopping.kill_children,
    Action.POST_STOP: stopping.post_stop,
    Action.FINISH: stopping.finish,
    Action.PRE_RESTART: restarting.pre_restart,
    Action.DISCARD: restarting.discard_instance,
    Action.REST: restarting.rest,
    Action.RENEW: restarting.renew,
}


class _Row:
    """A row of the table, with its actions as functions."""

    __slots__ = ("actions", "stage", "then")

    def __init__(self, row: machine.Row) -> None:
        self.stage = int(row.stage)
        self.actions = tuple(_DO[action] for action in row.actions)
        self.then = -1 if row.then is None else int(row.then)


# By stage, then by event; None where an event means nothing.
_ROWS: list[list[_Row | None]] = [
    [_Row(machine.TABLE[stage, event]) if (stage, event) in machine.TABLE else None for event in Event]
    for stage in Stage
]
# What users see of a stage; -1 where it stays what it was.
_STATE_OF = [-1 if stage.state is None else stage.state.code for stage in Stage]
# Where the quick ways, `_start` and `_end`, leave it to the table: once the actor is made, after `pre_stop`, and after
# `post_stop`.
_START = _Row(machine.TABLE[Stage.CREATED, Event.START])
_MADE = _START.actions.index(starting.make) + 1
_STOP = _Row(machine.TABLE[Stage.RUNNING, Event.STOP])
_LEFT = _STOP.actions.index(stopping.pre_stop) + 1
_ALONE = _Row(machine.TABLE[Stage.STOPPING_CHILDREN, Event.ALONE])
_DONE = _ALONE.actions.index(stopping.post_stop) + 1


class Lifecycle(HostBase):
    """The host of one loop: starts, restarts and ends its actors."""

    def __init__(self, system: ActorSystem, names: dict[str, ActorRecord] | None = None) -> None:
        self.system = system
        self.loop: Loop = None  # type: ignore[assignment]
        # What ties the loop to asyncio; the system sets it.
        self.poller: Any = None
        # Cells whose refs were pickled, for as long as such a ref exists.
        self.pickled: WeakValueDictionary[int, Cell] = WeakValueDictionary()
        # What actors have that are spawned without settings of their own.
        self.settings = Settings(system.config.supervision, system.config.env)
        # The actors that have no parent.
        self.top = ChildList()
        self.top.share_names({} if names is None else names)  # with those of the system's other loops
        # In a system of several loops: the order in which they were spawned, counted over all loops.
        self._places: dict[Cell, int] | None = None
        # The cell of the root behavior, with which the system ends.
        self.root: Cell | None = None
        # Whether nothing may be spawned any more.
        self.closed = False
        self.terminated = 0
        # Those that wait: to be started again, or for the world outside.
        self.resting: dict[Cell, None] = {}
        # Parents, or None for the top, some of whose children are restarted together.
        self.restarting: dict[Address | None, Siblings] = {}
        # What the system's end discards; None while it goes on.
        self.discards: Discards | None = None
        # Those that had to be forced to end.
        self.forced = stopping.ForcedActors()
        # What actors have that are spawned without a mailbox of their own.
        self.mailbox = system.config.mailbox
        self._keeps_history = system.config.history
        # Whether the system has a say in where the code of actors runs that were spawned without a dispatcher.
        self.has_placement = bool(system.config.placement)
        self.spawned = 0
        # As in `number_top`.
        self._counter: Iterator[int] = count()
        # The line that spawned last: in a loop it is the same over and over, and a note of its own for each actor would
        # be one more object for the garbage collector to count.
        self._site: SpawnSite | None = None
        # And the class that it spawned, if it gave no keyword arguments.
        self._spec: ActorSpec | None = None

    def serve(self, loop: Loop) -> None:
        self.loop = loop

    def is_foreign(self) -> bool:
        if COMPILED:
            foreign: bool = thread_ident() != self.loop.runq.thread
        else:
            foreign = get_ident() != self.loop.runq.thread
        return foreign

    def call(self, what: str, action: Callable[[], T]) -> T:
        return self.system._call_at(self, what, action)

    def log_fields(self, cell: Cell) -> dict[str, object]:
        return {"actor": cell.name(), "actor_id": cell.id, "system": self.system.name}

    # -- beginnings

    def spawn(
        self,
        factory: object,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        parent: ActorRef | None,
        name: str | None,
        mailbox: MailboxConfig | None,
        settings: Settings | None,
        drain: Drain | None,
        dispatcher: str | None = None,
        site: SpawnSite | None = None,
    ) -> ActorRef:
        """Bring up an actor; nothing of it runs before its loop's next visit. In eleven steps:

        1 what was given is understood, also where its code is to run; 2 the system takes actors, 3 so does the parent,
        4 and the name is free: all that can be refused is refused by now, but for a full table, and nothing has changed
        yet. 5 A cell with its mailbox 6 gets a slot and an id, 7 a ref, 8 a record, which has its parent's settings
        unless the spawn has its own. 9 It stands among its siblings. 10 It is ordered to start; 11 the ref is returned.
        """
        spec = self._spec
        if spec is None or spec.factory is not factory or kwargs:
            spec = spec_of(factory, args, kwargs)
            if spec.factory is not factory:
                args = args_of(factory, args)
            elif spec.kind == CLASS and not kwargs:
                self._spec = spec
        if self.closed:
            raise SystemStopped(self.system.name)
        if parent is None:
            child_list = self.top
        else:
            left = parent._cell.record
            if not isinstance(left, ActorRecord):
                raise ActorTerminated(parent, left.reason)
            above: ActorRecord = left
            if above.stage >= NO_MORE_CHILDREN:
                raise ActorTerminated(parent, "its children are being stopped")
            child_list = self._new_child_list(above) if above.child_list is None else above.child_list
            if settings is None and above.extras is not None:
                settings = above.settings()
        if name is not None:
            child_list.require_free(name, parent)
        executor = None
        if dispatcher is not None or self.has_placement:
            dispatcher, executor = self.system._executor_for(self, dispatcher, spec, args, name, parent)
        if site is None and (args or spec.kwargs or not spec.is_proven()):
            by_context = parent is not None
            if COMPILED:
                site = caller(by_context, self._site, BY_CONTEXT, BY_OFFLOADED)
            else:
                site = site_of_caller(by_context, 3, self._site)
            self._site = site
        cell = self.loop.spawn(None, site, self.mailbox if mailbox is None else mailbox)
        try:
            ref = self._new_ref(cell, spec.label if name is None else name, parent)
            if executor is not None:
                record = executor.new_context()
                record.ensure_extras().executor = executor
                cell.flags |= OFFLOADED
                if executor.is_remote:  # the quick way into its mailbox is shut: each message is looked at first
                    cell.flags |= INTERCEPTED
                    cell.limit = 0
            else:
                record = new_object(LoopContext) if COMPILED else LoopContext()
            record.cell = cell
            record.spec = spec
            record.args = args
            if settings is not None and settings is not self.settings:
                record.ensure_extras().settings = settings
            if drain is not None:
                record.ensure_extras().drain = drain
            if dispatcher is not None:
                record.ensure_extras().dispatcher = dispatcher
            if self._keeps_history:
                record.ensure_extras().history = [State.CREATED]
            cell.ref = ref
            cell.record = record
            child_list.add(record, name)
            cell.order(START)
        except BaseException:  # there is no memory for it
            self._undo_spawn(cell, child_list, name)
            raise
        if self._places is not None and parent is None:
            self._places[cell] = next(self._counter)
        if COMPILED and self.loop.table.counted > TRACKED:
            untrack_actor(record)
        self.spawned += 1
        return ref

    def spawn_child(self, parent: Cell, factory: Any, args: tuple[Any, ...]) -> ActorRef:
        return self.spawn(factory, args, _NO_KWARGS, parent.shown(), None, None, None, None)  # type: ignore[arg-type]

    def number_top(self, counter: Iterator[int]) -> None:
        """From now on, number the actors at the top by `counter`, which all loops share."""
        self._counter = counter
        self._places = {record.cell: next(counter) for record in self.top.records()}

    def _undo_spawn(self, cell: Cell, child_list: ChildList, name: str | None) -> None:
        record, cell.record = cell.record, None
        if record is not None and child_list.count > 0 and child_list.youngest() is record:
            child_list.remove(record, name)
        self.loop.retire(cell)
        cell.ref = None

    def prepare_meta(self, ref: ActorRef, label: str, own_code: bool) -> Alias:
        """Make a fresh actor a meta-process: it waits for `start_meta`, and its ref is an alias."""
        cell = ref._cell
        cell.withdraw((START,))
        cell.hold()
        alias = Alias.__new__(Alias)
        direct(alias, cell, ref._name if type(ref._name) is str else (label,), ref._parent)
        cell.ref = alias
        if own_code:
            cell.flags |= MAY_NOT_ASK
        return alias

    def start_meta(self, cell: Cell) -> bool:
        """Start a prepared meta-process; False if it has ended meanwhile, as its parent has."""
        record = cell.record
        if not isinstance(record, ActorRecord) or record.stage != CREATED:
            return False
        cell.order(START)
        cell.release()
        return True

    def undo_meta(self, cell: Cell) -> None:
        record = cell.record
        if not isinstance(record, ActorRecord) or record.stage != CREATED:
            return
        if record.child_list is not None and record.child_list.count > 0:
            self.request_end(cell, KILLED)  # what it has spawned has to end first
        else:
            if COMPILED and not is_tracked(record):
                track_actor(record)
            parent = cell.ref._parent
            (self.top if parent is None else parent._cell.record.child_list).remove(record, cell.ref._name)
            cell.put_record(tombstone_of(NORMAL, cell.ref._name, parent, None))
            self.loop.retire(cell)
            cell.forget_actor()
            self.spawned -= 1

    def _new_child_list(self, record: ActorRecord) -> ChildList:
        if COMPILED:
            child_list: ChildList = new_object(ChildList)
            child_list.set_up()
        else:
            child_list = ChildList()
        record.child_list = child_list
        if COMPILED and not is_tracked(record):
            untrack(child_list)
        return child_list

    # -- the way through the table

    def carry_out(self, cell: Cell, what: int) -> object:
        if what == _START_ORDER:
            return self._start(cell)
        reason = _REASONS[what]
        if reason is not None:
            return self._end(cell, reason)
        record = cell.record
        if not isinstance(record, ActorRecord):
            return None
        return self.advance(cell, record, Event.ALONE if what == _CLOSE_ORDER else Event.BROKEN_OFF)

    def may(self, record: ActorRecord, event: int) -> bool:
        return _ROWS[record.stage][event] is not None

    def advance(self, cell: Cell, record: ActorRecord, event: int) -> object:
        """Carry out the row of `event`; what is left if a hook has to be awaited, as a coroutine."""
        row = _ROWS[record.stage][event]
        if row is None:
            return None
        self.enter(record, row.stage)
        return self._go_on(cell, record, row, 0)

    def _go_on(self, cell: Cell, record: ActorRecord, row: _Row, position: int) -> object:
        waiting = self._carry_on(cell, record, row, position)
        return None if waiting is None else self._go_on_after(waiting[0], cell, record, waiting[1], waiting[2])

    def _go_on_after(self, procedure: Procedure, cell: Cell, record: ActorRecord, row: _Row, position: int) -> object:
        """Go on with `row` after `procedure`: what is left if that has to wait, as a coroutine."""
        waiting = procedure, row, position
        return begin(_await(self, cell, record, waiting), record if GOES_DOWN[record.stage] else None)

    def _carry_on(self, cell: Cell, record: ActorRecord, row: _Row, position: int) -> Any:
        """Carry out `row` from `position` on, and the rows that follow; the action that waits, and where to go on."""
        while True:
            while position < len(row.actions):
                outcome = row.actions[position](self, cell, record)
                position += 1
                if outcome is not None:
                    return None if outcome is HALT else (outcome, row, position)
            if row.then < 0 or cell.record is not record:
                return None  # that is all, or it has been forced to end meanwhile
            following = _ROWS[record.stage][row.then]
            if following is None:
                return None
            row = following
            self.enter(record, row.stage)
            position = 0

    def enter(self, record: ActorRecord, stage: int) -> None:
        state = stage if stage <= TERMINATED else _STATE_OF[stage]  # they begin with the states
        extras = record.extras
        if extras is not None:
            if extras.start_deadline is not None:
                extras.start_deadline.cancel()
                extras.start_deadline = None
            if extras.history is not None and state not in (-1, record.state):
                _note(extras.history, record.state, state)
        record.stage = stage
        if state >= 0:
            record.state = state

    def _start(self, cell: Cell) -> object:
        record = cell.record
        if record.stage != CREATED:
            return None
        spec = record.spec
        if spec.kind == BEHAVIOR or (record.extras is not None and record.extras.executor is not None):
            return self.advance(cell, record, Event.START)
        self.enter(record, STARTING)
        if spec.kind == HANDLER:
            cell.put_code(spec.factory, record)
        else:
            actor = spec.factory(*record.args, **spec.kwargs) if spec.kwargs else spec.factory(*record.args)
            class_info = spec.class_info
            if class_info is None or type(actor) is not class_info.actor_class:  # its `__new__` has its own mind
                starting.install_actor(record, actor)
                class_info = class_info_of(type(actor))
            else:
                actor.ctx = record
                cell.put_code(class_info.handler, actor)
                if not record.args and spec is class_info.spec:
                    class_info.proven = True
            if COMPILED:
                untrack_instance(record, actor)
            if not class_info.starts_plainly:
                return self._start_with_hooks(cell, record, class_info)
        self._run(cell, record)
        return None

    def _run(self, cell: Cell, record: ActorRecord) -> None:
        self.enter(record, RUNNING)
        if record.extras is not None or self.loop.hooks.actor_started:
            starting.run(self, cell, record)

    def _end(self, cell: Cell, reason: ExitReason) -> object:
        record = cell.record
        if not isinstance(record, ActorRecord):
            return None
        extras = record.extras
        is_plain = (
            (record.stage == RUNNING and (extras is None or extras.can_end_at_once()))
            or (record.stage == CREATED and extras is None)
        ) and (record.reason is None or record.reason is reason)
        if not is_plain or (record.child_list is not None and record.child_list.count > 0):
            return stopping.end(self, cell, record, reason)
        if record.stage == RUNNING:
            class_info = self.class_info_now(cell, record)
            if class_info is not None and not class_info.ends_plainly:
                if extras is None and reason is not KILLED:
                    return self._end_with_hooks(cell, record, class_info, reason)
                return stopping.end(self, cell, record, reason)
            if reason is not KILLED:
                self.enter(record, STOPPING)
        self.finish(cell, record, reason)
        return None

    def _start_with_hooks(self, cell: Cell, record: ActorRecord, class_info: ActorClassInfo) -> object:
        """The quick way through the row of a start, as long as nothing but two hooks happens (P20)."""
        if cell.orders is not None or record.extras is not None:
            return self._go_on(cell, record, _START, _MADE)
        rest = self._call_own_hook(cell, record, class_info, "pre_start", PRE_START, class_info.has_pre_start)
        if rest is not None:
            rest = starting.rest_of_pre_start(self, cell, rest, False)
            return self._go_on_after(rest, cell, record, _START, _MADE + 1)
        if cell.orders is not None or self.closed:  # type: ignore[redundant-expr]  # the hook may have asked for it
            outcome = starting.after_pre_start(self, cell, False)
            return None if outcome is HALT else self._go_on(cell, record, _START, _MADE + 1)
        rest = self._call_own_hook(cell, record, class_info, "post_start", POST_START, class_info.has_post_start)
        if rest is not None:
            return self._go_on_after(rest, cell, record, _START, _MADE + 2)
        self._run(cell, record)
        return None

    def _end_with_hooks(
        self, cell: Cell, record: ActorRecord, class_info: ActorClassInfo, reason: ExitReason
    ) -> object:
        """The quick way through the rows of a stop, as long as nothing but two hooks happens (P20)."""
        record.reason = reason
        self.enter(record, STOPPING)
        cell.close()
        try:
            rest = self._call_own_hook(cell, record, class_info, "pre_stop", PRE_STOP, class_info.has_pre_stop)
        except BaseException as exc:
            hook_raised(record, "pre_stop", exc)
            rest = None
        if rest is not None:
            return self._go_on_after(attempt(record, "pre_stop", rest), cell, record, _STOP, _LEFT)
        if record.extras is not None or record.child_list is not None or cell.queued():
            return self.advance(cell, record, Event.LEFT)
        self.enter(record, STOPPING_POST_STOP)
        try:
            rest = self._call_own_hook(cell, record, class_info, "post_stop", POST_STOP, class_info.has_post_stop)
        except BaseException as exc:
            hook_raised(record, "post_stop", exc)
            rest = None
        if rest is not None:
            return self._go_on_after(attempt(record, "post_stop", rest), cell, record, _ALONE, _DONE)
        self.finish(cell, record, record.reason)
        return None

    # -- hooks

    def class_info_now(self, cell: Cell, record: ActorRecord) -> ActorClassInfo | None:
        """The class of an actor at present, after any `become`; None for a function."""
        spec: ActorSpec = record.spec
        class_info = spec.class_info
        subject = cell.subject
        if class_info is not None and type(subject) is class_info.actor_class:
            return class_info
        return class_info_of(type(subject)) if isinstance(subject, Actor) else None

    def call_hook(self, cell: Cell, record: ActorRecord, name: str, signal: Signal) -> Procedure | None:
        """Call a hook that takes nothing, if the actor has it, then `on_signal`; a procedure if something is left to be
        awaited.
        """
        extras = record.extras
        if extras is None or (extras.executor is None and not extras.behaviors):
            class_info = self.class_info_now(cell, record)
            if class_info is not None:
                return self._call_own_hook(cell, record, class_info, name, signal, name in class_info.hooks)
            if extras is None or extras.on_signal is None:
                return None
        return call_hook(record, name, signal)

    def _call_own_hook(
        self, cell: Cell, record: ActorRecord, class_info: ActorClassInfo, name: str, signal: Signal, has_hook: bool
    ) -> Procedure | None:
        """Call a hook of an actor whose code runs on this loop."""
        actor: Any = cell.subject
        if has_hook:
            result = call_method(actor, name) if COMPILED else getattr(actor, name)()
            if result is not None:
                return rest_of_hook(record, name, signal, result)
        if class_info.has_on_signal:
            result = actor.on_signal(signal)
            if result is not None:
                return rest_of_signal(record, result)
        return None

    def try_hook(self, cell: Cell, record: ActorRecord, name: str, signal: Signal) -> Procedure | None:
        """Call a hook of an actor that is ending: what the hook raises is logged."""
        try:
            rest = self.call_hook(cell, record, name, signal)
        except BaseException as exc:
            hook_raised(record, name, exc)
            return None
        return None if rest is None else attempt(record, name, rest)

    # -- what the loop asks

    def behavior_returned(self, cell: Cell, behavior: BehaviorBase) -> None:
        if behavior is STOPPED_BEHAVIOR:
            self.request_end(cell, NORMAL)
        elif behavior is not SAME:
            become_next(cell, behavior)

    def notice(self, cell: Cell, notice: object) -> object:
        if notice is STOP_IN_ORDER:
            self.request_end(cell, NORMAL)
            return None
        return deliver_notice(cell.record, notice)

    def suspended(self, cell: Cell) -> None:
        record = cell.record
        if not isinstance(record, ActorRecord):
            return
        if record.stage == STARTING:
            stopping.limit_start(self, cell, record)
        if GOES_DOWN[record.stage] or self._is_hurried(cell):
            self.set_deadline(cell, record)

    def _is_hurried(self, cell: Cell) -> bool:
        """Whether an order waits, other than the actor's own to stop after the message in hand."""
        return any(order != STOP_ITSELF for order in cell.waiting_orders()) and self.is_told_to_change(cell)

    def refuses(self, cell: Cell, message: object, sender: object, cause: BaseException) -> bool:
        return is_refusal(cell, message, sender, cause)

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        if ends_system(cause):
            self.system.fail(cause)
        record = cell.record
        if not isinstance(record, ActorRecord):
            return
        extras = record.ensure_extras()
        asked_for = extras.deadline is not None and extras.deadline.cancelled and not isinstance(message, FailOrder)
        if asked_for and isinstance(cause, CancelledError):
            return  # an order to end waits
        if GOES_DOWN[record.stage]:
            return  # its ending goes on
        if any(isinstance(order, FailOrder) and order.is_reason_for(cause) for order in cell.waiting_orders()):
            return  # the child's own failure is what it fails with, next
        fold(cause)
        decision.decide_on_failure(self, cell, record, message, cause)

    def lives_on(self, cell: Cell) -> bool:
        """Whether the actor goes on or is restarted, as far as is decided."""
        record = cell.record
        if self.closed or not isinstance(record, ActorRecord):
            return False
        if COMES_BACK[record.stage] or record.stage == RESTING or record.stage == ESCALATED:
            return True
        reason = self.reason_of(cell)
        if reason is None:
            return not GOES_DOWN[record.stage]
        is_supervised = record.extras is not None and record.extras.restart_state is not None
        return is_supervised and stopping.is_to_come_back(self, record, reason)

    def waits_for_time(self) -> bool:
        return any(cell.queued() for cell in self.resting)

    def place_at_top(self, cell: Cell) -> int:
        """The actor's place in the order of spawns at the top, over all loops; -1 if there is one loop."""
        return -1 if self._places is None else self._places.get(cell, -1)

    # -- orders

    def is_told_to_stop(self, cell: Cell) -> bool:
        return any(order in _ENDINGS for order in cell.waiting_orders())

    def is_told_to_change(self, cell: Cell) -> bool:
        return self.is_told_to_stop(cell) or any(
            isinstance(order, FailOrder | RestartOrder) for order in cell.waiting_orders()
        )

    def forget_stops(self, cell: Cell) -> None:
        """Withdraw the stops of an actor that failed before they acted, and is restarted."""
        cell.withdraw((STOP, STOP_ITSELF, SHUT_DOWN))

    def reason_of(self, cell: Cell) -> ExitReason | None:
        """How an actor ended, or will. From any thread; from other threads than its own, only how it ended."""
        left = cell.peek_record()
        if type(left) is Tombstone:
            reason: ExitReason = left.reason
            return reason
        if left is None or cell.is_foreign():
            return None
        if left.reason is not None:
            decided: ExitReason = left.reason
            return decided
        waiting = cell.waiting_orders()
        is_stopped = STOP in waiting or STOP_ITSELF in waiting
        told = NORMAL if is_stopped else SHUTDOWN if SHUT_DOWN in waiting else None
        return FORCED if told is not None and left.extras is not None and left.extras.forced else told

    def request_end(self, cell: Cell, reason: ExitReason) -> None:
        """End an actor after the message in hand. From any thread."""
        if cell.is_foreign():
            self.loop.inbound.post(cell, partial(self.request_end, cell, reason))
            return
        record = cell.record
        if not isinstance(record, ActorRecord):
            return
        if reason is KILLED:
            if not RUNS_POST_STOP[record.stage]:
                record.reason = KILLED
            if cell.orders is not None:
                self._overtake(cell)
            cell.order(KILL)
        else:
            cell.order(STOP if reason is NORMAL else SHUT_DOWN)
        if cell.task is not None:
            if reason is not KILLED:
                self.set_deadline(cell, record)
            else:
                stopping.cancel_handler(self, cell, record.ensure_extras())

    def request_own_end(self, cell: Cell) -> None:
        """End the caller after the message in hand, without a deadline for that. From any thread."""
        if cell.is_foreign():
            self.loop.inbound.post(cell, partial(self.request_own_end, cell))
            return
        record = cell.record
        if isinstance(record, ActorRecord) and record.stage == RUNNING:
            cell.order(STOP_ITSELF)
        else:  # a hook asks, and no message is in hand
            self.request_end(cell, NORMAL)

    def _overtake(self, cell: Cell) -> None:
        ends = (STOP, STOP_ITSELF, SHUT_DOWN)
        waiting = cell.waiting_orders()
        cell.withdraw(tuple(one for one in waiting if one in ends or (isinstance(one, RestartOrder) and one.at_once)))

    def request_failure(
        self, cell: Cell, cause: BaseException, child: ActorRef | None = None, why: str = "as it was told to"
    ) -> FailOrder:
        """Fail an actor after the message in hand; `child` is the one that escalated, if any. From any thread."""
        order = FailOrder(cause, child, 0 if child is None else incarnation_of(cell.record), why)
        self.request(cell, order)
        return order

    def request_fresh_start(self, cell: Cell, cause: BaseException | None) -> None:
        """Restart an actor without backoff, as a user asked. From any thread."""
        self.request(cell, RestartOrder(cause, at_once=True))

    def order_inspection(self, cell: Cell, items: tuple[str, ...], tell: Callable[..., object]) -> Order:
        """Queue an order that calls `tell` with the result of the actor's `inspect`; the order."""

        def look(cell: Cell) -> object:
            return begin(inspect(cell.record, items, tell))

        cell.order(look)
        return look

    def request(self, cell: Cell, order: Callable[[Cell], object]) -> None:
        """Have an order to fail or to be restarted act after the message in hand. From any thread."""
        if cell.is_foreign():
            self.loop.inbound.post(cell, partial(self.request, cell, order))
            return
        record = cell.record
        if isinstance(record, ActorRecord):
            cell.order(order)
            if cell.task is not None:
                self.set_deadline(cell, record)

    def request_end_in_order(self, cell: Cell) -> None:
        """End an actor when it has handled what is queued now. From any thread."""
        cell.notify(STOP_IN_ORDER)

    def finish(self, cell: Cell, record: ActorRecord, reason: ExitReason) -> None:
        """Steps 9 to 15 of an ending."""
        if cell.record is not record:
            return  # it has been forced to end meanwhile
        ref = cell.ref
        extras = record.extras
        if COMPILED and not is_tracked(record):
            track_actor(record)
        if record.stage == STOPPING:  # it ends plainly
            self.enter(record, STOPPED)
        if extras is not None:
            self.clear_deadline(record)
            stopping.end_belongings(record, extras)
            if extras.relations is not None:
                for target in list(extras.relations.watching):
                    unwatch(record, target)
            extras.receive_timer = extras.stash = None
            if extras.restart_state is not None:
                report_undecided(cell, extras.restart_state)
                restarting.forget(cell, record, extras.restart_state)
            if extras.executor is not None:
                extras.executor.actor_ended()
        parent = ref._parent
        if parent is None:
            child_list = self.top
            if self._places is not None:
                self._places.pop(cell, None)
        else:
            above = parent._cell.record
            child_list = above.child_list
        child_list.remove(record, ref._name)
        # Before its messages go, so that those who are told of a message can learn how the actor ended.
        history = None if extras is None else extras.history
        cell.put_record(child_list.tombstone_of(reason, ref._name, parent, history))
        if self.discards is not None:
            self.discards.note(cell, None)  # an actor that has no hooks has not been drained
        try:
            self.loop.retire(cell, "stopped")
        except BaseException:  # an observer was interrupted
            cell.forget_actor()
            raise
        self.enter(record, TERMINATED)
        cell.forget_actor()
        self.terminated += 1
        # Observers first: by the time any other thread hears of the end, they have.
        if self.loop.hooks.actor_stopped:
            self.loop.hooks.emit("actor_stopped", ref, reason)
        # Actors before those outside who wait for the end: what these send comes after the notice of it, on any loop.
        if record.watchers is not None:
            tell_watchers(record.watchers, cell, ref, reason)
        if extras is not None:
            if extras.relations is not None:
                extras.relations.end(cell, ref, reason)
            stopping.tell(extras, reason)
        if parent is not None:
            self._tell_parent(parent._cell, ref, reason, None if extras is None else extras.restart_state)
        else:
            if extras is not None and extras.restart_state is not None and extras.restart_state.supervisor is not None:
                extras.restart_state.supervisor.gone(ref._cell, reason)
            self._tell_system(cell, reason)

    def _tell_system(self, cell: Cell, reason: ExitReason) -> None:
        if cell is self.root:
            self.root = None
            self.system._root_has_ended(reason)
        if self.closed and self.top.count == 0:
            self.system._last_actor_ended(self)

    def _tell_parent(self, cell: Cell, ref: ActorRef, reason: ExitReason, restart_state: RestartState | None) -> None:
        record = cell.record
        extras = record.extras
        if WAITS_FOR_CHILDREN[record.stage]:
            if record.child_list.count == 0:
                cell.order(CLOSE)
            elif extras is not None and extras.orderly:
                stopping.tell_children(self, record, SHUTDOWN)
        elif restart_state is not None and restart_state.supervisor is not None:
            restart_state.supervisor.gone(ref._cell, reason)
        elif not cell.closed and self._cares_for_children(cell, record):
            cell.notify(ChildTerminated(ref, reason.cause, reason))

    def _cares_for_children(self, cell: Cell, record: ActorRecord) -> bool:
        extras = record.extras
        if extras is None or not extras.behaviors:
            class_info = self.class_info_now(cell, record)
            if class_info is not None:
                return class_info.cares_for_children
        elif isinstance(extras.behaviors[0].subject, Actor):
            return class_info_of(type(extras.behaviors[0].subject)).cares_for_children
        return extras is not None and extras.on_signal is not None

    def set_deadline(self, cell: Cell, record: ActorRecord) -> None:
        """Force the actor to end after `stop_timeout`; a deadline that is set stands until it has had its effect."""
        extras = record.ensure_extras()
        if extras.deadline is not None and extras.deadline.is_over():
            self.clear_deadline(record)
        if extras.deadline is None:
            seconds = stopping.patience_of(self, record)
            if seconds < inf:
                extras.deadline = stopping.Deadline(cell, seconds)

    def clear_deadline(self, record: ActorRecord) -> None:
        extras = record.extras
        if extras is not None and extras.deadline is not None:
            extras.deadline.cancel()
            extras.deadline = None

    def note_forced(self, cell: Cell) -> None:
        """Count an actor as forced; FORCED is its reason, unless it failed."""
        self.forced.note(cell)
        record = cell.record
        if isinstance(record, ActorRecord):
            record.ensure_extras().forced = True
            if record.reason is NORMAL or record.reason is SHUTDOWN:
                record.reason = FORCED

    # -- messages that no actor handles

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        self.system.dead_letters.publish(message, _shown(sender), cell.shown(), why)

    def unhandled(self, cell: Cell, message: object, sender: object) -> None:
        self.publish(message, _shown(sender), cell.shown(), "unhandled")

    def late_reply(self, cell: Cell, value: object, asker: object) -> None:
        """Count and publish an answer to a question that is over. From any thread."""
        if self.is_foreign() and self.loop.inbound.post_back(None, partial(self.late_reply, cell, value, asker)):
            return
        self.loop.admission.totals.late_replies += 1
        cell.count_aside().late_replies += 1
        self.publish(value, cell.shown(), asker, "late reply")

    def publish(self, message: object, sender: object, recipient: object, why: str) -> None:
        """Publish a dead letter that is no message of the ledger, or is in another of its columns."""
        self.system.dead_letters.publish(message, sender, recipient, why)
        if self.loop.hooks.dead_letter:
            self.loop.hooks.emit("dead_letter", recipient, message, sender, why)

    def dropped(self, cell: Cell, message: object, sender: object, lane: object) -> None:
        """A message was dropped by the overflow policy: that is counted, and observers are told."""

    # -- actors whose code runs elsewhere

    def offload(self, cell: Cell, message: object, sender: object, lane: int) -> Coroutine[object, None, object]:
        return cell.record.extras.executor.carry(cell, message, sender, lane)  # type: ignore[no-any-return]

    def intercept(self, cell: Cell, message: object, sender: object, lane: object) -> bool:
        self.examine(cell, message)
        return False

    def examine(self, cell: Cell, message: object) -> None:
        """Refuse a message that cannot be sent to the actor's process. From any thread."""
        record = cell.peek_record()
        if isinstance(record, ActorRecord) and record.extras is not None:
            record.extras.executor.examine(message)

    def is_elsewhere(self, cell: Cell) -> bool:
        return False

    def asks_elsewhere(self, question: Question, message: object, lane: object) -> bool:
        return False

    def awaits(self, question: object) -> None:
        """Nothing: what such an actor waits for, its worker process says."""

    def gave_up(self, question: object) -> None:
        """Nothing to do: the answer comes home all the same."""

    def absorb(self, cell: Cell, result: object) -> object:
        """An actor that works elsewhere has returned this; what is left of it for the loop to do. From any thread."""
        if result is SAME:
            return None
        if isinstance(result, Behavior) and result is not STOPPED_BEHAVIOR and not result.unhandled:
            become_next(cell, result)
            return None
        return result

    def message_taken(self, cell: Cell) -> None:
        cell.record.extras.receive_timer.touch()

    # -- refs

    def _new_ref(self, cell: Cell, name: str | tuple[str], parent: Address | None) -> ActorRef:
        ref = new_object(ActorRef) if COMPILED else ActorRef.__new__(ActorRef)
        ref._cell = cell
        ref._name = name
        ref._parent = parent
        return ref

    def ref_of(self, cell: Cell) -> object:
        left = cell.peek_record()
        if type(left) is not Tombstone:
            return cell
        return self._new_ref(cell, left.name, left.parent)

    def address_of(self, ref: ActorRef) -> tuple[str, int, str]:
        """What a pickled ref is found by: its system's token, its id and its path."""
        self.pickled[ref._cell.id] = ref._cell
        return self.system.token, ref._cell.id, ref.path

    def find(self, cell_id: int, path: str) -> ActorRef:
        """The ref of an actor by its id; for one that is gone, a ref whose messages are dead letters."""
        cell = self.loop.table.find(cell_id) or self.pickled.get(cell_id)
        if cell is not None:
            return cell.shown()  # type: ignore[return-value]
        ghost = Cell.__new__(Cell)
        ghost.set_up(self.loop, self.loop.runq, None, None, Mailbox(MailboxConfig()))
        ghost.id = cell_id
        ghost.close()
        ghost.ending = True
        ghost.ended = ENDED
        above, _, name = path.rpartition("/")
        unknown = ExitReason(ExitKind.PANIC, RefGone(self.system.name, path, "it has ended, nobody knows how"))
        parent = (self.system.actor(above) or self.find(0, above)) if above else None
        ghost.record = tombstone_of(unknown, name, parent, None)
        return self._new_ref(ghost, name, ghost.record.parent)


def _shown(sender: object) -> object:
    return sender.shown_sender() if isinstance(sender, Receipt) else sender


def _await(life: Lifecycle, cell: Cell, record: ActorRecord, waiting: Any) -> Procedure:
    while waiting is not None:
        procedure, row, position = waiting
        if (yield from procedure) is HALT or cell.record is not record:
            return
        waiting = life._carry_on(cell, record, row, position)


def _note(history: list[State], before: int, state: int) -> None:
    """Append a state to a history, and the one that was skipped before it (M1)."""
    between = _BETWEEN.get((before, state))
    if between is not None:
        history.append(STATES[between])
    history.append(STATES[state])
    if len(history) > HISTORY_KEPT:
        del history[: len(history) - HISTORY_KEPT]


_BETWEEN = {
    (State.STARTING.code, State.RESTARTING.code): State.FAILED.code,
    (State.STOPPING.code, State.RESTARTING.code): State.STOPPED.code,
    (State.STOPPING.code, State.TERMINATED.code): State.STOPPED.code,
}


def site_of_caller(by_context: bool, depth: int, last: SpawnSite | None = None) -> SpawnSite:
    """The line that called `spawn`; `last` if it is the same. Compiled, this is C."""
    frame = sys._getframe(depth)
    between = (BY_CONTEXT, BY_OFFLOADED, BY_LOOP_CONTEXT)
    while by_context and frame.f_code in between and frame.f_back is not None:
        frame = frame.f_back
    if last is not None and last[0] is frame.f_code and last[1] == frame.f_lasti:
        return last
    return frame.f_code, frame.f_lasti
