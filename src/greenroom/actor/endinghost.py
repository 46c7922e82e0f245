"""How the actors of one loop end, from the order to the tombstone: the half of `Lifecycle` that is about endings.

`ending` says in which steps. What does not have to wait for a hook or for children is done here, at once; the rest is a
procedure there.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.failure.decision import FailOrder
from greenroom.actor.failure.reports import report_undecided
from greenroom.actor.hookhost import HookHost
from greenroom.actor.life import ending, forcing, restarting
from greenroom.actor.life.ending import CLOSING, LEAVING, NONE, WAITING
from greenroom.actor.life.gctracking import (
    leads_only_up,
    leave_remains,
    track_actor,
    track_instance,
    track_what_leads_to,
)
from greenroom.actor.life.hooks import begin, inspect
from greenroom.actor.life.orders import CLOSE, KILL, SHUT_DOWN, STOP, STOP_ITSELF
from greenroom.actor.life.restarting import RestartOrder
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.messaging.drain import drain
from greenroom.actor.messaging.signals import ChildTerminated, PostStop, PreStop
from greenroom.actor.records.record import ActorRecord, ChildList, Extras, Settings, Tombstone
from greenroom.actor.records.restartstate import incarnation_of
from greenroom.actor.records.states import State
from greenroom.actor.relations.watch import notify_in_batches, tell_watchers
from greenroom.exits import FORCED, KILLED, NORMAL, SHUTDOWN, ExitReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom._core.mailbox.cell import Order
    from greenroom.actor.life.spec import ActorClassInfo
    from greenroom.actor.messaging.drain import Discards
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.records.ports import SystemPort
    from greenroom.actor.records.restartstate import RestartState

__all__ = ["STOP_IN_ORDER", "EndingHost"]

CREATED = State.CREATED.code
RUNNING = State.RUNNING.code
STOPPING = State.STOPPING.code
STOPPED = State.STOPPED.code
TERMINATED = State.TERMINATED.code

STOP_IN_ORDER = object()
"""The notice of a stop that waits for what is queued before it."""
_ENDINGS = (STOP, STOP_ITSELF, SHUT_DOWN, KILL, CLOSE)
_STOPPED = STOP.what
_STOPPED_ITSELF = STOP_ITSELF.what
_SHUT_DOWN = SHUT_DOWN.what
_KILLED = KILL.what
PRE_STOP = PreStop()
POST_STOP = PostStop()


class EndingHost(HookHost):
    """Sees actors to their end."""

    __slots__ = (
        "_ending_as",
        "_ending_cell",
        "_places",
        "closed",
        "discards",
        "forced",
        "resting",
        "root",
        "settings",
        "terminated",
        "top",
    )

    def __init__(self, port: SystemPort, names: dict[str, ActorRecord] | None = None) -> None:
        super().__init__(port)
        # What actors have that are spawned without settings of their own.
        self.settings = Settings(port.config.supervision, port.config.env)
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
        # What the system's end discards; None while it goes on.
        self.discards: Discards | None = None
        # Those that had to be forced to end.
        self.forced = forcing.ForcedActors()
        # Whose hooks run now at its end, without a procedure, and how it will have ended.
        self._ending_cell: Cell | None = None
        self._ending_as: ExitReason | None = None

    # -- what `Lifecycle` does

    def begin_to_run(self, cell: Cell, record: ActorRecord) -> None:
        """Let an actor handle messages: it has started."""
        raise NotImplementedError

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        """A handler, notice or order let `cause` out."""
        raise NotImplementedError

    def place_at_top(self, cell: Cell) -> int:
        """When an actor without a parent was spawned, counted over all loops; -1 if there is one loop."""
        return -1 if self._places is None else self._places.get(cell, -1)

    # -- how far it has come

    def is_told_to_stop(self, cell: Cell) -> bool:
        """Whether an order to end waits."""
        return any(order in _ENDINGS for order in cell.waiting_orders())

    def is_told_to_change(self, cell: Cell) -> bool:
        """Whether an order to end, to fail or to be restarted waits."""
        return self.is_told_to_stop(cell) or any(
            isinstance(order, FailOrder | RestartOrder) for order in cell.waiting_orders()
        )

    def forget_stops(self, cell: Cell) -> None:
        """The actor failed before it came to stop: it is restarted instead."""
        cell.withdraw((STOP, STOP_ITSELF, SHUT_DOWN))

    def reason_of(self, cell: Cell) -> ExitReason | None:
        """How an actor ended, or is about to. From any thread; from another than its own, only how it ended."""
        left = cell.peek_record()
        if type(left) is Tombstone:
            reason: ExitReason = left.reason
            return reason
        if left is None or cell.is_foreign():
            return None
        if cell is self._ending_cell:
            return self._ending_as
        if left.extras is not None and left.extras.ending is not None:
            decided: ExitReason = left.extras.ending
            return decided
        waiting = cell.waiting_orders()
        is_stopped = STOP in waiting or STOP_ITSELF in waiting
        told = NORMAL if is_stopped else SHUTDOWN if SHUT_DOWN in waiting else None
        return FORCED if told is not None and left.extras is not None and left.extras.forced else told

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
            if record.phase != CLOSING:
                extras.ending = KILLED
            if cell.orders is not None:
                self._overtake(cell)
            cell.order(KILL)
        else:
            cell.order(STOP if reason is NORMAL else SHUT_DOWN)
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
            cell.order(STOP_ITSELF)
        else:  # a hook asks, and no message is in hand
            self.request_end(cell, NORMAL)

    def _overtake(self, cell: Cell) -> None:
        """Let a kill overtake the stops and the restarts that were asked for before."""
        ends = (STOP, STOP_ITSELF, SHUT_DOWN)
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
        cell.order(STOP)

    def order_kill(self, cell: Cell) -> None:
        """Have it end next, without `pre_stop`."""
        cell.order(KILL)

    def order_close(self, cell: Cell) -> None:
        """Have its ending go on: nobody has to be waited for."""
        cell.order(CLOSE)

    def request_end_in_order(self, cell: Cell) -> None:
        """Tell an actor to end when it has handled what is queued now. From any thread."""
        cell.notify(STOP_IN_ORDER)

    def carry_out(self, cell: Cell, what: int) -> object:
        """Do what an order of `orders` says."""
        if what in (_STOPPED, _STOPPED_ITSELF):
            return self._end(cell, NORMAL)
        if what == _SHUT_DOWN:
            return self._end(cell, SHUTDOWN)
        return self._end(cell, KILLED) if what == _KILLED else self._close(cell)

    def _end(self, cell: Cell, reason: ExitReason) -> object:
        if not isinstance(cell.record, ActorRecord):
            return None
        record = cell.record
        extras = record.extras
        has_children = record.child_list is not None and record.child_list.count > 0
        if record.phase != NONE or has_children or (extras is not None and not extras.can_end_at_once()):
            return begin(ending.end(self, cell, record, reason), record)
        if record.state == RUNNING:
            class_info = self.class_info_now(cell, record)
            if class_info is not None and not class_info.ends_plainly:
                return self._end_with_hooks(cell, record, class_info, reason)
            if reason is not KILLED:
                self.enter(record, STOPPING)
        elif record.state != CREATED or extras is not None:
            return begin(ending.end(self, cell, record, reason), record)
        self.finish(cell, record, reason)
        return None

    def _end_with_hooks(
        self, cell: Cell, record: ActorRecord, class_info: ActorClassInfo, reason: ExitReason
    ) -> object:
        """As `ending.end`, for a running actor without children, as long as no hook returns something to await."""
        record.phase = LEAVING
        if record.extras is not None:
            record.extras.ending = reason
        self._ending_cell = cell
        self._ending_as = reason
        try:
            if reason is not KILLED:
                self.enter(record, STOPPING)
            cell.close()
            if reason is not KILLED:
                rest = self.try_hook(cell, class_info, "pre_stop", PRE_STOP, class_info.has_pre_stop)
                if rest is not None:
                    _ending_of(record, reason)
                    return begin(ending.after_pre_stop(self, cell, record, rest), record)
            if cell.queued() or record.extras is not None:
                drain(cell, record.extras, "stopped")
            record.phase = WAITING
            if record.child_list is not None and record.child_list.count > 0:  # spawned just now
                reason = _ending_of(record, reason)
                self.set_deadline(cell, record)
                ending.end_children(self, record, SHUTDOWN if reason is not KILLED else KILLED)
                return None
            record.phase = CLOSING
            rest = self.try_hook(cell, class_info, "post_stop", POST_STOP, class_info.has_post_stop)
            if rest is not None:
                _ending_of(record, reason)
                return begin(ending.after_post_stop(self, cell, record, rest), record)
        finally:
            self._ending_cell = self._ending_as = None
        if record.extras is None:
            self.finish(cell, record, reason)
        else:  # a hook had its own ideas
            _ending_of(record, reason)
            self.conclude(cell, record)
        return None

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
        is_hidden = COMPILED and not is_tracked(record)
        if COMPILED and (is_hidden or record.child_list is not None) and not leads_only_up(cell, record, reason):
            track_what_leads_to(record)
            if is_hidden:
                track_actor(record)
                is_hidden = False
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
        if parent is None:
            child_list = self.top
            if self._places is not None:
                self._places.pop(cell, None)
        else:
            above = parent._cell.record
            child_list = above.child_list
        child_list.remove(record, ref._name)
        # Before its messages go, so that whoever is told of them can be told how it ended.
        history = None if extras is None else extras.history
        cell.put_record(child_list.tombstone_of(reason, ref._name, parent, history))
        if self.discards is not None:
            self.discards.note(cell, None)  # an actor that has no hooks has not been drained
        try:
            self.loop.retire(cell, "stopped")
        except BaseException:  # an observer was interrupted
            if is_hidden:
                track_actor(record)
            cell.let_actor_go()
            raise
        self.enter(record, TERMINATED)
        if is_hidden:
            track_instance(record)
        cell.let_actor_go()
        if is_hidden:
            leave_remains(record, cell, ref)
        self.terminated += 1
        # Observers first: whoever has heard of the end, on whichever thread, finds that they have.
        if self.loop.hooks.actor_stopped:
            self.loop.hooks.emit("actor_stopped", ref, reason)
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
            if extras is not None and extras.restart_state is not None and extras.restart_state.supervisor is not None:
                extras.restart_state.supervisor.gone(ref._cell, reason)
            self._tell_system(cell, reason)

    def _tell_system(self, cell: Cell, reason: ExitReason) -> None:
        if cell is self.root:
            self.root = None
            self.port._root_has_ended(reason)
        if self.closed and self.top.count == 0:
            self.port._everybody_has_gone(self)

    def _tell_parent(self, cell: Cell, ref: ActorRef, reason: ExitReason, restart_state: RestartState | None) -> None:
        record = cell.record
        extras = record.extras
        if record.phase == WAITING:
            if record.child_list.count == 0:
                cell.order(CLOSE)
            elif extras is not None and extras.orderly:
                ending.end_children(self, record, SHUTDOWN)
        elif restart_state is not None and restart_state.supervisor is not None:
            restart_state.supervisor.gone(ref._cell, reason)
        elif not cell.closed and self._cares_for_children(cell, record):
            cell.notify(ChildTerminated(ref, reason.cause, reason))

    def _cares_for_children(self, cell: Cell, record: ActorRecord) -> bool:
        """Whether the actor would do anything when a child has ended."""
        extras = record.extras
        if extras is None or not extras.behaviors:
            class_info = self.class_info_now(cell, record)
            if class_info is not None:
                return class_info.cares_for_children
        elif isinstance(extras.behaviors[0].subject, Actor):
            return class_info_of(type(extras.behaviors[0].subject)).cares_for_children
        return extras is not None and extras.on_signal is not None

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


def _notify_related(extras: Extras, cell: Cell, ref: ActorRef, reason: ExitReason) -> None:
    """Tell those that monitor an actor, and those linked to it, that it has ended."""
    of_monitors = () if extras.monitors is None else extras.monitors.notices(reason)
    of_links = () if extras.links is None else extras.links.notices(cell, ref, reason)
    notify_in_batches(cell.loop, chain(of_monitors, of_links))


def _ending_of(record: ActorRecord, reason: ExitReason) -> ExitReason:
    """How it will have ended, for those who go on with its ending: by `reason`, unless a hook had other ideas."""
    extras = record.ensure_extras()
    if extras.ending is None:
        extras.ending = reason
    decided: ExitReason = extras.ending
    return decided
