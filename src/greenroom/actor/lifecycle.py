"""The lives of the actors of one loop, from spawn to tombstone: what a loop's host is for.

An actor without hooks, as most are, begins and ends here without a detour; everything that may have to wait for a hook
or for children is a procedure, in `starting` and `ending`.
"""

from __future__ import annotations

import sys
from asyncio import CancelledError
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom._core.flags import HELD, INTERCEPTED, MAY_NOT_ASK, OFFLOADED
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.becoming import become_next
from greenroom.actor.api.behavior import SAME
from greenroom.actor.api.behavior import STOPPED as STOPPED_BEHAVIOR
from greenroom.actor.api.context import Context, ContextRecord
from greenroom.actor.failure import decision
from greenroom.actor.failure.askcycles import probe
from greenroom.actor.failure.decision import FailOrder
from greenroom.actor.failure.escalationcycles import break_off_if_stuck
from greenroom.actor.failure.refusals import is_refusal
from greenroom.actor.failure.reports import report_undecided
from greenroom.actor.life import ending, forcing, notices, restarting, starting
from greenroom.actor.life.hooks import begin, call_hook, executor_of, hand_to_actor, inspect
from greenroom.actor.life.restarting import RestartOrder
from greenroom.actor.life.spec import spec_of
from greenroom.actor.messagehost import MessageHost
from greenroom.actor.messaging.address import direct
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.messaging.signals import ChildTerminated, Down, Exit, ReceiveTimeout, Terminated
from greenroom.actor.offload.context import OffloadedContext
from greenroom.actor.records.record import ActorRecord, ChildList, Extras, Settings, Tombstone, tombstone_of
from greenroom.actor.records.restartstate import incarnation_of
from greenroom.actor.records.states import STATES, State
from greenroom.actor.relations.watch import notify_in_batches, tell_watchers
from greenroom.errors import ActorTerminated, SystemStopped
from greenroom.exits import FORCED, KILLED, NORMAL, SHUTDOWN, ExitReason, ends_system
from greenroom.lanes import MailboxConfig
from greenroom.tracebacks import fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom._core.behavior import BehaviorBase
    from greenroom._core.mailbox.cell import Order
    from greenroom.actor.life.spawnsite import SpawnSite
    from greenroom.actor.messaging.drain import Discards, Drain
    from greenroom.actor.messaging.question import Question
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.records.ports import SystemPort
    from greenroom.actor.records.restartstate import RestartState

__all__ = ["BY_CONTEXT", "BY_OFFLOADED", "Lifecycle", "site_of_caller"]

CREATED = State.CREATED.code
STARTING = State.STARTING.code
RUNNING = State.RUNNING.code
STOPPING = State.STOPPING.code
STOPPED = State.STOPPED.code
TERMINATED = State.TERMINATED.code

# What stands between the user's line and `Spawner.spawn`, if the spawn is a context's.
BY_CONTEXT = getattr(Context.spawn, "__code__", None)
BY_OFFLOADED = getattr(OffloadedContext.spawn, "__code__", None)
HISTORY_KEPT = 1000
"""How many states of an actor are kept: those of some two hundred restarts."""
STOP_IN_ORDER = object()
"""The notice of a stop that waits for what is queued before it."""


