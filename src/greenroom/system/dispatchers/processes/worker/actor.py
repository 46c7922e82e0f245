"""One actor in a worker: its instance, its context, and how far it is with its messages.

Messages that home sends are put into the mailbox of a cell of the worker's own loop, which handles them as it does
everywhere; so a guest's handlers cost what an actor's do. What is particular is told by the host (`guesthouse`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from greenroom._core.behavior import BehaviorBase
from greenroom._core.itemkinds import STASHED as PUT_ASIDE
from greenroom.actor.api.becoming import CurrentBehavior, become_next, install_behavior, resolve_behavior
from greenroom.actor.api.behavior import SAME, STOPPED, Behavior
from greenroom.actor.life.spec import BEHAVIOR, HANDLER, ActorSpec
from greenroom.actor.life.starting import install_actor
from greenroom.actor.messaging.question import Question
from greenroom.errors import NotAnActor
from greenroom.system.dispatchers.processes.protocol import STASHED, UNHANDLED, Asked, Progress
from greenroom.system.dispatchers.processes.relay import Relay
from greenroom.wire.failures import Failure

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.system.dispatchers.processes.worker.host import WorkerHost

__all__ = ["HostedActor"]


class HostedActor:
    """An actor of another process, whose code runs here. Belongs to the loop's own thread."""

    __slots__ = (
        "_asides",
        "_awaited",
        "_base",
        "_epoch",
        "_expected",
        "_failures",
        "_host",
        "_others",
        "_reported",
        "_supervision",
        "_unstashes_later",
        "cell",
        "is_gone",
        "number",
        "stashed",
    )

    def __init__(self, host: WorkerHost, number: int, cell: Cell, base: int) -> None:
        self._host = host
        self.number = number
        self.cell = cell
        # The number of its first message; of the next that is to come; and of the first that home thinks is not done.
        self._base = base
        self._expected = base
        self._reported = base
        # How many times it has sent something back.
        self._epoch = 0
        # How many were not simply handled; and those of them that home does not know of yet.
        self._others = 0
        self._asides: list[tuple[int, int]] = []
        # How many it has put aside.
        self.stashed = 0
        # Whether it wants back what it has put aside, among that the message in hand.
        self._unstashes_later = False
        # How many messages it has failed on.
        self._failures = 0
        self._supervision: Any = None
        # The task whose end is waited for.
        self._awaited: Any = None
        self.is_gone = False

    # -- how far it is

    def done(self) -> int:
        """The number of the first message that is not done."""
        return int(self._base + self.cell.handled + self._others)

    def wants(self, epoch: int) -> bool:
        """Whether to take in what was sent then; else home does not know yet that it has them still."""
        return epoch == self._epoch

    def take_in(self, number: int, lane: int, messages: list[Any], senders: Any) -> None:
        """Messages have come."""
        if not isinstance(senders, list):
            senders = [senders] * len(messages)
        else:
            senders = [self._receipt(number + at, one) for at, one in enumerate(senders)]
        self._expected += len(messages)
        if lane == 1:
            self.cell.take_in(messages, senders)
        else:
            for message, sender in zip(messages, senders, strict=True):
                self.cell.enqueue(lane, message, sender)
        self.cell.make_runnable()
        self._host.active[self] = None

    def _receipt(self, number: int, sender: Any) -> Any:
        if not isinstance(sender, Asked):
            return sender
        question = Question.__new__(Question)
        asker = None if sender.sender is None else sender.sender._cell
        question.set_up(self.cell.loop, self.cell, asker, -1.0)
        question.tell_future(Relay(partial(self._replied, number)), None)
        return question

    def report(self, failure: BaseException | None = None, returned: int | None = None, waits: bool = False) -> None:
        """Tell home how far it is, if that is news."""
        done = self.done()
        asides = self._asides
        has_put_aside = self._has_put_aside()
        if has_put_aside:
            done -= 1  # the message is still in hand
            asides = [aside for aside in asides if aside[0] < done]
        unstashes, waits = self._unstashes_later and not has_put_aside, waits or self._unstashes_later
        if done != self._reported or asides or failure is not None or returned is not None or waits:
            self._asides = [aside for aside in self._asides if aside[0] >= done]
            self._reported = done
            news = Progress(done, asides, returned, self._epoch, waits, self._host.channel.failure(failure))
            self._host.channel.post("progress", self.number, news)
        if unstashes:
            self._unstashes_later = False
            self._host.channel.post("unstash", self.number)
        if self._has_new_supervision():
            self._host.channel.post("supervise", self.number, *self._host.channel.outcome(True, self._supervision))

    def _has_new_supervision(self) -> bool:
        """Whether it has become something that says itself what becomes of it when it fails."""
        extras = self.cell.record.extras
        own = None if extras.settings_of_behavior is None else extras.settings_of_behavior.supervision
        if own is None or own is self._supervision:
            return False
        self._supervision = own
        return True

    def _has_put_aside(self) -> bool:
        """Whether the message in hand is one that has been put aside."""
        task, visits = self.cell.task, self._host.loop.visits
        hand = visits if visits.hand is self.cell else task
        return hand is not None and hand.kind == PUT_ASIDE

    def look(self) -> bool:
        """Report; whether there is more to come without a message from home."""
        self.report()
        task = self.cell.task
        if task is not None:
            if task is not self._awaited:
                self._awaited = task
                task.add_done_callback(self._wake)
            return False
        return self.cell.waiting() or self._host.loop.visits.hand is self.cell

    def _wake(self, task: Any) -> None:
        """What was suspended has ended."""
        self._awaited = None
        if not self.is_gone:
            self._host.active[self] = None
            self._host.look_soon()

    def hurry(self, number: int) -> None:
        """Something has come that goes before what was not begun, from this number on: that is home's again."""
        waiting = self.cell.queued()
        kept = max(0, number - (self._expected - waiting))
        if waiting > kept:  # else it comes too late: home is done with the messages that it means
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
        """What has not been begun is home's again."""
        self._expected -= self.cell.queued()
        self._drop_all()
        self._epoch += 1
        self.report(failure, self._expected, waits)

    # -- what becomes of a message

    def set_aside(self, what: int) -> None:
        """The message in hand is not simply handled."""
        self._asides.append((self.done(), what))
        self._others += 1

    def put_aside(self) -> None:
        """The message in hand is put aside."""
        self.set_aside(STASHED)
        self.stashed += 1

    def unhandled(self) -> None:
        """The message in hand is not for this actor."""
        self.set_aside(UNHANDLED)

    def unstash_all(self) -> int:
        """Have home queue again what was put aside."""
        count, self.stashed = self.stashed, 0
        if count:
            self._unstashes_later = True  # when home knows of all of it
            self.return_the_rest(waits=True)
        return count

    def failed(self, cause: BaseException) -> None:
        """Its handler let `cause` out: home decides what becomes of it."""
        sender = self._host.loop.visits.sender
        if isinstance(sender, Question):
            sender.replied = True  # what the asker hears depends on that decision too
        tally = self.cell.tally
        failures = 0 if tally is None else tally.failed
        # One that was put aside first is not what failed: it waits to be handled again.
        was_message, self._failures = failures > self._failures, failures
        self.return_the_rest(failure=cause)
        if was_message:
            self._others += 1
            self._reported = self.done()

    def cannot_read(self, number: int, count: int, error: BaseException) -> None:
        """Messages have come that cannot be unpickled: nothing that was sent after them is taken in either."""
        self._epoch += 1
        self._host.channel.post(
            "unreadable", self.number, number, count, self._epoch, self._host.channel.failure(error)
        )

    def stop(self) -> None:
        """It is to stop, after the message in hand."""
        self.return_the_rest(waits=True)
        self._host.channel.post("stop", self.number)

    def _replied(self, number: int, ok: bool, value: Any) -> None:
        """A question has been answered."""
        self._host.channel.post("reply", self.number, number, *self._host.channel.outcome(ok, value))

    # -- calls

    def make(self, spec: ActorSpec) -> tuple[Any, Any]:
        """Make the actor: its class, if it has one, and its own supervision."""
        record = self.cell.record
        if spec.kind == HANDLER:
            install_behavior(record, CurrentBehavior(spec.factory, record, None))
        elif spec.kind == BEHAVIOR:
            install_behavior(record, resolve_behavior(record, spec.factory))
        else:
            made = spec.factory(*spec.args, **spec.kwargs)
            if isawaitable(made):
                made.close()  # type: ignore[attr-defined]
                raise NotAnActor(
                    f"{spec.label[0]}(...) is async: an actor is made at once; what takes time goes into `pre_start`"
                )
            install_actor(record, made)
        supervision = self._supervision if self._has_new_supervision() else None
        is_class = spec.kind not in (HANDLER, BEHAVIOR)
        return type(record.cell.subject) if is_class else None, supervision

    def hook(self, name: str) -> Callable[..., Any]:
        """What home calls by this name."""
        if name == "handle":
            return self._handle
        if name == "signal":
            return self._signal
        method: Callable[..., Any] = getattr(self._instance(), name)
        return method

    def _instance(self) -> Any:
        extras = self.cell.record.extras
        return extras.behaviors[0].subject if extras is not None and extras.behaviors else self.cell.subject

    def _handle(self, message: object) -> Any:
        return self.cell.handler(self.cell.subject, message)

    def _signal(self, signal: object) -> Any:
        extras = self.cell.record.extras
        return None if extras is None or extras.on_signal is None else extras.on_signal(self.cell.record, signal)

    def called(self, call: int, name: str, result: Any) -> None:
        """A call has returned."""
        if isinstance(result, BehaviorBase):
            result = self._absorb(result)
        elif name not in _ANSWERS:
            result = None
        self._host.channel.post("called", self.number, call, *self._host.channel.outcome(True, result))

    def _absorb(self, verdict: Any) -> Any:
        """Become what a hook has returned; what is left of it for home to do."""
        if isinstance(verdict, Behavior) and verdict is not STOPPED and not verdict.unhandled:
            if verdict is not SAME:
                become_next(self.cell, verdict)
            return SAME
        return verdict

    def call_failed(self, call: int, cause: BaseException) -> None:
        """A call has raised."""
        self._host.channel.post("called", self.number, call, *self._host.channel.outcome(False, Failure.of(cause)))


_ANSWERS = ("make", "snapshot", "inspect")
"""Calls whose result somebody wants, whatever it is."""


class CallOrder:
    """An order of the guest's cell: one call, and its report."""

    __slots__ = ("_actor", "_arguments", "_call", "_find", "_name")

    def __init__(
        self,
        actor: HostedActor,
        call: int,
        name: str,
        find: Callable[[], Callable[..., Any]],
        arguments: tuple[Any, ...],
    ) -> None:
        self._actor = actor
        self._call = call
        self._name = name
        self._find = find
        self._arguments = arguments

    def __call__(self, cell: Cell) -> Any:
        try:
            result = self._find()(*self._arguments)
            if isawaitable(result):
                return self._go_on(result)
            self._actor.called(self._call, self._name, result)
        except BaseException as exc:
            self._actor.call_failed(self._call, exc)
        return None

    async def _go_on(self, awaitable: Any) -> None:
        try:
            self._actor.called(self._call, self._name, await awaitable)
        except GeneratorExit:
            raise
        except BaseException as exc:
            self._actor.call_failed(self._call, exc)
