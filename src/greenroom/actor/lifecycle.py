"""The lives of the actors of one loop, from spawn to tombstone: what a loop's host is for.

An actor without hooks, as most are, begins and ends here without a detour; everything that may have to wait for a hook
or for children is a procedure, in `starting` and `ending`.
"""

from __future__ import annotations

import sys
from asyncio import CancelledError
from itertools import count
from typing import TYPE_CHECKING, Any

from greenroom._core.build import COMPILED
from greenroom._core.flags import HELD, INTERCEPTED, MAY_NOT_ASK, OFFLOADED
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.becoming import become_next
from greenroom.actor.api.behavior import SAME
from greenroom.actor.api.behavior import STOPPED as STOPPED_BEHAVIOR
from greenroom.actor.api.context import Context
from greenroom.actor.api.loopcontext import LoopContext
from greenroom.actor.endinghost import STOP_IN_ORDER, EndingHost
from greenroom.actor.failure import decision
from greenroom.actor.failure.askcycles import probe
from greenroom.actor.failure.decision import FailOrder
from greenroom.actor.failure.escalationcycles import break_off_if_stuck
from greenroom.actor.failure.refusals import is_refusal
from greenroom.actor.life import ending, forcing, notices, restarting, starting
from greenroom.actor.life.ending import CLOSING, WAITING
from greenroom.actor.life.gctracking import TRACKED, track_actor, untrack_actor, untrack_instance
from greenroom.actor.life.hooks import begin, call_hook, hand_to_actor
from greenroom.actor.life.orders import START, STOP_ITSELF
from greenroom.actor.life.spec import BEHAVIOR, CLASS, HANDLER, args_of, class_info_of, spec_of
from greenroom.actor.messaging.address import direct
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.messaging.signals import (
    ChildTerminated,
    Down,
    Exit,
    PostStart,
    PreStart,
    ReceiveTimeout,
    Terminated,
)
from greenroom.actor.offload.context import OffloadedContext
from greenroom.actor.records.record import ActorRecord, ChildList, Settings, tombstone_of
from greenroom.actor.records.states import State
from greenroom.errors import ActorTerminated, SystemStopped
from greenroom.exits import KILLED, NORMAL, SHUTDOWN, ends_system
from greenroom.lanes import MailboxConfig
from greenroom.tracebacks import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom._core.behavior import BehaviorBase
    from greenroom.actor.life.spawnsite import SpawnSite
    from greenroom.actor.life.spec import ActorClassInfo, ActorSpec
    from greenroom.actor.messaging.drain import Drain
    from greenroom.actor.messaging.question import Question
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.records.ports import SystemPort

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
BY_LOOP_CONTEXT = getattr(LoopContext.spawn, "__code__", None)  # compiled, it has none
PRE_START = PreStart()
_NO_KWARGS: dict[str, object] = {}
_STARTED = START.what
POST_START = PostStart()


