"""The lives of the actors of one loop, from spawn to obituary: what a loop's host is for.

An actor without hooks, as most are, begins and ends here without a detour; everything that may have to wait for a hook
or for children is a procedure, in `starting` and `ending`.
"""

from __future__ import annotations

from _thread import get_ident
from asyncio import CancelledError
from functools import partial
from math import inf
from typing import Any
from weakref import WeakValueDictionary

from greenroom._core.flags import AWAY, GUARDED
from greenroom._core.build import COMPILED
from greenroom._core.mailbox.cell import ENDED, Cell
from greenroom._core.scheduler.loop import Loop
from greenroom._core.receipt import Slip
from greenroom.actor.failure import decision
from greenroom.actor.life import ending, forcing, restarting, starting
from greenroom.actor.relations import links as bonds
from greenroom.actor.api.behaviors import Behavior, Behaviors
from greenroom.actor.records.record import Body, Family, Obituary, obituary_of
from greenroom.actor.api.context import Context
from greenroom.actor.failure.decision import Failing
from greenroom.actor.life.hooks import begin, call_hook, hand_to_actor, place_of
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.failure.reports import report_undecided
from greenroom.actor.life.restarting import Leave
from greenroom.actor.messaging.signals import ChildTerminated, Down, Exit, ReceiveTimeout, Terminated
from greenroom.actor.life.spec import Settings, spec_of
from greenroom.actor.records.states import STATES, State
from greenroom.actor.relations.watch import deliver, tell_watchers
from greenroom.errors import ActorTerminated, RefGone, SystemStopped
from greenroom.exits import KILLED, NORMAL, SHUTDOWN, ExitKind, ExitReason, ends_system
from greenroom.lanes import MailboxConfig

__all__ = ["Lifecycle"]

CREATED = State.CREATED.code
STARTING = State.STARTING.code
RUNNING = State.RUNNING.code
STOPPING = State.STOPPING.code
STOPPED = State.STOPPED.code
TERMINATED = State.TERMINATED.code

SAME_VERDICT = Behaviors.same
STOPPED_VERDICT = Behaviors.stopped
STOP_IN_ORDER = object()
"""The notice of a stop that waits for what is queued before it."""


