"""The host of a worker's loop, and what home tells it.

The cells of this loop are of two kinds: guests, whose messages are handled here, and stand-ins for actors that are
elsewhere, whose messages leave at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from greenroom._core.flags import GUARDED
from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.host import Host
from greenroom._core.receipt import Slip
from greenroom.actor.messaging.address import Address, direct
from greenroom.actor.messaging.ask import Question
from greenroom.actor.api.behaviors import Behaviors
from greenroom.actor.records.record import move_in
from greenroom.actor.life.spec import Settings, Spec
from greenroom.actor.life.starting import become_next
from greenroom.actor.records.states import State
from greenroom.lanes import LARGEST_CAPACITY, Lane, MailboxConfig
from greenroom.system.dispatchers.processes.worker.actor import Doing, Guest
from greenroom.system.dispatchers.processes.worker.channel import Link
from greenroom.system.dispatchers.processes.worker.stubs import GuestContext, RefElsewhere, SystemElsewhere
from greenroom.wire.address import ActorAddress
from greenroom.wire.codec import Packed, registered_names

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.exits import ExitReason

__all__ = ["Guesthouse"]

_LARGE = 1 << 16
"""Bytes of a message that is sent at once."""
_SIZED = frozenset((str, bytes, Packed))
_ROOMY = MailboxConfig(capacity=LARGEST_CAPACITY)


class Guesthouse(Host):
    """Keeps the guests of one worker. Belongs to the loop's own thread."""

    def __init__(self, system: str) -> None:
        self.port = SystemElsewhere(system, self)
        self.settings = Settings(None, {})
        self.loop: Any = None
        self.link: Any = None
        self.guests: dict[int, Guest] = {}
        self._by_cell: dict[Cell, Guest] = {}
        # Those that have been given something to do, and may have done it.
        self.active: dict[Guest, None] = {}
        self._is_look_due = False
        self._refs: WeakValueDictionary[tuple[str, int, str], RefElsewhere] = WeakValueDictionary()
        # What system this is a worker of, by its token; known from the first guest on.
        self.is_manual = False
        # Questions of guests that have no answer, by the numbers that home knows them by.
        self._asked: dict[Question, int] = {}

    def serve(self, loop: Loop, link: Link) -> None:
        """Be the host of `loop`, and home's ear."""
        self.loop = loop
        self.link = link
        link.on_order = self._hear
        link.before_flush = self._look_after_all

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
        cell.alert |= GUARDED
        ref = RefElsewhere.__new__(RefElsewhere)
        above = self.find(token, 0, address.above) if address.above else None
        direct(ref, cell, address.name, above)
        cell.ref = ref
        cell.body = address
        self._refs[key] = ref
        return ref

    def address_of(self, ref: Any) -> ActorAddress:
        """Where a ref can be found again."""
        address: ActorAddress = ref._cell.body
        return address

    # -- what home tells

    def _hear(self, head: tuple[Any, ...], parts: list[Any]) -> None:
        word, number, *rest = head
        if word == "enter":
            call, base = rest
            self._enter(number, call, base, parts)
            return
        guest = self.guests.get(number)
        if guest is None:
            return
        if word == "messages":
            self._take_in(guest, rest, parts)
        elif word == "call":
            self._call(guest, rest, parts)
        elif word == "hurry":
            guest.hurry(rest[0])
        elif word == "cancel":
            if guest.cell.task is not None:
                guest.cell.task.cancel()
            self.link.post("cancelled", number)
        elif word == "leave":
            self._see_off(guest)

    def _enter(self, number: int, call: int, base: int, parts: list[Any]) -> None:
        try:
            ((ref, made, env, names),) = self.link.codec.decode(parts)
        except Exception as exc:
            self.link.post("called", number, call, False, self.link.failure(exc))
            return
        self.link.codec.peer_knows(names)
        self.link.post("hello", registered_names())  # what was just imported may have brought more
        cell = self.loop.spawn(None, None, _ROOMY)
        spec = Spec(*made)
        body = GuestContext()
        move_in(body, cell, spec)
        body.state = State.RUNNING.code
        body.extra().settings = Settings(None, env)
        cell.ref = ref
        guest = Guest(self, number, cell, base)
        body.extra().place = guest
        self.guests[number] = guest
        self._by_cell[cell] = guest
        cell.order(Doing(guest, call, "make", lambda: guest.make, (spec,)))

    def _take_in(self, guest: Guest, rest: list[Any], parts: list[Any]) -> None:
        number, epoch, lane, count, senders = rest
        if not guest.wants(epoch):
            return
        try:
            messages = self.link.codec.decode(parts)
        except Exception as exc:
            guest.cannot_read(number, count, exc)
            return
        guest.take_in(number, lane, messages, senders)

    def _call(self, guest: Guest, rest: list[Any], parts: list[Any]) -> None:
        call, name = rest
        try:
            (arguments,) = self.link.codec.decode(parts)
        except Exception as exc:
            guest.call_failed(call, exc)
            return
        guest.cell.order(Doing(guest, call, name, lambda: guest.hook(name), arguments))

    def _see_off(self, guest: Guest) -> None:
        """A guest leaves: what it has under way ends."""
        guest.is_gone = True
        self.active.pop(guest, None)
        self.guests.pop(guest.number, None)
        self.loop.inbound.call(None, lambda: self._clear_away(guest))

    def _clear_away(self, guest: Guest) -> None:
        cell = guest.cell
        self._by_cell.pop(cell, None)
        pipes = list(cell.body.extra().pipes)
        for pipe in pipes:
            pipe.cancel()
        if cell.task is not None:
            self.loop.visits.abandon(cell)
        while cell.waiting():
            self.loop.door.take_next(cell)
        self.loop.retire(cell)
        cell.subject = cell.handler = cell.context = None

    # -- how far everybody is

    def look_after_all(self) -> None:
        """Tell home how far the guests are, and send what they have to say: after each tick."""
        self._is_look_due = False
        self.link.flush()

    def _look_after_all(self) -> None:
        for guest in list(self.active):
            if not guest.look():
                self.active.pop(guest, None)

    def look_soon(self) -> None:
        """Something has happened outside of a tick."""
        if not self._is_look_due:
            self._is_look_due = True
            self.loop.visits.stepper.aio.call_soon(self.look_after_all)

    # -- what the loop tells

    def number_in_hand(self) -> int:
        """Whose code runs, on the loop's own thread; 0 for nobody's."""
        guest = None if self.loop.visits.hand is None else self._by_cell.get(self.loop.visits.hand)
        return 0 if guest is None else guest.number

    def intercept(self, cell: Cell, message: object, sender: object, lane: Lane) -> bool:
        """A message to an actor that is elsewhere leaves at once."""
        self.forward(cell, message, sender, int(lane))
        return True

    def examine(self, cell: Cell, message: object) -> None:
        """The same from another thread: it leaves in its turn."""
        self.link.pack(message)

    def forward(self, cell: Cell, message: object, sender: Any, lane: int) -> None:
        """Send a message home, to be sent on."""
        given = self.link.pack(message)
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
            entry = (number, cell.body, given, shown, lane, question.timeout)
            self._asked[question] = self.link.ask(told, "ask", *entry)
        else:
            shown = sender.shown_sender() if isinstance(sender, Slip) else sender
            self.link.post("tell", cell.body, given, _address(shown), lane)
            if type(given) in _SIZED and len(given) > _LARGE:
                self.link.flush()  # which may have to wait for home: much of that would fill our memory

    def awaits(self, question: Any) -> None:
        """A guest's handler waits for an answer: home should know, for it may wait for itself."""
        self._tell_of(question, "awaits")

    def gave_up(self, question: Any) -> None:
        """It does so no longer."""
        self._tell_of(question, "gives up")

    def _tell_of(self, question: Any, word: str) -> None:
        number = self._asked.get(question)
        guest = self._by_cell.get(question.asker)
        if number is not None and guest is not None:
            self.link.post(word, guest.number, number)

    def verdict(self, cell: Cell, verdict: Any) -> None:
        """A handler returned a behavior."""
        if verdict is Behaviors.stopped:
            self.request_end(cell, None)
        elif verdict is not Behaviors.same:
            become_next(cell, verdict)

    def request_end(self, cell: Cell, reason: ExitReason | None) -> None:
        """A guest is to stop."""
        guest = self._by_cell.get(cell)
        if guest is not None:
            guest.stop()

    def unhandled(self, cell: Cell, message: object, sender: object) -> None:
        """A message was not for its actor."""
        guest = self._by_cell.get(cell)
        if guest is not None:
            guest.unhandled()

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        """A guest's handler let `cause` out."""
        guest = self._by_cell.get(cell)
        if guest is not None and not guest.is_gone:
            guest.failed(cause)

    def lives_on(self, cell: Cell) -> bool:
        """Whether an actor is not to end: home knows, but here nobody does."""
        return True

    def reason_of(self, cell: Cell) -> None:
        """How an actor ended: home knows."""

    def late_reply(self, cell: Cell, value: object, asker: object) -> None:
        """An actor answered when nobody waited any more."""
        self.link.post_from_outside("late", _address(cell.shown()), self._shown(value), _address(asker))

    def publish(self, message: object, sender: object, recipient: object, why: str) -> None:
        """Something is a dead letter."""
        self.link.post_from_outside("letter", self._shown(message), _address(sender), _address(recipient), why)

    def _shown(self, message: object) -> Any:
        """A message, or what can be said of it."""
        try:
            return self.link.pack(message)
        except Exception:
            return repr(message)[:1000]

    def dead_letter(self, cell: Cell, message: object, sender: Any, why: str) -> None:
        """A message can never be handled. Those to guests are home's."""
        if cell not in self._by_cell and why != "stopped":
            shown = sender.shown_sender() if isinstance(sender, Slip) else sender
            self.publish(message, shown, cell.shown(), why)


def _leave(house: Guesthouse, message: object) -> None:
    """The handler of a stand-in: for messages that other threads have sent."""
    visits = house.loop.visits
    house.forward(visits.hand, message, visits.sender, visits.lane)
    visits.let_sender_go()  # the answer comes from home


def _address(ref: Any) -> Any:
    """Where a ref is to be found; one that is none is sent as nobody."""
    return ref._cell.loop.host.address_of(ref) if isinstance(ref, Address) else None