class Lifecycle(MessageHost):
    """The host of one loop: brings actors up, sees them through, and buries them."""

    __slots__ = (
        "_close_order",
        "_keeps_history",
        "_kill_order",
        "_own_stop_order",
        "_shutdown_order",
        "_site",
        "_start_order",
        "_stop_order",
        "closed",
        "discards",
        "forced",
        "has_placement",
        "mailbox",
        "resting",
        "root",
        "settings",
        "spawned",
        "terminated",
        "top",
    )

    def __init__(self, port: SystemPort, names: dict[str, ActorRecord] | None = None) -> None:
        super().__init__(port)
        # What actors have that are spawned without settings or a mailbox of their own.
        self.settings = Settings(port.config.supervision, port.config.env)
        self.mailbox = port.config.mailbox
        self._keeps_history = port.config.history
        # The actors that have no parent.
        self.top = ChildList()
        if names is not None:
            self.top.share_names(names)  # with those of the system's other loops
        # The cell of the root behavior, with which the system ends.
        self.root: Cell | None = None
        # Whether the system has a say in where the code of actors runs that were spawned without a dispatcher.
        self.has_placement = bool(port.config.placement)
        # Whether nothing may be spawned any more.
        self.closed = False
        self.spawned = 0
        self.terminated = 0
        # Those that wait: to be started again, or for the world outside.
        self.resting: dict[Cell, None] = {}
        # What the system's end discards; None while it goes on.
        self.discards: Discards | None = None
        # Those that had to be forced to end.
        self.forced = forcing.ForcedActors()
        # The line that spawned last: in a loop it is the same over and over, and a note of its own for each actor would
        # be one more object for the garbage collector to count.
        self._site: SpawnSite | None = None
        # Bound once: an order is then no allocation.
        self._start_order = self._start
        self._stop_order = self._stop
        # An actor's own: until it acts, the handler that asked for it is not hurried.
        self._own_stop_order = self._stop_itself
        self._shutdown_order = self._shut_down
        self._kill_order = self._kill
        self._close_order = self._close

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
        yet. 5 A cell with its mailbox 6 gets a slot and an id, 7 a ref, 8 a body, which has its parent's settings
        unless the spawn has its own. 9 It stands among its siblings. 10 It is ordered to start; 11 the ref is returned.
        """
        spec = spec_of(factory, args, kwargs)
        if self.closed:
            raise SystemStopped(self.port.name)
        if parent is None:
            child_list = self.top
        else:
            child_list = self._family_of(parent)
            if settings is None:
                settings = parent._cell.record.settings()
        if name is not None:
            child_list.require_free(name, parent)
        executor = None
        if dispatcher is not None or self.has_placement:
            dispatcher, executor = self.port._executor_for(self, dispatcher, spec, name, parent)
        if site is None and (spec.args or spec.kwargs or not spec.is_proven()):
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
                record = new_object(ContextRecord) if COMPILED else ContextRecord()
            record.cell = cell
            record.spec = spec
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
            cell.order(self._start_order)
        except BaseException:  # there is no memory for it
            self._undo_spawn(cell, child_list, name)
            raise
        self.spawned += 1
        return ref

    def _undo_spawn(self, cell: Cell, child_list: ChildList, name: str | None) -> None:
        """Let nothing be left of an actor that could not be spawned after all."""
        record, cell.record = cell.record, None
        if record is not None and child_list.count > 0 and child_list.youngest() is record:
            child_list.remove(record, name)
        self.loop.retire(cell)
        cell.ref = None

    def hold_back(self, ref: ActorRef, label: str, own_code: bool) -> Alias:
        """Let what was spawned just now be a meta-process: it waits for `let_start`, and its ref is an alias."""
        cell = ref._cell
        cell.withdraw((self._start_order,))
        cell.hold()
        alias = Alias.__new__(Alias)
        direct(alias, cell, ref._name if type(ref._name) is str else (label,), ref._parent)
        cell.ref = alias
        if own_code:
            cell.flags |= MAY_NOT_ASK
        return alias

    def let_start(self, cell: Cell) -> bool:
        """Start what was held back; False when it has ended meanwhile, as its parent has."""
        record = cell.record
        if not isinstance(record, ActorRecord) or record.state != CREATED:
            return False
        cell.order(self._start_order)
        cell.release()
        return True

    def take_back(self, cell: Cell) -> None:
        """Let nothing be left of what was held back: it is not spawned after all."""
        record = cell.record
        if not isinstance(record, ActorRecord) or record.state != CREATED:
            return
        if record.child_list is not None and record.child_list.count > 0:
            self.request_end(cell, KILLED)  # what it has spawned has to end first
        else:
            parent = cell.ref._parent
            (self.top if parent is None else parent._cell.record.child_list).remove(record, cell.ref._name)
            cell.put_record(tombstone_of(NORMAL, cell.ref._name, parent, None))
            self.loop.retire(cell)
            cell.let_actor_go()
            self.spawned -= 1

    def _family_of(self, parent: ActorRef) -> ChildList:
        record = parent._cell.record
        if not isinstance(record, ActorRecord):
            raise ActorTerminated(parent, record.reason)
        if record.extras is not None and record.extras.phase in (ending.WAITING, ending.CLOSING):
            raise ActorTerminated(parent, "its children are being stopped")
        if record.child_list is None:
            record.child_list = ChildList()
        return record.child_list

    def enter(self, record: ActorRecord, state: int) -> None:
        """Let `record` be in `state`."""
        record.state = state
        extras = record.extras
        if extras is None:
            return
        if extras.start_deadline is not None:
            extras.start_deadline.disarm(self.loop.timers)
            extras.start_deadline = None
        history = extras.history
        if history is not None:
            history.append(STATES[state])
            if len(history) > HISTORY_KEPT:
                del history[0]

    def _start(self, cell: Cell) -> object:
        record = cell.record
        if record.state != CREATED:
            return None
        spec = record.spec
        self.enter(record, STARTING)
        class_info = spec.class_info
        if class_info is None or not class_info.plain or executor_of(record) is not None:
            return begin(starting.start(self, cell, record))
        actor = spec.factory(*spec.args, **spec.kwargs) if spec.args or spec.kwargs else spec.factory()
        if type(actor) is not class_info.actor_class:  # its `__new__` has its own mind
            starting.install_actor(record, actor)
        else:
            actor.ctx = record
            cell.put_code(class_info.handler, actor)
            if spec is class_info.spec:
                class_info.proven = True
        self.begin_to_run(cell, record)
        return None

    def begin_to_run(self, cell: Cell, record: ActorRecord) -> None:
        """It is ready for its first message."""
        self.enter(record, RUNNING)
        extras = record.extras
        restart_state = None if extras is None else extras.restart_state
        if self.loop.hooks.actor_started and (restart_state is None or restart_state.incarnation == 1):
            self.loop.hooks.emit("actor_started", cell.ref)
        if extras is not None:
            extras.never_ran = False
            if extras.waiters:
                starting.tell_started(extras, None)
            if restart_state is not None:
                restarting.has_begun(self, cell, record, restart_state)

    # -- what the loop asks

    def behavior_returned(self, cell: Cell, behavior: BehaviorBase) -> None:
        """A handler returned a behavior."""
        if behavior is STOPPED_BEHAVIOR:
            self.request_end(cell, NORMAL)
        elif behavior is not SAME:
            become_next(cell, behavior)

    def notice(self, cell: Cell, notice: object) -> object:
        """Handle a notice in its turn."""
        record = cell.record
        if isinstance(notice, Terminated):
            return notices.deliver_terminated(record, notice)
        if isinstance(notice, ChildTerminated):
            return begin(call_hook(record, "on_child_terminated", notice, notice.ref, notice.cause))
        if isinstance(notice, Exit):
            return notices.deliver_exit(record, notice)
        if isinstance(notice, Down):
            return notices.deliver_down(record, notice)
        if notice is STOP_IN_ORDER:
            self.request_end(cell, NORMAL)
            return None
        if isinstance(notice, ReceiveTimeout) and (
            record.extras.receive_timer is None or not record.extras.receive_timer.is_still_quiet()
        ):
            return None
        return hand_to_actor(record, notice)

    def suspended(self, cell: Cell) -> None:
        """A handler suspends while an order to end waits for it, or a hook does: an ending must not wait for ever."""
        record = cell.record
        if not isinstance(record, ActorRecord):
            return
        if record.state == STARTING:
            forcing.limit_start(self, cell, record)
        extras = record.extras
        if (extras is not None and extras.phase) or self._is_hurried(cell):
            self.set_deadline(cell, record)

    def _is_hurried(self, cell: Cell) -> bool:
        """Whether an order waits that is not the actor's own, to stop when it is done with the message in hand."""
        return any(order != self._own_stop_order for order in cell.waiting_orders()) and self.is_told_to_change(cell)

    def is_told_to_stop(self, cell: Cell) -> bool:
        """Whether an order to end waits."""
        endings = (
            self._stop_order,
            self._own_stop_order,
            self._shutdown_order,
            self._kill_order,
            self._close_order,
        )
        return any(order in endings for order in cell.waiting_orders())

    def is_told_to_change(self, cell: Cell) -> bool:
        """Whether an order to end, to fail or to be restarted waits."""
        return self.is_told_to_stop(cell) or any(
            isinstance(order, FailOrder | RestartOrder) for order in cell.waiting_orders()
        )

    def forget_stops(self, cell: Cell) -> None:
        """The actor failed before it came to stop: it is restarted instead."""
        cell.withdraw((self._stop_order, self._own_stop_order, self._shutdown_order))

    def refuses(self, cell: Cell, message: object, sender: object, cause: BaseException) -> bool:
        """Whether `cause`, which a handler let out, is one of the actor's answers."""
        return is_refusal(cell, message, sender, cause)

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        """A handler, notice or order let `cause` out."""
        if ends_system(cause):
            self.port.fail(cause)
        record = cell.record
        if not isinstance(record, ActorRecord):
            return
        extras = record.ensure_extras()
        asked_for = extras.deadline is not None and extras.deadline.cancelled and not isinstance(message, FailOrder)
        if asked_for and isinstance(cause, CancelledError):
            return  # an order to end waits
        if extras.phase != ending.NONE:
            return  # its ending goes on
        if any(isinstance(order, FailOrder) and order.is_reason_for(cause) for order in cell.waiting_orders()):
            return  # the child's own failure is what it fails with, next
        fold(cause)
        decision.decide_on_failure(self, cell, record, message, cause)

    def awaits(self, question: Question) -> None:
        """A handler begins to wait for an actor that is held, that waits for one that is, or is in another process."""
        if question.target.flags & HELD or question.target.task is not None:
            break_off_if_stuck(question)

    def awaits_elsewhere(self, question: Question) -> None:
        """A handler begins to wait for an actor of another loop, or for one that does."""
        probe(question)

    def reason_of(self, cell: Cell) -> ExitReason | None:
        """How an actor ended, or is about to. From any thread; from another than its own, only how it ended."""
        left = cell.peek_record()
        if type(left) is Tombstone:
            reason: ExitReason = left.reason
            return reason
        if left is None or cell.is_foreign():
            return None
        if left.extras is not None and left.extras.ending is not None:
            decided: ExitReason = left.extras.ending
            return decided
        waiting = cell.waiting_orders()
        is_stopped = self._stop_order in waiting or self._own_stop_order in waiting
        told = NORMAL if is_stopped else SHUTDOWN if self._shutdown_order in waiting else None
        return FORCED if told is not None and left.extras is not None and left.extras.forced else told

    def lives_on(self, cell: Cell) -> bool:
        """Whether an actor is not to end for good, as far as is decided: it goes on, or is restarted."""
        record = cell.record
        if self.closed or not isinstance(record, ActorRecord):
            return False
        extras = record.extras
        restart_state = None if extras is None else extras.restart_state
        if restart_state is not None and (restart_state.comes_back or restart_state.resting or restart_state.escalated):
            return True
        reason = self.reason_of(cell)
        if reason is None:
            return extras is None or extras.phase == ending.NONE
        return restart_state is not None and ending.is_to_come_back(self, record, reason)

    def is_owed_time(self) -> bool:
        """Whether messages are queued for somebody who waits to be started again."""
        return any(cell.queued() for cell in self.resting)

    # -- ends

    def request_end(self, cell: Cell, reason: ExitReason) -> None:
        """Tell an actor to end, after the message in hand. From any thread."""
        if cell.is_foreign():
            self.loop.inbound.call(cell, partial(self.request_end, cell, reason))
            return
        record = cell.record
        if not isinstance(record, ActorRecord):
            return
        if reason is KILLED:
            extras = record.ensure_extras()
            if extras.phase != ending.CLOSING:
                extras.ending = KILLED
            if cell.orders is not None:
                self._overtake(cell)
            cell.order(self._kill_order)
        else:
            cell.order(self._stop_order if reason is NORMAL else self._shutdown_order)
        if cell.task is not None:
            if reason is not KILLED:
                self.set_deadline(cell, record)
            else:
                forcing.cancel_handler(self, cell, record.ensure_extras())

    def request_own_end(self, cell: Cell) -> None:
        """An actor stops itself, after the message in hand, for which it may take its time. From any thread."""
        if cell.is_foreign():
            self.loop.inbound.call(cell, partial(self.request_own_end, cell))
            return
        record = cell.record
        if isinstance(record, ActorRecord) and record.state == RUNNING:
            cell.order(self._own_stop_order)
        else:  # a hook asks, and no message is in hand
            self.request_end(cell, NORMAL)

    def _overtake(self, cell: Cell) -> None:
        """It is killed: it does not come to the stops, and the restarts, that were asked for before."""
        ends = (self._stop_order, self._own_stop_order, self._shutdown_order)
        waiting = cell.waiting_orders()
        cell.withdraw(tuple(one for one in waiting if one in ends or (isinstance(one, RestartOrder) and one.at_once)))

    def request_failure(
        self, cell: Cell, cause: BaseException, child: ActorRef | None = None, why: str = "as it was told to"
    ) -> FailOrder:
        """Let an actor fail, after the message in hand; because `child` escalated, if one did. From any thread."""
        order = FailOrder(cause, child, 0 if child is None else incarnation_of(cell.record), why)
        self._request(cell, order)
        return order

    def request_restart(self, cell: Cell, order: Callable[[Cell], object]) -> None:
        """Let an actor be made afresh, after the message in hand. From any thread."""
        self._request(cell, order)

    def request_fresh_start(self, cell: Cell, cause: BaseException | None) -> None:
        """Let an actor be made afresh without backoff, because somebody asked for it. From any thread."""
        self._request(cell, RestartOrder(cause, at_once=True))

    def order_inspection(self, cell: Cell, items: tuple[str, ...], tell: Callable[..., object]) -> Order:
        """Have `tell` called with what an actor's `inspect` returns, after the message in hand; the order for that."""

        def look(cell: Cell) -> object:
            return begin(inspect(cell.record, items, tell))

        cell.order(look)
        return look

    def _request(self, cell: Cell, order: Callable[[Cell], object]) -> None:
        if cell.is_foreign():
            self.loop.inbound.call(cell, partial(self._request, cell, order))
            return
        record = cell.record
        if isinstance(record, ActorRecord):
            cell.order(order)
            if cell.task is not None:
                self.set_deadline(cell, record)

    def order_stop(self, cell: Cell) -> None:
        """Have it end next, in whichever way is decided."""
        cell.order(self._stop_order)

    def order_kill(self, cell: Cell) -> None:
        """Have it end next, without a farewell."""
        cell.order(self._kill_order)

    def order_close(self, cell: Cell) -> None:
        """Have its ending go on: nobody has to be waited for."""
        cell.order(self._close_order)

    def request_end_in_order(self, cell: Cell) -> None:
        """Tell an actor to end when it has handled what is queued now. From any thread."""
        cell.notify(STOP_IN_ORDER)

    def _stop(self, cell: Cell) -> object:
        return self._end(cell, NORMAL)

    def _stop_itself(self, cell: Cell) -> object:
        return self._end(cell, NORMAL)

    def _shut_down(self, cell: Cell) -> object:
        return self._end(cell, SHUTDOWN)

    def _kill(self, cell: Cell) -> object:
        return self._end(cell, KILLED)

    def _end(self, cell: Cell, reason: ExitReason) -> object:
        if not isinstance(cell.record, ActorRecord):
            return None
        record = cell.record
        if record.extras is None and record.child_list is None and (record.state == CREATED or self._is_plain(record)):
            if reason is not KILLED and record.state != CREATED:
                record.state = STOPPING
            self.finish(cell, record, reason)
            return None
        return begin(ending.end(self, cell, record, reason), record)

    def _is_plain(self, record: ActorRecord) -> bool:
        """Whether nothing of the actor has to run at its end."""
        spec = record.spec
        class_info = spec.class_info
        return class_info is not None and class_info.plain

    def _close(self, cell: Cell) -> object:
        record = cell.record
        return begin(ending.close(self, cell, record), record) if isinstance(record, ActorRecord) else None

    def conclude(self, cell: Cell, record: ActorRecord) -> None:
        """An ending is done, but for its last steps: for good, or until a restart."""
        extras = record.ensure_extras()
        if extras.restart_state is not None and extras.restart_state.comes_back:
            restarting.rest(self, cell, record, SHUTDOWN if extras.ending is None else extras.ending)
        else:
            self.finish(cell, record, extras.ending)  # type: ignore[arg-type]

    def finish(self, cell: Cell, record: ActorRecord, reason: ExitReason) -> None:
        """Steps 9 to 15 of an ending."""
        if cell.record is not record:
            return  # it has been forced to end meanwhile
        ref = cell.ref
        extras = record.extras
        if record.state == STOPPING:
            self.enter(record, STOPPED)
        if extras is not None:
            self.clear_deadline(record)
            ending.let_go(record, extras)
            if extras.restart_state is not None:
                report_undecided(cell, extras.restart_state)
                restarting.forget(cell, record, extras.restart_state)
            if extras.executor is not None:
                extras.executor.let_go()
        parent = ref._parent
        child_list = self.top if parent is None else parent._cell.record.child_list
        child_list.remove(record, ref._name)
        # Before its messages go, so that whoever is told of them can be told how it ended.
        cell.put_record(tombstone_of(reason, ref._name, parent, None if extras is None else extras.history))
        if self.discards is not None:
            self.discards.note(cell, None)  # an actor that has no hooks has not been drained
        self.loop.retire(cell, "stopped")
        self.enter(record, TERMINATED)
        cell.let_actor_go()
        self.terminated += 1
        # Actors before others: what is sent by somebody who waited for the end comes after the notice of it, also if
        # that goes to another loop.
        if record.watchers is not None:
            tell_watchers(record.watchers, cell, ref, reason)
        if extras is not None:
            if extras.monitors is not None or extras.links is not None:
                _notify_related(extras, cell, ref, reason)
            ending.tell(extras, reason)
        if parent is not None:
            self._tell_parent(parent._cell, ref, reason, None if extras is None else extras.restart_state)
        else:
            self._tell_system(cell, reason)
        if self.loop.hooks.actor_stopped:
            self.loop.hooks.emit("actor_stopped", ref, reason)

    def _tell_system(self, cell: Cell, reason: ExitReason) -> None:
        if cell is self.root:
            self.root = None
            self.port._root_has_ended(reason)
        if self.closed and self.top.count == 0:
            self.port._everybody_has_gone(self)

    def _tell_parent(self, cell: Cell, ref: ActorRef, reason: ExitReason, restart_state: RestartState | None) -> None:
        record = cell.record
        extras = record.extras
        if extras is not None and extras.phase == ending.WAITING:
            if record.child_list.count == 0:
                cell.order(self._close_order)
            elif extras.orderly:
                ending.end_children(self, record, SHUTDOWN)
        elif restart_state is not None and restart_state.supervisor is not None:
            restart_state.supervisor.gone(ref._cell, reason)
        elif not cell.closed and starting.cares_for_children(record):
            cell.notify(ChildTerminated(ref, reason.cause, reason))

    def set_deadline(self, cell: Cell, record: ActorRecord) -> None:
        """Force the actor to end if it has not by then; the first deadline stands, until it has had its effect."""
        extras = record.ensure_extras()
        if extras.deadline is not None and extras.deadline.is_over():
            self.clear_deadline(record)
        if extras.deadline is None:
            seconds = forcing.patience_of(self, record)
            if seconds < inf:
                extras.deadline = forcing.Deadline(cell, seconds)

    def clear_deadline(self, record: ActorRecord) -> None:
        """It has ended in time."""
        extras = record.ensure_extras()
        if extras.deadline is not None:
            extras.deadline.disarm(self.loop.timers)
            extras.deadline = None

    def note_forced(self, cell: Cell) -> None:
        """Remember that an actor had to be forced: that is how it will have ended, unless it was by a failure."""
        self.forced.note(cell)
        record = cell.record
        if isinstance(record, ActorRecord):
            extras = record.ensure_extras()
            extras.forced = True
            if extras.ending is NORMAL or extras.ending is SHUTDOWN:
                extras.ending = FORCED


def site_of_caller(by_context: bool, depth: int, last: SpawnSite | None = None) -> SpawnSite:
    """Where whoever called `spawn` is: `last`, if that is the same place. Compiled, this is C."""
    frame = sys._getframe(depth)
    while by_context and (frame.f_code is BY_CONTEXT or frame.f_code is BY_OFFLOADED) and frame.f_back is not None:
        frame = frame.f_back
    if last is not None and last[0] is frame.f_code and last[1] == frame.f_lasti:
        return last
    return frame.f_code, frame.f_lasti


def _notify_related(extras: Extras, cell: Cell, ref: ActorRef, reason: ExitReason) -> None:
    """Tell those that monitor an actor, and those linked to it, that it has ended."""
    of_monitors = () if extras.monitors is None else extras.monitors.notices(reason)
    of_links = () if extras.links is None else extras.links.notices(cell, ref, reason)
    notify_in_batches(cell.loop, chain(of_monitors, of_links))
