"""The host of a worker's loop, and the actors that it hosts: their instances, contexts and progress.

The host carries out the orders of the main process. Its loop has two kinds of cells. Stubs forward the messages to all
other actors to the main process, at once. A hosted actor has an ordinary cell, whose messages the loop handles as any
loop does: so its handlers cost no more than others.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from greenroom._core.behavior import BehaviorBase, is_generator, refuse_returned_generator
from greenroom._core.flags import INTERCEPTED, NOTIFY_TAKEN, PROPAGATES
from greenroom._core.itemkinds import STASHED as PUT_ASIDE
from greenroom._core.mailbox.cell import Cell
from greenroom._core.mailbox.mailbox import Mailbox
from greenroom._core.receipt import Receipt, Told
from greenroom._core.scheduler.host import Host
from greenroom.actor.api.behavior import (
    SAME,
    STOPPED,
    Behavior,
    CurrentBehavior,
    become_next,
    install_behavior,
    resolve_behavior,
)
from greenroom.actor.failure.reports import declared_as, is_heard
from greenroom.actor.life.spec import BEHAVIOR, HANDLER, ActorSpec
from greenroom.actor.life.starting import install_actor
from greenroom.actor.messaging.address import Address, direct
from greenroom.actor.messaging.question import Question
from greenroom.actor.records.record import Settings, attach_record
from greenroom.actor.records.states import State
from greenroom.clock import TURNS
from greenroom.errors import NotAnActor, TroupeEnding, WorkerLost
from greenroom.lanes import LARGEST_CAPACITY, Lane, MailboxConfig
from greenroom.system.dispatchers.processes.protocol import (
    HOLDER,
    NUMBERED,
    STASHED,
    TICKS,
    UNHANDLED,
    WAITS_FOR_ROOM,
    Asked,
    Progress,
    Propagated,
    Relay,
    outcome_of,
)
from greenroom.system.dispatchers.processes.worker.channel import MainChannel
from greenroom.system.dispatchers.processes.worker.stubs import RemoteContext, RemoteRef, RemoteSystem
from greenroom.wire.address import ActorAddress
from greenroom.wire.codec import Packed, registered_names

if TYPE_CHECKING:
    from greenroom._core.delivery.propagation import Values
    from greenroom._core.scheduler.loop import Loop
    from greenroom.system.dispatchers.processes.protocol import Entry
    from greenroom.wire.transport import Buffer

_LARGE = 1 << 16
"""A message of more bytes is sent at once, not at the end of the tick."""
_SIZED = (str, bytes, Packed)
_ROOMY = MailboxConfig(capacity=LARGEST_CAPACITY)


_ANSWERS = ("make", "snapshot", "inspect")
"""Calls whose result is needed, whatever it is."""


class HostedActor:
    """An actor of the main process whose code runs here. For the loop's own thread only."""

    def __init__(self, host: WorkerHost, number: int, cell: Cell, base: int) -> None:
        self._host = host
        self._channel = host.channel
        self.number = number
        self.cell = cell
        # The numbers of its first message, of the next to arrive, and of the first not reported as done.
        self._base = base
        self._expected = base
        self._reported = base
        # How many times it has returned messages.
        self.epoch = 0
        # How many messages were stashed, unhandled or failed; and those of them that are not reported yet.
        self._others = 0
        self.asides: list[tuple[int, int]] = []
        # How many messages it has stashed.
        self.stashed = 0
        # How many messages to unstash, one number for each call, as soon as the main process knows of them.
        self._unstashes: list[int] = []
        # How many messages it has failed on.
        self._failures = 0
        self._supervision: object = None
        # The suspended task that will call `_wake`.
        self._awaited: object = None
        self.is_gone = False

    # -- progress

    def done(self) -> int:
        """The number of the first message that is not done."""
        return int(self._base + self.cell.handled + self._others)

    def take_in(self, number: int, lane: int, messages: list[object], senders: object) -> None:
        if not isinstance(senders, list):
            receipts = [senders] * len(messages)
        else:
            receipts = [self._receipt(number + at, one) for at, one in enumerate(senders)]
        self._expected += len(messages)
        if lane == 1:
            self.cell.take_in(messages, receipts)
        else:
            for message, sender in zip(messages, receipts, strict=True):
                self.cell.enqueue(lane, message, sender)
        self.cell.make_runnable()
        self._host.active[self] = None

    def _receipt(self, number: int, sender: object) -> object:
        if isinstance(sender, Propagated):
            packer = self._channel.packer
            return self._receipt_with(number, sender.sender, () if packer is None else packer.unpack(sender.values))
        if not isinstance(sender, Asked):
            return sender
        question = Question.__new__(Question)
        asker = sender.sender._cell if isinstance(sender.sender, Address) else None
        question.set_up(self.cell.loop, self.cell, asker, -1.0)
        question.tell_future(Relay(partial(self._replied, number)), None)
        return question

    def _receipt_with(self, number: int, sender: object, values: Values) -> object:
        receipt = self._receipt(number, sender)
        if isinstance(receipt, Question):
            receipt.propagate(values)
            return receipt
        return Told(receipt, values)

    def report(self, failure: BaseException | None = None, returned: int | None = None, waits: bool = False) -> None:
        done = self.done()
        asides = self.asides
        has_stashed = self._has_stashed_current()
        if has_stashed:
            done -= 1  # the message is still in hand
            asides = [aside for aside in asides if aside[0] < done]
        unstashes, waits = () if has_stashed else tuple(self._unstashes), waits or bool(self._unstashes)
        if done != self._reported or asides or failure is not None or returned is not None or waits:
            self.asides = [aside for aside in self.asides if aside[0] >= done]
            self._reported = done
            news = Progress(done, asides, returned, self.epoch, waits, self._channel.failure(failure))
            self._channel.post("progress", self.number, news)
        if unstashes:
            self._unstashes.clear()
            for count in unstashes:
                self._channel.post("unstash", self.number, count)
        if self._has_new_supervision():
            self._channel.post("supervise", self.number, self._channel.outcome(self._supervision))

    def _has_new_supervision(self) -> bool:
        """Whether the actor has become a behavior with another supervision of its own."""
        extras = self.cell.record.extras
        own = None if extras.settings_of_behavior is None else extras.settings_of_behavior.supervision
        if own is None or own is self._supervision:
            return False
        self._supervision = own
        return True

    def _has_stashed_current(self) -> bool:
        task, visits = self.cell.task, self._host.loop.visits
        hand = visits if visits.hand is self.cell else task
        return hand is not None and hand.kind == PUT_ASIDE

    def update(self) -> bool:
        """Report the progress. True if there will be more without a message from the main process."""
        self.report()
        task = self.cell.task
        if task is not None:
            if task is not self._awaited:
                self._awaited = task
                task.add_done_callback(self._wake)
            return False
        return self.cell.waiting() or self._host.loop.visits.hand is self.cell

    def _wake(self, task: object) -> None:
        self._awaited = None
        if not self.is_gone:
            self._host.active[self] = None
            self._host.report_soon()

    def hurry(self, number: int) -> None:
        """Return the messages that were not started, from this number on: something more urgent must go first."""
        waiting = self.cell.queued()
        kept = max(0, number - (self._expected - waiting))
        if waiting > kept:  # else it is too late: those messages are done
            messages, senders = self.cell.peek(0, kept)
            self._drop_all()
            self.cell.take_in(messages, senders)
            self._expected -= waiting - kept
            self.epoch += 1
            self.report(returned=self._expected)

    def _drop_all(self) -> None:
        while self.cell.waiting():
            self.cell.loop.admission.take_next(self.cell)

    def return_the_rest(self, waits: bool = False, failure: BaseException | None = None) -> None:
        self._expected -= self.cell.queued()
        self._drop_all()
        self.epoch += 1
        self.report(failure, self._expected, waits)

    # -- outcomes of messages

    def set_aside(self, what: int) -> None:
        """The message in hand is UNHANDLED or STASHED."""
        self.asides.append((self.done(), what))
        self._others += 1
        if what == STASHED:
            self.stashed += 1

    def unstash(self, most: int) -> int:
        """Have the main process queue the first stashed messages again; return how many those are."""
        count = min(most, self.stashed)
        self.stashed -= count
        if count:
            self._unstashes.append(count)  # when the main process knows of all of them
            self.return_the_rest(waits=True)
        return count

    def refused(self, told: tuple[str, str] | None, cause: BaseException) -> None:
        """The handler refused a message. If no asker hears, `told` is its type, and what the refusal is declared as."""
        self._channel.post("refused", self.number, told, None if told is None else self._channel.failure(cause))

    def failed(self, cause: BaseException) -> None:
        """The handler raised `cause`: the main process decides what happens next."""
        sender = self._host.loop.visits.sender
        if isinstance(sender, Question):
            sender.replied = True  # the reply depends on that decision too
        tally = self.cell.tally
        failures = 0 if tally is None else tally.failed
        # A message that was stashed before the handler raised has not failed: it will be handled again.
        was_message, self._failures = failures > self._failures, failures
        self.return_the_rest(failure=cause)
        if was_message:
            self._others += 1
            self._reported = self.done()

    def cannot_read(self, number: int, count: int, error: BaseException) -> None:
        """Messages have arrived that cannot be unpickled: they and all sent after them are ignored."""
        self.epoch += 1
        self._channel.post("unreadable", self.number, number, count, self.epoch, self._channel.failure(error))

    def stop(self) -> None:
        self.return_the_rest(waits=True)
        self._channel.post("stop", self.number)

    def _replied(self, number: int, value: object) -> None:
        self._channel.post("reply", self.number, number, self._channel.outcome(value))

    # -- calls

    def call(self, number: int, name: str, arguments: tuple[object, ...], cell: Cell) -> object:
        try:
            result = self._function(name)(*arguments)
            if isawaitable(result):
                return self._go_on(number, name, result)
            self._called(number, name, result)
        except BaseException as exc:
            self.call_failed(number, exc)
        return None

    async def _go_on(self, number: int, name: str, awaitable: Awaitable[object]) -> None:
        try:
            self._called(number, name, await awaitable)
        except GeneratorExit:
            raise
        except BaseException as exc:
            self.call_failed(number, exc)

    def _make(self, spec: ActorSpec) -> tuple[type | None, object]:
        record = self.cell.record
        if spec.kind == HANDLER:
            install_behavior(record, CurrentBehavior(spec.factory, record, None))
        elif spec.kind == BEHAVIOR:
            install_behavior(record, resolve_behavior(record, spec.factory))
        else:
            made = spec.factory(*record.args, **spec.kwargs)
            if isawaitable(made):
                made.close()  # type: ignore[attr-defined]
                raise NotAnActor(
                    f"{spec.label[0]}(...) is async: an actor is made at once; what takes time goes into `pre_start`"
                )
            install_actor(record, made)
        supervision = self._supervision if self._has_new_supervision() else None
        is_class = spec.kind not in (HANDLER, BEHAVIOR)
        return type(record.cell.subject) if is_class else None, supervision

    def _function(self, name: str) -> Callable[..., object]:
        own: dict[str, Callable[..., object]] = {"make": self._make, "handle": self._handle, "signal": self._signal}
        if name in own:
            return own[name]
        method: Callable[..., object] = getattr(self._instance(), name)
        return method

    def _instance(self) -> object:
        extras = self.cell.record.extras
        return extras.behaviors[0].subject if extras is not None and extras.behaviors else self.cell.subject

    def _handle(self, message: object) -> object:
        return self.cell.handler(self.cell.subject, message)

    def _signal(self, signal: object) -> object:
        extras = self.cell.record.extras
        return None if extras is None or extras.on_signal is None else extras.on_signal(self.cell.record, signal)

    def _called(self, call: int, name: str, result: object) -> None:
        if isinstance(result, BehaviorBase):
            result = self._absorb(result)
        elif name not in _ANSWERS:
            if is_generator(result):
                refuse_returned_generator(f"{name} of {self.cell.name()}", result)
            result = None
        self._channel.post("called", self.number, call, self._channel.outcome(result))

    def _absorb(self, behavior: BehaviorBase) -> BehaviorBase:
        """Become the behavior that a hook has returned; return what the main process must still do."""
        if isinstance(behavior, Behavior) and behavior is not STOPPED and not behavior.unhandled:
            if behavior is not SAME:
                become_next(self.cell, behavior)
            return SAME
        return behavior

    def call_failed(self, call: int, cause: BaseException) -> None:
        self._channel.post("called", self.number, call, self._channel.failure(cause))