class Lifecycle(EndingHost):
    """The host of one loop: brings actors up, sees them through, and buries them."""

    __slots__ = (
        "_counter",
        "_keeps_history",
        "_site",
        "_spec",
        "has_placement",
        "mailbox",
        "spawned",
    )

    def __init__(self, port: SystemPort, names: dict[str, ActorRecord] | None = None) -> None:
        super().__init__(port, names)
        # What actors have that are spawned without a mailbox of their own.
        self.mailbox = port.config.mailbox
        self._keeps_history = port.config.history
        # Whether the system has a say in where the code of actors runs that were spawned without a dispatcher.
        self.has_placement = bool(port.config.placement)
        self.spawned = 0
        # As in `number_top`.
        self._counter: Iterator[int] = count()
        # The line that spawned last: in a loop it is the same over and over, and a note of its own for each actor would
        # be one more object for the garbage collector to count.
        self._site: SpawnSite | None = None
        # And the class that it spawned, if it gave no keyword arguments.
        self._spec: ActorSpec | None = None

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
        spec = self._spec
        if spec is None or spec.factory is not factory or kwargs:
            spec = spec_of(factory, args, kwargs)
            if spec.factory is not factory:
                args = args_of(factory, args)
            elif spec.kind == CLASS and not kwargs:
                self._spec = spec
        if self.closed:
            raise SystemStopped(self.port.name)
        if parent is None:
            child_list = self.top
        else:
            left = parent._cell.record
            if not isinstance(left, ActorRecord):
                raise ActorTerminated(parent, left.reason)
            above: ActorRecord = left
            if above.phase == WAITING or above.phase == CLOSING:
                raise ActorTerminated(parent, "its children are being stopped")
            child_list = self._new_child_list(above) if above.child_list is None else above.child_list
            if settings is None and above.extras is not None:
                settings = above.settings()
        if name is not None:
            child_list.require_free(name, parent)
        executor = None
        if dispatcher is not None or self.has_placement:
            dispatcher, executor = self.port._executor_for(self, dispatcher, spec, args, name, parent)
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
        """Bring up a child without options."""
        return self.spawn(factory, args, _NO_KWARGS, parent.shown(), None, None, None, None)  # type: ignore[arg-type]

    def number_top(self, counter: Iterator[int]) -> None:
        """There are several loops: from now on, those at the top are numbered by what all loops count with."""
        self._counter = counter
        self._places = {record.cell: next(counter) for record in self.top.records()}

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
        cell.withdraw((START,))
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
        cell.order(START)
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
            if COMPILED and not is_tracked(record):
                track_actor(record)
            parent = cell.ref._parent
            (self.top if parent is None else parent._cell.record.child_list).remove(record, cell.ref._name)
            cell.put_record(tombstone_of(NORMAL, cell.ref._name, parent, None))
            self.loop.retire(cell)
            cell.let_actor_go()
            self.spawned -= 1

    def _new_child_list(self, record: ActorRecord) -> ChildList:
        """Where the children of an actor stand from now on: it spawns its first."""
        if COMPILED:
            child_list: ChildList = new_object(ChildList)
            child_list.set_up()
        else:
            child_list = ChildList()
        record.child_list = child_list
        if COMPILED and not is_tracked(record):
            untrack(child_list)
        return child_list

    def carry_out(self, cell: Cell, what: int) -> object:
        """Do what an order of `orders` says."""
        return self._start(cell) if what == _STARTED else EndingHost.carry_out(self, cell, what)

    def _start(self, cell: Cell) -> object:
        record = cell.record
        if record.state != CREATED:
            return None
        spec = record.spec
        self.enter(record, STARTING)
        if spec.kind == BEHAVIOR or (record.extras is not None and record.extras.executor is not None):
            return begin(starting.start(self, cell, record))
        if spec.kind == HANDLER:
            cell.put_code(spec.factory, record)
            self.begin_to_run(cell, record)
            return None
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
        self.begin_to_run(cell, record)
        return None

    def _start_with_hooks(self, cell: Cell, record: ActorRecord, class_info: ActorClassInfo) -> object:
        """As `starting.start`, after the actor is made, as long as no hook returns something to await."""
        was_told = cell.orders is not None and self.is_told_to_stop(cell)
        rest = self.call_hook(cell, class_info, "pre_start", PRE_START, class_info.has_pre_start)
        if rest is not None:
            return begin(starting.after_pre_start(self, cell, record, was_told, rest))
        if self.closed:
            self.request_end(cell, SHUTDOWN)
            return None
        if cell.orders is not None and not was_told and self.is_told_to_stop(cell):
            return None
        rest = self.call_hook(cell, class_info, "post_start", POST_START, class_info.has_post_start)
        if rest is not None:
            return begin(starting.after_post_start(self, cell, record, rest))
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
        if record.phase or self._is_hurried(cell):
            self.set_deadline(cell, record)

    def _is_hurried(self, cell: Cell) -> bool:
        """Whether an order waits that is not the actor's own, to stop when it is done with the message in hand."""
        return any(order != STOP_ITSELF for order in cell.waiting_orders()) and self.is_told_to_change(cell)

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
        if record.phase != ending.NONE:
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
        if question.number == 0:
            question.is_asked_now()
        probe(question)

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
            return record.phase == ending.NONE
        return restart_state is not None and ending.is_to_come_back(self, record, reason)

    def is_owed_time(self) -> bool:
        """Whether messages are queued for somebody who waits to be started again."""
        return any(cell.queued() for cell in self.resting)


def site_of_caller(by_context: bool, depth: int, last: SpawnSite | None = None) -> SpawnSite:
    """Where whoever called `spawn` is: `last`, if that is the same place. Compiled, this is C."""
    frame = sys._getframe(depth)
    between = (BY_CONTEXT, BY_OFFLOADED, BY_LOOP_CONTEXT)
    while by_context and frame.f_code in between and frame.f_back is not None:
        frame = frame.f_back
    if last is not None and last[0] is frame.f_code and last[1] == frame.f_lasti:
        return last
    return frame.f_code, frame.f_lasti
