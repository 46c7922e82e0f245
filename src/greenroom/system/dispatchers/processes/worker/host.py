"""The host of a worker's loop, and what home tells it.

The cells of this loop are of two kinds: guests, whose messages are handled here, and stand-ins for actors that are
elsewhere, whose messages leave at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from greenroom._core.flags import INTERCEPTED
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Receipt
from greenroom._core.scheduler.host import Host
from greenroom.actor.api.becoming import become_next
from greenroom.actor.api.behavior import SAME, STOPPED
from greenroom.actor.life.spec import ActorSpec
from greenroom.actor.messaging.address import Address, direct
from greenroom.actor.messaging.question import Question
from greenroom.actor.records.record import Settings, attach_record
from greenroom.actor.records.states import State
from greenroom.lanes import LARGEST_CAPACITY, Lane, MailboxConfig
from greenroom.system.dispatchers.processes.worker.actor import CallOrder, HostedActor
from greenroom.system.dispatchers.processes.worker.channel import MainChannel
from greenroom.system.dispatchers.processes.worker.stubs import RemoteContext, RemoteRef, RemoteSystem
from greenroom.wire.address import ActorAddress
from greenroom.wire.codec import Packed, registered_names

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.exits import ExitReason

__all__ = ["WorkerHost"]

_LARGE = 1 << 16
"""Bytes of a message that is sent at once."""
_SIZED = frozenset((str, bytes, Packed))
_TURNS = 5
"""Turns of asyncio in which what is ready comes to rest, as for a `ManualClock`."""
_ROOMY = MailboxConfig(capacity=LARGEST_CAPACITY)


class WorkerHost(Host):
    """Keeps the guests of one worker. Belongs to the loop's own thread."""

    def __init__(self, system: str) -> None:
        self.port = RemoteSystem(system, self)
        self.settings = Settings(None, {})
        self.loop: Any = None
        self.channel: Any = None
        self.actors: dict[int, HostedActor] = {}
        self._by_cell: dict[Cell, HostedActor] = {}
        # Those that have been given something to do, and may have done it.
        self.active: dict[HostedActor, None] = {}
        self._is_look_due = False
        # Whether it will be looked whether all is idle; and after how many frames that was last reported.
        self._is_rest_due = False
        self._idle_after = -1
        self._refs: WeakValueDictionary[tuple[str, int, str], RemoteRef] = WeakValueDictionary()
        # What system this is a worker of, by its token; known from the first guest on.
        self.is_manual = False
        # Questions of guests that have no answer, by the numbers that home knows them by.
        self._asked: dict[Question, int] = {}

    def serve(self, loop: Loop, channel: MainChannel) -> None:
        """Be the host of `loop`, and home's ear."""
        self.loop = loop
        self.channel = channel
        channel.on_order = self._hear
        channel.before_flush = self._look_after_all
        if self.is_manual:
            channel.after_frame = self._rest_soon

    # -- refs

    def find(self, token: str, cell_id: int, path: str) -> Any:
        """The ref of an actor that is elsewhere."""
        key = (token, cell_id, path if cell_id == 0 else "")
        known = self._refs.get(key)
        if known is not None:
            return known
        address = ActorAddress(token, cell_id, path)
        cell = Cell.__new__(Cell)
        cell.set_up(self.loop, self.loop.runq, _leave, self, MailboxConfig())
        cell.id = cell_id
        cell.limit = 0
        cell.flags |= INTERCEPTED
        ref = RemoteRef.__new__(RemoteRef)
        above = self.find(token, 0, address.above) if address.above else None
        direct(ref, cell, address.name, above)
        cell.ref = ref
        cell.record = address
        self._refs[key] = ref
        return ref

    def address_of(self, ref: Any) -> ActorAddress:
        """Where a ref can be found again."""
        address: ActorAddress = ref._cell.record
        return address

    # -- what home tells

    def _hear(self, head: tuple[Any, ...], parts: list[Any]) -> None:
        word, number, *rest = head
        if word == "enter":
            call, base = rest
            self._enter(number, call, base, parts)
            return
        actor = self.actors.get(number)
        if actor is None:
            return
        if word == "messages":
            self._take_in(actor, rest, parts)
        elif word == "call":
            self._call(actor, rest, parts)
        elif word == "hurry":
            actor.hurry(rest[0])
        elif word == "cancel":
            if actor.cell.task is not None:
                actor.cell.task.cancel()
            self.channel.post("cancelled", number)
        elif word == "leave":
            self._see_off(actor)

    def _enter(self, number: int, call: int, base: int, parts: list[Any]) -> None:
        try:
            ((ref, made, env, names),) = self.channel.codec.decode(parts)
        except Exception as exc:
            self.channel.post("called", number, call, False, self.channel.failure(exc))
            return
        self.channel.codec.peer_knows(names)
        self.channel.post("hello", registered_names())  # what was just imported may have brought more
        cell = self.loop.spawn(None, None, _ROOMY)
        spec = ActorSpec(*made)
        record = RemoteContext()
        attach_record(record, cell, spec)
        record.state = State.RUNNING.code
        record.ensure_extras().settings = Settings(None, env)
        cell.ref = ref
        actor = HostedActor(self, number, cell, base)
        record.ensure_extras().executor = actor
        self.actors[number] = actor
        self._by_cell[cell] = actor
        cell.order(CallOrder(actor, call, "make", lambda: actor.make, (spec,)))

    def _take_in(self, actor: HostedActor, rest: list[Any], parts: list[Any]) -> None:
        number, epoch, lane, count, senders = rest
        if not actor.wants(epoch):
            return
        try:
            messages = self.channel.codec.decode(parts)
        except Exception as exc:
            actor.cannot_read(number, count, exc)
            return
        actor.take_in(number, lane, messages, senders)

    def _call(self, actor: HostedActor, rest: list[Any], parts: list[Any]) -> None:
        call, name = rest
        try:
            (arguments,) = self.channel.codec.decode(parts)
        except Exception as exc:
            actor.call_failed(call, exc)
            return
        actor.cell.order(CallOrder(actor, call, name, lambda: actor.hook(name), arguments))

    def _see_off(self, actor: HostedActor) -> None:
        """A guest leaves: what it has under way ends."""
        actor.is_gone = True
        self.active.pop(actor, None)
        self.actors.pop(actor.number, None)
        self.loop.inbound.call(None, lambda: self._clear_away(actor))

    def _clear_away(self, actor: HostedActor) -> None:
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
        cell.subject = cell.handler = cell.context = None

    # -- how far everybody is

    def look_after_all(self) -> None:
        """Tell home how far the guests are, and send what they have to say: after each tick."""
        self._is_look_due = False
        self.channel.flush()
        if self.is_manual:
            self._rest_soon()

    def _look_after_all(self) -> None:
        for actor in list(self.active):
            if not actor.look():
                self.active.pop(actor, None)

    def look_soon(self) -> None:
        """Something has happened outside of a tick."""
        if not self._is_look_due:
            self._is_look_due = True
            self.loop.visits.stepper.aio.call_soon(self.look_after_all)

    # -- for a clock that is turned by hand: time passes when nobody has anything to do

    def _rest_soon(self) -> None:
        """Look whether there is nothing to do, when asyncio has done what it has ready."""
        if not self._is_rest_due:
            self._is_rest_due = True
            self._turn(_TURNS)

    def _turn(self, left: int) -> None:
        if left:
            self.loop.visits.stepper.aio.call_soon(self._turn, left - 1)
            return
        self._is_rest_due = False
        if self.loop.runq.asleep and not self.loop.has_work():
            self.report_idle()

    def report_idle(self) -> None:
        """Tell the main process that there is nothing to do after so many frames, unless it knows."""
        if self._idle_after != self.channel.frames:
            self._idle_after = self.channel.frames
            self.channel.post("idle", self.channel.frames)

    def report_busy(self) -> None:
        """Tell the main process that there is something to do after all, though it sent nothing."""
        self._idle_after = -1
        self.channel.post("idle", -1)

    # -- what the loop tells

    def number_in_hand(self) -> int:
        """Whose code runs, on the loop's own thread; 0 for nobody's."""
        actor = None if self.loop.visits.hand is None else self._by_cell.get(self.loop.visits.hand)
        return 0 if actor is None else actor.number

    def intercept(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """A message to an actor that is elsewhere leaves at once."""
        self.forward(cell, message, sender, int(lane))
        return True

    def examine(self, cell: Cell, message: object) -> None:
        """The same from another thread: it leaves in its turn."""
        self.channel.pack(message)

    def forward(self, cell: Cell, message: object, sender: Any, lane: int) -> None:
        """Send a message home, to be sent on."""
        given = self.channel.pack(message)
        if isinstance(sender, Question):
            question = sender

            def told(ok: bool, value: Any) -> None:
                self._asked.pop(question, None)
                if ok:
                    question.answer(value)
                else:
                    question.refuse(value.restore())

            asker = None if question.asker is None else self._by_cell.get(question.asker)
            number = 0 if asker is None else asker.number
            shown = _address(question.shown_sender())
            entry = (number, cell.record, given, shown, lane, question.timeout)
            self._asked[question] = self.channel.ask(told, "ask", *entry)
        else:
            shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
            self.channel.post("tell", cell.record, given, _address(shown), lane)
            if type(given) in _SIZED and len(given) > _LARGE:
                self.channel.flush()  # which may have to wait for home: much of that would fill our memory

    def awaits(self, question: Any) -> None:
        """A guest's handler waits for an answer: home should know, for it may wait for itself."""
        self._tell_of(question, "awaits")

    def gave_up(self, question: Any) -> None:
        """It does so no longer."""
        self._tell_of(question, "gives up")

    def _tell_of(self, question: Any, word: str) -> None:
        number = self._asked.get(question)
        actor = self._by_cell.get(question.asker)
        if number is not None and actor is not None:
            self.channel.post(word, actor.number, number)

    def verdict(self, cell: Cell, verdict: Any) -> None:
        """A handler returned a behavior."""
        if verdict is STOPPED:
            self.request_end(cell, None)
        elif verdict is not SAME:
            become_next(cell, verdict)

    def request_end(self, cell: Cell, reason: ExitReason | None) -> None:
        """A guest is to stop."""
        actor = self._by_cell.get(cell)
        if actor is not None:
            actor.stop()

    def unhandled(self, cell: Cell, message: object, sender: object) -> None:
        """A message was not for its actor."""
        actor = self._by_cell.get(cell)
        if actor is not None:
            actor.unhandled()

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        """A guest's handler let `cause` out."""
        actor = self._by_cell.get(cell)
        if actor is not None and not actor.is_gone:
            actor.failed(cause)

    def lives_on(self, cell: Cell) -> bool:
        """Whether an actor is not to end: home knows, but here nobody does."""
        return True

    def reason_of(self, cell: Cell) -> None:
        """How an actor ended: home knows."""

    def late_reply(self, cell: Cell, value: object, asker: object) -> None:
        """An actor answered when nobody waited any more."""
        self.channel.post_from_outside("late", _address(cell.shown()), self._shown(value), _address(asker))

    def publish(self, message: object, sender: object, recipient: object, why: str) -> None:
        """Something is a dead letter."""
        self.channel.post_from_outside("letter", self._shown(message), _address(sender), _address(recipient), why)

    def _shown(self, message: object) -> Any:
        """A message, or what can be said of it."""
        try:
            return self.channel.pack(message)
        except Exception:
            return repr(message)[:1000]

    def dead_letter(self, cell: Cell, message: object, sender: Any, why: str) -> None:
        """A message can never be handled. Those to guests are home's."""
        if cell not in self._by_cell and why != "stopped":
            shown = sender.shown_sender() if isinstance(sender, Receipt) else sender
            self.publish(message, shown, cell.shown(), why)


def _leave(host: WorkerHost, message: object) -> None:
    """The handler of a stand-in: for messages that other threads have sent."""
    visits = host.loop.visits
    host.forward(visits.hand, message, visits.sender, visits.lane)
    visits.let_sender_go()  # the answer comes from home


def _address(ref: Any) -> Any:
    """Where a ref is to be found; one that is none is sent as nobody."""
    return ref._cell.loop.host.address_of(ref) if isinstance(ref, Address) else None
