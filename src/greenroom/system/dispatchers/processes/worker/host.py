"""The host of a worker's loop. It carries out the orders of the main process.

This loop has two kinds of cells: those of hosted actors, whose messages are handled here, and stubs for all other
actors, whose messages are forwarded to the main process at once.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from greenroom._core.flags import INTERCEPTED, NOTIFY_TAKEN, PROPAGATES
from greenroom._core.mailbox.cell import Cell
from greenroom._core.mailbox.mailbox import Mailbox
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.host import Host
from greenroom.actor.api.behavior import SAME, STOPPED, become_next
from greenroom.actor.failure.reports import declared_as, is_heard
from greenroom.actor.life.spec import ActorSpec
from greenroom.actor.messaging.address import Address, direct
from greenroom.actor.messaging.question import Question
from greenroom.actor.records.record import Settings, attach_record
from greenroom.actor.records.states import State
from greenroom.clock import TURNS
from greenroom.errors import TroupeEnding, WorkerLost
from greenroom.lanes import LARGEST_CAPACITY, Lane, MailboxConfig
from greenroom.system.dispatchers.processes.protocol import HOLDER, NUMBERED, TICKS, UNHANDLED, WAITS_FOR_ROOM, error_of
from greenroom.system.dispatchers.processes.worker.actor import HostedActor
from greenroom.system.dispatchers.processes.worker.channel import MainChannel
from greenroom.system.dispatchers.processes.worker.stubs import RemoteContext, RemoteRef, RemoteSystem
from greenroom.wire.address import ActorAddress
from greenroom.wire.codec import Packed, registered_names

if TYPE_CHECKING:
    from greenroom._core.behavior import BehaviorBase
    from greenroom._core.scheduler.loop import Loop
    from greenroom.system.dispatchers.processes.protocol import Entry
    from greenroom.wire.transport import Buffer

__all__ = ["WorkerHost"]

_LARGE = 1 << 16
"""A message of more bytes is sent at once, not at the end of the tick."""
_SIZED = (str, bytes, Packed)
_ROOMY = MailboxConfig(capacity=LARGEST_CAPACITY)


class WorkerHost(Host):
    """The host of one worker's loop, with its hosted actors. For the loop's own thread only."""

    loop: Loop
    channel: MainChannel
    page: memoryview
    """The memory in which we say whose code runs."""
    closed = False
    """Whether the system is ending: that is known at home."""

    def __init__(self, system: str) -> None:
        self.system = RemoteSystem(system, self)
        self.settings = Settings(None, {})  # type: ignore[arg-type]
        self.actors: dict[int, HostedActor] = {}
        self._by_cell: dict[Cell, HostedActor] = {}
        # The actors that may have progress to report.
        self.active: dict[HostedActor, None] = {}
        self._is_report_due = False
        # After how many turns of asyncio we look whether there is nothing to do, if that is due; after how many frames
        # there was last nothing to do; and how often a handler has said that it blocks, and not that it goes on.
        self._turns_left = 0
        self._idle_after = -1
        self._blocked = 0
        self._refs: WeakValueDictionary[tuple[str, int, str], RemoteRef] = WeakValueDictionary()
        # Whether the system has a `ManualClock`.
        self.is_manual = False
        # Questions of hosted actors that are not answered, with the numbers of their requests.
        self._asked: dict[Question, int] = {}
        # Where those actors have their marks whose messages are to outlive this process.
        self._marked: dict[HostedActor, int] = {}

    @property
    def token(self) -> str:
        """For the watchdog."""
        return self.system.name

    def serve(self, loop: Loop, channel: MainChannel, page: memoryview) -> None:
        """Be the host of `loop`, take the orders that arrive by `channel`, and say in `page` whose code runs."""
        self.loop = loop
        self.channel = channel
        self.page = page
        loop.visits.hold(page[HOLDER : HOLDER + 1])
        channel.on_order = self._take_order
        channel.before_flush = self._report_active
        if self.is_manual:
            channel.after_frame = self._rest_soon

    # -- refs

    def find(self, token: str, cell_id: int, path: str) -> RemoteRef:
        key = (token, cell_id, path if cell_id == 0 else "")
        known = self._refs.get(key)
        if known is not None:
            return known
        address = ActorAddress(token, cell_id, path)
        cell = Cell.__new__(Cell)
        cell.set_up(self.loop, self.loop.runq, _leave, self, Mailbox(MailboxConfig()))
        cell.id = cell_id
        cell.limit = 0
        cell.flags |= INTERCEPTED if self.loop.admission.propagation is None else INTERCEPTED | PROPAGATES
        ref = RemoteRef.__new__(RemoteRef)
        above = self.find(token, 0, address.above) if address.above else None
        direct(ref, cell, address.name, above)
        cell.ref = ref
        cell.record = address
        self._refs[key] = ref
        return ref

    def address_of(self, ref: Address) -> ActorAddress:
        address: ActorAddress = ref._cell.record
        return address

    # -- orders of the main process

    def _take_order(self, head: Entry, parts: Sequence[Buffer]) -> None:
        held_by = self.page[HOLDER]  # not 0 if a handler waits for something at once, and we are pumping
        self.page[HOLDER] = NUMBERED | head[1]  # decoding is the user's code too
        try:
            self._carry_out(head, parts)
        finally:
            self.page[HOLDER] = held_by

    def _carry_out(self, head: Entry, parts: Sequence[Buffer]) -> None:
        word, number, *rest = head
        if word == "observe":
            if rest[0]:
                self.loop.hooks.trust(self)
            else:
                self.loop.hooks.remove(self)
            return
        if word == "enter":
            call, base, marks = rest
            self._enter(number, call, base, marks, parts)
            return
        actor = self.actors.get(number)
        if actor is None:
            return
        if word == "messages":
            self._take_in(actor, parts, *rest)
        elif word == "call":
            self._call(actor, parts, *rest)
        elif word == "hurry":
            actor.hurry(rest[0])
        elif word == "cancel":
            if actor.cell.task is not None:
                actor.cell.task.cancel()
            self.channel.post("cancelled", number)
        elif word == "leave":
            self._release(actor)

    # -- handlers that take long

    def slow_handler(self, ref: object, message: object, seconds: float) -> None:
        """A handler took long: observers are in the main process."""
        self.channel.post("slow", _address(ref), self._shown(message), seconds)

    def stuck(self, ref: object, message: object, seconds: float, stack: str) -> None:
        """A handler does not end. Called on another thread."""
        self.channel.post_from_outside("stuck", _address(ref), self._shown(message), seconds, stack)

    def _enter(self, number: int, call: int, base: int, marks: int, parts: Sequence[Buffer]) -> None:
        try:
            ((ref, made, env, names),) = self.channel.decode(parts)
        except Exception as exc:
            self.channel.post("called", number, call, False, self.channel.failure(exc))
            return
        self.channel.codec.peer_knows(names)
        self.channel.post("hello", registered_names())  # decoding may have imported modules that register types
        cell = self.loop.spawn(None, None, _ROOMY)
        kind, factory, args, kwargs = made
        spec = ActorSpec(kind, factory, kwargs)
        record = RemoteContext()
        attach_record(record, cell, spec, args)
        record.stage = record.state = State.RUNNING.code
        record.ensure_extras().settings = Settings(None, env)  # type: ignore[arg-type]
        cell.ref = ref
        actor = HostedActor(self, number, cell, base)
        if marks:
            cell.flags |= NOTIFY_TAKEN
            self._marked[actor] = marks
        record.ensure_extras().executor = actor
        self.actors[number] = actor
        self._by_cell[cell] = actor
        self.channel.post("entered", number, cell.id)
        self.channel.flush()  # its constructor may take long
        cell.order(partial(actor.call, call, "make", (spec,)))

    def _take_in(
        self,
        actor: HostedActor,
        parts: Sequence[Buffer],
        number: int,
        epoch: int,
        lane: int,
        count: int,
        senders: object,
    ) -> None:
        if not actor.wants(epoch):
            return
        try:
            messages = self.channel.decode(parts)
        except Exception as exc:
            actor.cannot_read(number, count, exc)
            return
        actor.take_in(number, lane, messages, senders)

    def _call(self, actor: HostedActor, parts: Sequence[Buffer], call: int, name: str) -> None:
        try:
            (arguments,) = self.channel.decode(parts)
        except Exception as exc:
            actor.call_failed(call, exc)
            return
        actor.cell.order(partial(actor.call, call, name, arguments))

    def _release(self, actor: HostedActor) -> None:
        """Stop hosting an actor: cancel what it has under way."""
        actor.is_gone = True
        self.active.pop(actor, None)
        self._marked.pop(actor, None)
        self.actors.pop(actor.number, None)
        self.loop.inbound.post(None, lambda: self._retire(actor))

    def _retire(self, actor: HostedActor) -> None:
        cell = actor.cell
        self._by_cell.pop(cell, None)
        pipes = list(cell.record.ensure_extras().pipes)
        for pipe in pipes:
            pipe.cancel()
        if cell.task is not None:
            self.loop.visits.abandon(cell)
        while cell.waiting():
            self.loop.admission.take_next(cell)
        self.loop.retire(cell)
        cell.forget_code()

    # -- progress reports

    def report_all(self) -> None:
        """Report the progress of the hosted actors, and send the mail; called after each tick."""
        self._is_report_due = False
        self.page[TICKS] += 1
        self.channel.flush()
        for actor, marks in self._marked.items():
            self.page[marks] = actor.done()
        if self.is_manual:
            self._rest_soon()

    def _report_active(self) -> None:
        for actor in list(self.active):
            if not actor.update():
                self.active.pop(actor, None)

    def report_soon(self) -> None:
        """Report progress that was made outside of a tick."""
        if not self._is_report_due:
            self._is_report_due = True
            self.loop.visits.stepper.aio.call_soon(self.report_all)  # type: ignore[union-attr]  # it is attached

    # -- for a clock that is turned by hand: time passes when nobody has anything to do

    def _rest_soon(self) -> None:
        """Look whether there is nothing to do, when asyncio has done what it has ready from now on."""
        if not self._turns_left:
            self.loop.visits.stepper.aio.call_soon(self._turn)  # type: ignore[union-attr]  # it is attached
        self._turns_left = TURNS

    def _turn(self) -> None:
        self._turns_left -= 1
        if self._turns_left:
            self.loop.visits.stepper.aio.call_soon(self._turn)  # type: ignore[union-attr]  # it is attached
        elif self.loop.runq.asleep and not self.loop.has_work() and self._idle_after != self.channel.frames:
            self._idle_after = self.channel.frames
            self.channel.post("idle", self.channel.frames)

    def block(self) -> None:
        """A handler is about to block this thread, on something that only others can bring about."""
        self._blocked += 1
        if self._blocked == 1:
            self.channel.post("blocks", 1)
            self.channel.flush()

    def unblock(self) -> None:
        self._blocked -= 1
        if self._blocked == 0:
            self.channel.post("blocks", 0)
            self.channel.flush()

    # -- called by the loop

    def message_taken(self, cell: Cell) -> None:
        """An actor begins with a message: mark that, once what it has sent before is on its way."""
        actor = self._by_cell.get(cell)
        marks = None if actor is None else self._marked.get(actor)
        if actor is None or marks is None:
            return
        if self.channel.has_mail() or actor.has_asides():
            self.channel.flush()
        number = actor.done()
        self.page[marks] = number
        self.page[marks + 1] = number + 1

    def current_number(self) -> int:
        """The number of the actor whose code runs here; 0 if none does, or this is not the loop's own thread."""
        hand = self.loop.visits.hand if get_ident() == self.loop.runq.thread else None
        actor = None if hand is None else self._by_cell.get(hand)
        return 0 if actor is None else actor.number

    def intercept(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """Forward a message to an actor in another process, at once."""
        self.forward(cell, message, sender, int(lane))
        return True

    def examine(self, cell: Cell, message: object) -> None:
        """Check a message that another thread sends to such an actor; it is forwarded in its turn."""
        self.channel.pack(message)

    def is_elsewhere(self, cell: Cell) -> bool:
        """Whether a cell stands for an actor whose mailbox is in another process: all do that can be asked."""
        return True

    def asks_elsewhere(self, question: Question, message: object, lane: Lane) -> bool:
        """Put a question whose message waits for room: where the mailbox is."""
        try:
            self.forward(question.target, message, question, int(lane), WAITS_FOR_ROOM)
        except Exception as exc:
            question.refuse(exc)
        return True

    def may_block(self) -> bool:
        """Whether this is a plain `def` of a hosted actor, and no coroutine: it may block our thread."""
        visits = self.loop.visits
        if get_ident() != self.loop.runq.thread or visits.hand is None or visits.hand not in self._by_cell:
            return False
        return not visits.stepper.is_stepping()

    def forward(self, cell: Cell, message: object, sender: object, lane: int, how: int = 0) -> None:
        """Send a message to the main process, which delivers it."""
        propagation = self.loop.admission.propagation
        values = sender.propagated() if propagation is not None and isinstance(sender, Receipt) else None
        if propagation is not None and values:  # of where it was sent: this may be later
            propagation.context_of(values).run(self._forward, cell, message, sender, lane, how)
        else:
            self._forward(cell, message, sender, lane, how)

    def _forward(self, cell: Cell, message: object, sender: object, lane: int, how: int) -> None:
        if self.channel.is_forked:
            raise WorkerLost(f"{cell.shown()} cannot be reached from a forked process: let its parent send this")
        given = self.channel.pack(message)
        if isinstance(sender, Question):
            question = sender

            def told(ok: bool, value: object) -> None:
                self._asked.pop(question, None)
                if ok:
                    question.answer(value)
                else:
                    question.refuse(error_of(value))

            asker = None if question.asker is None else self._by_cell.get(question.asker)
            number = 0 if asker is None else asker.number
            shown = _address(question.shown_sender())
            entry = (number, cell.record, given, shown, lane, question.timeout, how)
            self._asked[question] = self.channel.ask(told, "ask", *entry)
        else:
            teller = sender.shown_sender() if isinstance(sender, Receipt) else sender
            self.channel.post_within("tell", cell.record, given, _address(teller), lane)
            if isinstance(given, _SIZED) and len(given) > _LARGE:
                self.channel.flush()  # this blocks while the connection is congested, so that memory does not fill up

    def awaits(self, question: object) -> None:
        """A handler waits for an answer. The main process must know, to detect a deadlock."""
        self._report_question(question, "awaits")

    def gave_up(self, question: object) -> None:
        self._report_question(question, "gives up")

    def _report_question(self, question: object, word: str) -> None:
        number = self._asked.get(question) if isinstance(question, Question) else None
        if not isinstance(question, Question) or number is None:
            return
        actor = None if question.asker is None else self._by_cell.get(question.asker)
        if actor is not None:
            self.channel.post(word, actor.number, number)
        elif word == "gives up":  # a thread that a handler has started
            self.channel.post("withdraw", number)

    def behavior_returned(self, cell: Cell, behavior: BehaviorBase) -> None:
        if behavior is STOPPED:
            self.request_own_end(cell)
        elif behavior is not SAME:
            become_next(cell, behavior)

    def request_own_end(self, cell: Cell) -> None:
        actor = self._by_cell.get(cell)
        if actor is not None:
            actor.stop()

    def unhandled(self, cell: Cell, message: object, sender: object) -> None:
        actor = self._by_cell.get(cell)
        if actor is not None:
            actor.set_aside(UNHANDLED)

    def refuses(self, cell: Cell, message: object, sender: object, cause: BaseException) -> bool:
        """Whether what the handler of a hosted actor raised is one of its answers. The main process counts and logs."""
        actor = self._by_cell.get(cell)
        declared = None if actor is None or actor.is_gone else declared_as(cell.record, cause)
        if actor is None or declared is None:
            return False
        is_quiet = is_heard(sender) or declared is TroupeEnding
        actor.refused(None if is_quiet else (type(message).__name__, declared.__name__), cause)
        return True

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        actor = self._by_cell.get(cell)
        if actor is not None and not actor.is_gone:
            actor.failed(cause)

    def lives_on(self, cell: Cell) -> bool:
        """Whether an actor is not ending. Only the main process knows; here we assume so."""
        return True

    def reason_of(self, cell: Cell) -> None:
        """How an actor ended. Only the main process knows."""

    def late_reply(self, cell: Cell, value: object, asker: object) -> None:
        """An actor replied too late."""
        self.channel.post_from_outside("late", _address(cell.shown()), self._shown(value), _address(asker))

    def publish(self, message: object, sender: object, recipient: object, why: str) -> None:
        self.channel.post_from_outside("letter", self._shown(message), _address(sender), _address(recipient), why)

    def _shown(self, message: object) -> object:
        """The packed message, or its `repr` if it cannot be sent."""
        try:
            return self.channel.pack(message)
        except Exception:
            return repr(message)[:1000]

    def dead_letter(self, cell: Cell, message: object, sender: object, why: str) -> None:
        """A message can never be handled. The main process takes care of those to hosted actors."""
        if cell not in self._by_cell and why != "stopped":
            shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
            self.publish(message, shown, cell.shown(), why)


def _leave(host: WorkerHost, message: object) -> None:
    """The handler of a stub's cell, for messages that other threads have sent."""
    visits = host.loop.visits
    assert visits.hand is not None
    host.forward(visits.hand, message, visits.sender, visits.lane)
    visits.let_sender_go()  # the main process answers


def _address(ref: object) -> ActorAddress | None:
    """The address of a ref; None for anything else."""
    if not isinstance(ref, Address):
        return None
    address: ActorAddress = ref._cell.loop.host.address_of(ref)
    return address