class WorkerHost(Host):
    """The host of one worker's loop, with its hosted actors. For the loop's own thread only."""

    loop: Loop
    channel: MainChannel
    page: memoryview
    """The memory in which we say whose code runs."""
    closed = False
    """Whether the system is ending: that is known at home."""

    def __init__(self, system: str, is_manual: bool = False) -> None:
        self.system = RemoteSystem(system, self)
        self.token = system
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
        self.is_manual = is_manual
        # Questions of hosted actors that are not answered, with the numbers of their requests.
        self._asked: dict[Question, int] = {}
        # Where those actors have their marks whose messages are to outlive this process.
        self._marked: dict[HostedActor, int] = {}

    def serve(self, loop: Loop, channel: MainChannel, page: memoryview) -> None:
        """Be the host of `loop`, take the orders that arrive by `channel`, and say in `page` whose code runs."""
        self.loop = loop
        self.channel = channel
        self.page = page
        loop.visits.hold(page[HOLDER : HOLDER + 1])

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

    def take_order(self, head: Entry, parts: Sequence[Buffer]) -> None:
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
        self.channel.post("long", "slow_handler", _address(ref), self._shown(message), seconds)

    def stuck(self, ref: object, message: object, seconds: float, stack: str) -> None:
        """A handler does not end. Called on another thread."""
        self.channel.post_from_outside("long", "stuck_handler", _address(ref), self._shown(message), seconds, stack)

    def _enter(self, number: int, call: int, base: int, marks: int, parts: Sequence[Buffer]) -> None:
        try:
            ((ref, made, env, names),) = self.channel.decode(parts)
        except Exception as exc:
            self.channel.post("called", number, call, self.channel.failure(exc))
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
        if epoch != actor.epoch:
            return  # they will be sent again
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
            self.rest_soon()

    def report_active(self) -> None:
        for actor in list(self.active):
            if not actor.update():
                self.active.pop(actor, None)

    def report_soon(self) -> None:
        if not self._is_report_due:
            self._is_report_due = True
            self.loop.visits.stepper.aio.call_soon(self.report_all)  # type: ignore[union-attr]  # it is attached

    # -- for a clock that is turned by hand: time passes when no actor has anything to do

    def rest_soon(self) -> None:
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
        if self.channel.has_mail() or actor.asides:
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
        self.forward(cell, message, sender, int(lane))
        return True

    def examine(self, cell: Cell, message: object) -> None:
        """Check a message that another thread sends to such an actor; it is forwarded in its turn."""
        self.channel.pack(message)

    def is_elsewhere(self, cell: Cell) -> bool:
        """Whether a cell stands for an actor whose mailbox is in another process: all do that can be asked."""
        return True

    def asks_elsewhere(self, question: Question, message: object, lane: Lane) -> bool:
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

            def told(outcome: object) -> None:
                self._asked.pop(question, None)
                value, error = outcome_of(outcome)
                if error is None:
                    question.answer(value)
                else:
                    question.refuse(error)

            shown = _address(question.shown_sender())
            entry = (self._number_of(question), cell.record, given, shown, lane, question.timeout, how)
            self._asked[question] = self.channel.ask(told, "ask", *entry)
        else:
            teller = sender.shown_sender() if isinstance(sender, Receipt) else sender
            self.channel.post_within("tell", cell.record, given, _address(teller), lane)
            if isinstance(given, _SIZED) and len(given) > _LARGE:
                self.channel.flush()  # this blocks while the connection is congested, so that memory does not fill up

    def awaits(self, question: object) -> None:
        if isinstance(question, Question) and question in self._asked:
            asker = self._number_of(question)
            if asker:
                self.channel.post("awaits", asker, self._asked[question])

    def gave_up(self, question: object) -> None:
        if isinstance(question, Question) and question in self._asked:
            self.channel.post("withdraw", self._asked[question], self._number_of(question))

    def _number_of(self, question: Question) -> int:
        """The number of the actor that asks; 0 for a thread that a handler has started."""
        actor = None if question.asker is None else self._by_cell.get(question.asker)
        return 0 if actor is None else actor.number

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
    if not isinstance(ref, Address):
        return None
    address: ActorAddress = ref._cell.loop.host.address_of(ref)
    return address
