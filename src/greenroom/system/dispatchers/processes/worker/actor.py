"""One hosted actor: its instance, its context, and its progress.

Messages from the main process go into the mailbox of a cell on the worker's own loop, which handles them as any loop
does. So a hosted actor's handlers cost no more than others. What is special is in the loop's host (`WorkerHost`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING

from greenroom._core.behavior import BehaviorBase, is_generator, refuse_returned_generator
from greenroom._core.itemkinds import STASHED as PUT_ASIDE
from greenroom._core.receipt import Told
from greenroom.actor.api.behavior import (
    SAME,
    STOPPED,
    Behavior,
    CurrentBehavior,
    become_next,
    install_behavior,
    resolve_behavior,
)
from greenroom.actor.life.spec import BEHAVIOR, HANDLER, ActorSpec
from greenroom.actor.life.starting import install_actor
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.question import Question
from greenroom.errors import NotAnActor
from greenroom.system.dispatchers.processes.protocol import STASHED, Asked, Brought, Progress, Relay
from greenroom.wire.failures import Failure

if TYPE_CHECKING:
    from greenroom._core.delivery.propagation import Values
    from greenroom._core.mailbox.cell import Cell
    from greenroom.system.dispatchers.processes.worker.host import WorkerHost

__all__ = ["HostedActor"]

_ANSWERS = ("make", "snapshot", "inspect")
"""Calls whose result is needed, whatever it is."""


class HostedActor:
    """An actor of the main process whose code runs here. For the loop's own thread only."""

    __slots__ = (
        "_asides",
        "_awaited",
        "_base",
        "_channel",
        "_epoch",
        "_expected",
        "_failures",
        "_host",
        "_others",
        "_reported",
        "_supervision",
        "_unstashes",
        "cell",
        "is_gone",
        "number",
        "stashed",
    )

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
        self._epoch = 0
        # How many messages were stashed, unhandled or failed; and those of them that are not reported yet.
        self._others = 0
        self._asides: list[tuple[int, int]] = []
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

    def has_asides(self) -> bool:
        """Whether messages were set aside that the main process does not know of."""
        return bool(self._asides)

    def wants(self, epoch: int) -> bool:
        """Whether to accept messages of this epoch. Those of an earlier one will be sent again."""
        return epoch == self._epoch

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
        if isinstance(sender, Brought):
            packer = self._channel.packer
            return self._bring(number, sender.sender, () if packer is None else packer.unpack(sender.values))
        if not isinstance(sender, Asked):
            return sender
        question = Question.__new__(Question)
        asker = sender.sender._cell if isinstance(sender.sender, Address) else None
        question.set_up(self.cell.loop, self.cell, asker, -1.0)
        question.tell_future(Relay(partial(self._replied, number)), None)
        return question

    def _bring(self, number: int, sender: object, values: Values) -> object:
        receipt = self._receipt(number, sender)
        if isinstance(receipt, Question):
            receipt.propagate(values)
            return receipt
        return Told(receipt, values)

    def report(self, failure: BaseException | None = None, returned: int | None = None, waits: bool = False) -> None:
        """Report the progress to the main process, if there is any."""
        done = self.done()
        asides = self._asides
        has_stashed = self._has_stashed_current()
        if has_stashed:
            done -= 1  # the message is still in hand
            asides = [aside for aside in asides if aside[0] < done]
        unstashes, waits = () if has_stashed else tuple(self._unstashes), waits or bool(self._unstashes)
        if done != self._reported or asides or failure is not None or returned is not None or waits:
            self._asides = [aside for aside in self._asides if aside[0] >= done]
            self._reported = done
            news = Progress(done, asides, returned, self._epoch, waits, self._channel.failure(failure))
            self._channel.post("progress", self.number, news)
        if unstashes:
            self._unstashes.clear()
            for count in unstashes:
                self._channel.post("unstash", self.number, count)
        if self._has_new_supervision():
            self._channel.post("supervise", self.number, *self._channel.outcome(True, self._supervision))

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
            self._epoch += 1
            self.report(returned=self._expected)

    def _drop_all(self) -> None:
        while self.cell.waiting():
            self.cell.loop.admission.take_next(self.cell)

    def return_the_rest(self, waits: bool = False, failure: BaseException | None = None) -> None:
        self._expected -= self.cell.queued()
        self._drop_all()
        self._epoch += 1
        self.report(failure, self._expected, waits)

    # -- outcomes of messages

    def set_aside(self, what: int) -> None:
        """The message in hand is UNHANDLED or STASHED."""
        self._asides.append((self.done(), what))
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
        self._epoch += 1
        self._channel.post("unreadable", self.number, number, count, self._epoch, self._channel.failure(error))

    def stop(self) -> None:
        self.return_the_rest(waits=True)
        self._channel.post("stop", self.number)

    def _replied(self, number: int, ok: bool, value: object) -> None:
        self._channel.post("reply", self.number, number, *self._channel.outcome(ok, value))

    # -- calls

    def call(self, number: int, name: str, arguments: tuple[object, ...], cell: Cell) -> object:
        """Call the constructor or a hook, and report the outcome. An order of the cell."""
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
        """Create the actor; return its class, if it has one, and its own supervision."""
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
        self._channel.post("called", self.number, call, *self._channel.outcome(True, result))

    def _absorb(self, behavior: BehaviorBase) -> BehaviorBase:
        """Become the behavior that a hook has returned; return what the main process must still do."""
        if isinstance(behavior, Behavior) and behavior is not STOPPED and not behavior.unhandled:
            if behavior is not SAME:
                become_next(self.cell, behavior)
            return SAME
        return behavior

    def call_failed(self, call: int, cause: BaseException) -> None:
        self._channel.post("called", self.number, call, *self._channel.outcome(False, Failure.of(cause)))