class Lifecycle:
    """The host of one loop: brings actors up, sees them through, and buries them."""

    __slots__ = (
        "_close_order",
        "_keeps_history",
        "_kill_order",
        "_shutdown_order",
        "_start_order",
        "_stop_order",
        "closed",
        "forced",
        "is_placing",
        "loop",
        "mailbox",
        "pickled",
        "port",
        "resting",
        "root",
        "settings",
        "spawned",
        "terminated",
        "top",
    )

    def __init__(self, port: Any) -> None:
        self.port = port
        self.loop: Any = None
        # What actors have that are spawned without settings or a mailbox of their own.
        self.settings = Settings(port.supervision, port.env)
        self.mailbox: MailboxConfig = port.mailbox
        self._keeps_history: bool = port.keeps_history
        # The actors that have no parent.
        self.top = Family()
        # The cell of the root behavior, with which the system ends.
        self.root: Cell | None = None
        # Whether the system has a say in where the code of actors runs that were spawned without a dispatcher.
        self.is_placing: bool = port.is_placing
        # Whether nothing may be spawned any more.
        self.closed = False
        self.spawned = 0
        self.terminated = 0
        # Cells whose refs were pickled, for as long as anybody has such a ref.
        self.pickled: WeakValueDictionary[int, Cell] = WeakValueDictionary()
        # Those that wait to be started again.
        self.resting: dict[Cell, None] = {}
        # The paths of those that had to be forced to end.
        self.forced: dict[str, None] = {}
        # Bound once: an order is then no allocation.
        self._start_order = self._start
        self._stop_order = self._stop
        self._shutdown_order = self._shut_down
        self._kill_order = self._kill
        self._close_order = self._close

    def serve(self, loop: Loop) -> None:
        """Be the host of `loop`, from now on."""
        self.loop = loop

    def is_foreign(self) -> bool:
        """Whether this is another thread than the loop's own."""
        if COMPILED:
            foreign: bool = thread_ident() != self.loop.runq.thread
        else:
            foreign = get_ident() != self.loop.runq.thread
        return foreign

    # -- beginnings

    def spawn(
        self,
        factory: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parent: Any,
        name: str | None,
        mailbox: MailboxConfig | None,
        settings: Settings | None,
        drain: Any,
        dispatcher: str | None = None,
    ) -> Any:
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
            family = self.top
        else:
            family = self._family_of(parent)
            if settings is None:
                settings = parent._cell.body.settings()
        if name is not None:
            family.require_free(name, parent)
        place = None
        if dispatcher is not None or self.is_placing:
            dispatcher, place = self.port.place_for(dispatcher, spec, name, parent)
        cell = self.loop.spawn(None, None, self.mailbox if mailbox is None else mailbox)
        ref = self._new_ref(cell, spec.label if name is None else name, parent)
        if place is not None:
            body = place.new_context()
            body.extra().place = place
            cell.alert |= AWAY
            if place.is_apart:  # the quick way into its mailbox is shut: each message is looked at first
                cell.alert |= GUARDED
                cell.limit = 0
        else:
            body = new_object(Context) if COMPILED else Context()
        body.cell = cell
        body.spec = spec
        if settings is not None and settings is not self.settings:
            body.extra().settings = settings
        cell.ref = ref
        cell.body = body
        family.add(body, name)
        if drain is not None:
            body.extra().drain = drain
        if dispatcher is not None:
            body.extra().dispatcher = dispatcher
        if self._keeps_history:
            body.extra().history = [State.CREATED]
        self.spawned += 1
        cell.order(self._start_order)
        return ref

    def _new_ref(self, cell: Cell, name: Any, parent: Any) -> Any:
        ref = new_object(ActorRef) if COMPILED else ActorRef.__new__(ActorRef)
        ref._cell = cell
        ref._name = name
        ref._parent = parent
        return ref

    def _family_of(self, parent: Any) -> Family:
        body = parent._cell.body
        if not isinstance(body, Body):
            raise ActorTerminated(parent, body.reason)
        if body.more is not None and body.more.phase in (ending.WAITING, ending.CLOSING):
            raise ActorTerminated(parent, "its children are being stopped")
        if body.family is None:
            body.family = Family()
        return body.family

    def enter(self, body: Body, state: int) -> None:
        """Let `body` be in `state`."""
        body.state = state
        if body.more is not None and body.more.history is not None:
            body.more.history.append(STATES[state])

    def _start(self, cell: Cell) -> Any:
        body = cell.body
        if body.state != CREATED:
            return None
        spec = body.spec
        self.enter(body, STARTING)
        blueprint = spec.blueprint
        if blueprint is None or not blueprint.plain or place_of(body) is not None:
            return begin(starting.start(self, cell, body))
        actor = spec.factory(*spec.args, **spec.kwargs) if spec.args or spec.kwargs else spec.factory()
        if type(actor) is not blueprint.actor_class:  # its `__new__` has its own mind
            starting.install(body, actor)
        else:
            actor.ctx = body
            cell.handler = blueprint.handler
            cell.subject = actor
        self.begin_to_run(cell, body)
        return None

    def begin_to_run(self, cell: Cell, body: Body) -> None:
        """It is ready for its first message."""
        self.enter(body, RUNNING)
        more = body.more
        standing = None if more is None else more.standing
        if self.loop.hooks.actor_started is not None and (standing is None or standing.incarnation == 1):
            self.loop.hooks.actor_started(cell.ref)
        if more is not None:
            more.never_ran = False
            if more.waiters:
                starting.tell_started(more, None)
            if standing is not None:
                restarting.has_begun(self, cell, body, standing)

    # -- what the loop asks

    def verdict(self, cell: Cell, verdict: Any) -> None:
        """A handler returned a behavior."""
        if verdict is STOPPED_VERDICT:
            self.request_end(cell, NORMAL)
        elif verdict is not SAME_VERDICT:
            starting.become_next(cell, verdict)

    def notice(self, cell: Cell, notice: Any) -> Any:
        """Handle a notice in its turn."""
        body = cell.body
        if isinstance(notice, Terminated):
            return deliver(body, notice)
        if isinstance(notice, ChildTerminated):
            return begin(call_hook(body, "on_child_terminated", notice, notice.ref, notice.cause))
        if isinstance(notice, Exit):
            return bonds.deliver_exit(body, notice)
        if isinstance(notice, Down):
            return bonds.deliver_down(body, notice)
        if notice is STOP_IN_ORDER:
            self.request_end(cell, NORMAL)
            return None
        if isinstance(notice, ReceiveTimeout) and (body.more.quiet is None or not body.more.quiet.is_still_quiet()):
            return None
        return hand_to_actor(body, notice)

    def send_away(self, cell: Cell, message: object, sender: object, lane: int) -> Any:
        """Have a message to an actor that works elsewhere handled there."""
        return cell.body.more.place.carry(cell, message, sender, lane)

    def intercept(self, cell: Cell, message: object, sender: object, lane: object) -> bool:
        """A message to an actor in another process: one that cannot be sent there is refused."""
        self.examine(cell, message)
        return False

    def examine(self, cell: Cell, message: object) -> None:
        """The same, from any thread."""
        body = cell.body
        if isinstance(body, Body) and body.more is not None:
            body.more.place.examine(message)

    def awaits(self, question: object) -> None:
        """A handler waits for an actor in another process: who waits for whom is known here."""

    def gave_up(self, question: object) -> None:
        """Nobody waits for its answer any more."""

    def absorb(self, cell: Cell, result: object) -> object:
        """An actor that works elsewhere has returned this; what is left of it for the loop to do. Any thread."""
        if result is SAME_VERDICT:
            return None
        if isinstance(result, Behavior) and result is not STOPPED_VERDICT and not result.unhandled:
            starting.become_next(cell, result)
            return None
        return result

    def call(self, what: str, action: Any) -> Any:
        """Do something on the loop's own thread, and wait for its result."""
        return self.port.call(what, action)

    def touched(self, cell: Cell) -> None:
        """An actor with a receive timeout takes a message."""
        cell.body.more.quiet.touch()

    def suspended(self, cell: Cell) -> None:
        """A handler suspends while an order to end waits for it, or a hook does: an ending must not wait for ever."""
        body = cell.body
        if not isinstance(body, Body):
            return
        more = body.more
        if (more is not None and more.phase) or self.is_told_to_change(cell):
            self.set_deadline(cell, body)

    def is_told_to_stop(self, cell: Cell) -> bool:
        """Whether an order to end waits."""
        endings = (self._stop_order, self._shutdown_order, self._kill_order, self._close_order)
        return any(order in endings for order in cell.waiting_orders())

    def is_told_to_change(self, cell: Cell) -> bool:
        """Whether an order to end, to fail or to be restarted waits."""
        return self.is_told_to_stop(cell) or any(isinstance(order, Failing | Leave) for order in cell.waiting_orders())

    def forget_stops(self, cell: Cell) -> None:
        """The actor failed before it came to stop: it is restarted instead."""
        cell.withdraw((self._stop_order, self._shutdown_order))

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        """A handler, notice or order let `cause` out."""
        if ends_system(cause):
            self.port.fail(cause)
        body = cell.body
        if not isinstance(body, Body):
            return
        more = body.extra()
        asked_for = more.deadline is not None and more.deadline.cancelled and not isinstance(message, Failing)
        if asked_for and isinstance(cause, CancelledError):
            return  # an order to end waits
        if more.phase != ending.NONE:
            return  # its ending goes on
        decision.judge(self, cell, body, message, cause)

    def ref_of(self, cell: Cell) -> object:
        """A ref for a cell that has lost its own: an ended actor's."""
        left = cell.body
        if type(left) is not Obituary:
            return cell
        return self._new_ref(cell, left.name, left.parent)

    def address_of(self, ref: Any) -> tuple[str, int, str]:
        """Where a ref can be found again, by whoever is sent it: its system, its number there, its path."""
        self.pickled[ref._cell.id] = ref._cell
        return self.port.token, ref._cell.id, ref.path

    def find(self, cell_id: int, path: str) -> Any:
        """The ref of an actor by its id; for one that is gone, a ref whose messages are dead letters."""
        cell = self.loop.table.find(cell_id) or self.pickled.get(cell_id)
        if cell is not None:
            return cell.shown()
        ghost = Cell.__new__(Cell)
        ghost.set_up(self.loop, self.loop.runq, None, None, MailboxConfig())
        ghost.id = cell_id
        ghost.close()
        ghost.ending = True
        ghost.ended = ENDED
        above, _, name = path.rpartition("/")
        unknown = ExitReason(ExitKind.PANIC, RefGone(self.port.name, path, "it has ended, nobody knows how"))
        parent = (self.port.actor(above) or self.find(0, above)) if above else None
        ghost.body = obituary_of(unknown, name, parent, None)
        return self._new_ref(ghost, name, ghost.body.parent)

    def reason_of(self, cell: Cell) -> ExitReason | None:
        """How an actor ended, or is about to."""
        left: Any = cell.body
        if type(left) is Obituary:
            reason: ExitReason = left.reason
            return reason
        if left is None:
            return None
        if left.more is not None and left.more.ending is not None:
            decided: ExitReason = left.more.ending
            return decided
        waiting = cell.waiting_orders()
        return NORMAL if self._stop_order in waiting else SHUTDOWN if self._shutdown_order in waiting else None

    def lives_on(self, cell: Cell) -> bool:
        """Whether an actor is not to end for good, as far as is decided: it goes on, or is restarted."""
        body = cell.body
        if self.closed or not isinstance(body, Body):
            return False
        more = body.more
        standing = None if more is None else more.standing
        if standing is not None and (standing.comes_back or standing.resting or standing.escalated):
            return True
        reason = self.reason_of(cell)
        if reason is None:
            return more is None or more.phase == ending.NONE
        return standing is not None and ending.is_to_come_back(self, body, reason)

    def is_owed_time(self) -> bool:
        """Whether messages are queued for somebody who waits to be started again."""
        return any(cell.queued() for cell in self.resting)

    def log_fields(self, cell: Cell) -> dict[str, object]:
        """What a log record about an actor has in its fields."""
        return {"actor": cell.name(), "actor_id": cell.id, "system": self.port.name}

    def dead_letter(self, cell: Cell, message: object, sender: Any, why: str) -> None:
        """A message can never be handled."""
        shown = sender.shown_sender() if isinstance(sender, Slip) else sender
        self.port.dead_letters.publish(message, shown, cell.shown(), why)

    def unhandled(self, cell: Cell, message: object, sender: object) -> None:
        """A message was not for its actor."""
        shown = sender.shown_sender() if isinstance(sender, Slip) else sender
        self.publish(message, shown, cell.shown(), "unhandled")

    def late_reply(self, cell: Cell, value: object, asker: object) -> None:
        """An actor answered when nobody waited any more. Any thread."""
        self.loop.door.totals.late_replies += 1
        cell.count_aside().late_replies += 1
        self.publish(value, cell.shown(), asker, "late reply")

    def publish(self, message: object, sender: object, recipient: object, why: str) -> None:
        """Something that is no message of the ledger, or is counted in another column, is a dead letter."""
        self.port.dead_letters.publish(message, sender, recipient, why)
        if self.loop.hooks.dead_letter is not None:
            self.loop.hooks.dead_letter(recipient, message, sender, why)

    def dropped(self, cell: Cell, message: object, sender: object, lane: object) -> None:
        """A message was dropped by the overflow policy: that is counted, and observers are told."""

    # -- ends

    def request_end(self, cell: Cell, reason: ExitReason) -> None:
        """Tell an actor to end, after the message in hand. From any thread."""
        if cell.is_foreign():
            self.loop.inbound.call(cell, partial(self.request_end, cell, reason))
            return
        body = cell.body
        if not isinstance(body, Body):
            return
        if reason is KILLED:
            more = body.extra()
            if more.phase != ending.CLOSING:
                more.ending = KILLED
            if cell.orders is not None:
                self._overtake(cell)
            cell.order(self._kill_order)
        else:
            cell.order(self._stop_order if reason is NORMAL else self._shutdown_order)
        if cell.task is not None:
            if reason is not KILLED:
                self.set_deadline(cell, body)
            else:
                forcing.cancel_handler(self, cell, body.extra())

    def _overtake(self, cell: Cell) -> None:
        """It is killed: it does not come to the stops, and the restarts, that were asked for before."""
        ends = (self._stop_order, self._shutdown_order)
        waiting = cell.waiting_orders()
        cell.withdraw(tuple(one for one in waiting if one in ends or (isinstance(one, Leave) and one.at_once)))

    def request_failure(self, cell: Cell, cause: BaseException, child: Any = None) -> None:
        """Let an actor fail, after the message in hand; because `child` escalated, if one did. From any thread."""
        self._request(cell, Failing(cause, child))

    def request_restart(self, cell: Cell, order: Leave) -> None:
        """Let an actor be made afresh, after the message in hand. From any thread."""
        self._request(cell, order)

    def _request(self, cell: Cell, order: Any) -> None:
        if cell.is_foreign():
            self.loop.inbound.call(cell, partial(self._request, cell, order))
            return
        body = cell.body
        if isinstance(body, Body):
            cell.order(order)
            if cell.task is not None:
                self.set_deadline(cell, body)

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

    def _stop(self, cell: Cell) -> Any:
        return self._end(cell, NORMAL)

    def _shut_down(self, cell: Cell) -> Any:
        return self._end(cell, SHUTDOWN)

    def _kill(self, cell: Cell) -> Any:
        return self._end(cell, KILLED)

    def _end(self, cell: Cell, reason: ExitReason) -> Any:
        if not isinstance(cell.body, Body):
            return None
        body = cell.body
        if body.more is None and body.family is None and (body.state == CREATED or self._is_plain(body)):
            if reason is not KILLED and body.state != CREATED:
                body.state = STOPPING
            self.finish(cell, body, reason)
            return None
        return begin(ending.end(self, cell, body, reason), body)

    def _is_plain(self, body: Body) -> bool:
        """Whether nothing of the actor has to run at its end."""
        spec = body.spec
        blueprint = spec.blueprint
        return blueprint is not None and blueprint.plain

    def _close(self, cell: Cell) -> Any:
        body = cell.body
        return begin(ending.close(self, cell, body), body) if isinstance(body, Body) else None

    def conclude(self, cell: Cell, body: Body) -> None:
        """An ending is done, but for its last steps: for good, or until a restart."""
        more = body.extra()
        if more.standing is not None and more.standing.comes_back:
            restarting.rest(self, cell, body, SHUTDOWN if more.ending is None else more.ending)
        else:
            self.finish(cell, body, more.ending)

    def finish(self, cell: Cell, body: Body, reason: ExitReason) -> None:
        """Steps 9 to 15 of an ending."""
        if cell.body is not body:
            return  # it has been forced to end meanwhile
        ref = cell.ref
        more = body.more
        if body.state == STOPPING:
            self.enter(body, STOPPED)
        if more is not None:
            self.clear_deadline(body)
            ending.let_go(body, more)
            if more.standing is not None:
                report_undecided(cell, more.standing)
                restarting.forget(cell, body, more.standing)
            if more.place is not None:
                more.place.let_go()
        parent = ref._parent
        family = self.top if parent is None else parent._cell.body.family
        family.remove(body, ref._name)
        # Before its messages go, so that whoever is told of them can be told how it ended.
        cell.body = obituary_of(reason, ref._name, parent, None if more is None else more.history)
        self.loop.retire(cell, "stopped")
        self.enter(body, TERMINATED)
        # What kept one another alive lets go: an ended actor is freed at once, not by the garbage collector.
        cell.subject = cell.handler = cell.ref = cell.context = None
        self.terminated += 1
        if more is not None:
            ending.tell(more, reason)
        if body.watchers is not None:
            tell_watchers(body.watchers, cell, ref, reason)
        if more is not None and more.bonds is not None:
            bonds.tell(more.bonds, cell, ref, reason)
        if parent is not None:
            self._tell_parent(parent._cell, ref, reason, None if more is None else more.standing)
        else:
            self._tell_system(cell, reason)
        if self.loop.hooks.actor_stopped is not None:
            self.loop.hooks.actor_stopped(ref, reason)

    def _tell_system(self, cell: Cell, reason: ExitReason) -> None:
        if cell is self.root:
            self.root = None
            self.port.root_has_ended(reason)
        if self.closed and self.top.count == 0:
            self.port.everybody_has_gone()

    def _tell_parent(self, cell: Cell, ref: Any, reason: ExitReason, standing: Any) -> None:
        body = cell.body
        more = body.more
        if more is not None and more.phase == ending.WAITING:
            if body.family.count == 0:
                cell.order(self._close_order)
            elif more.orderly:
                ending.end_children(self, body, SHUTDOWN)
        elif standing is not None and standing.keeper is not None:
            standing.keeper.gone(ref._cell, reason)
        elif not cell.closed and starting.cares_for_children(body):
            cell.notify(ChildTerminated(ref, reason.cause, reason))

    def set_deadline(self, cell: Cell, body: Body) -> None:
        """Force the actor to end if it has not by then; the first deadline stands, until it has had its effect."""
        more = body.extra()
        if more.deadline is not None and more.deadline.is_over():
            self.clear_deadline(body)
        if more.deadline is None:
            seconds = forcing.patience_of(self, more)
            if seconds < inf:
                more.deadline = forcing.Deadline(cell, seconds)

    def clear_deadline(self, body: Body) -> None:
        """It has ended in time."""
        more = body.extra()
        if more.deadline is not None:
            more.deadline.disarm(self.loop.timers)
            more.deadline = None

    def note_forced(self, cell: Cell) -> None:
        """Remember that an actor had to be forced."""
        self.forced[cell.name()] = None
