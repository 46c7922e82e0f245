"""The restart engine: brings members down, and up again in order, for everything that restarts actors.

Its fronts are the siblings of a plain `Supervision`, a `Supervisor` or `DynamicSupervisor` with its children, and a
kubelet with its pods. A front decides who is restarted with whom, and when. The engine knows where each member stands,
and carries out one *operation* at a time: a generator that yields whenever it has to wait for a member, and goes on
with the next news of one. So nothing is ever retried in a loop, and a member may live on any loop: it is told what to
do, and sends news of what has become of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from greenroom.actor.failure.reports import FailureSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.timing.timers import ScheduledCall
    from greenroom.exits import ExitReason

Operation = Generator[None, None, None]


class Status(Enum):
    """Where a member stands, as far as the engine has heard."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    """Told to come to rest."""
    RESTING = "resting"
    """It has ended, and can be started again."""
    ENDING = "ending"
    """Told to end for good."""


class Member:
    """One actor, or one pod, that is restarted."""

    __slots__ = ("delayed", "reason", "status", "unsettled")

    def __init__(self, status: Status = Status.STOPPED) -> None:
        self.status = status
        # How it ended, and whether its front has yet to decide about that.
        self.reason: ExitReason | None = None
        self.unsettled = False
        # Its restart, while that waits for its moment.
        self.delayed: Delayed[Any] | None = None

    def start(self) -> bool:
        """Begin to start, if it is still to be started."""
        raise NotImplementedError

    def leave(self, cause: BaseException | None) -> None:
        """Begin to come to rest."""
        raise NotImplementedError

    def end(self) -> None:
        """Begin to end for good."""
        raise NotImplementedError

    def cancel_restart(self) -> None:
        if self.delayed is not None:
            self.delayed.cancel()
            self.delayed = None


M = TypeVar("M", bound=Member)


class Delayed(FailureSource, Generic[M]):
    """A restart that waits for its moment: of one member, or of several in order.

    Also the notice of it to a front that is an actor: one with a full mailbox must hear of it all the same.
    """

    __slots__ = ("call", "due", "members")

    def __init__(self, members: Sequence[M], due: float) -> None:
        self.members = members
        self.due = due
        self.call: ScheduledCall | None = None

    def __str__(self) -> str:
        return "over its children"

    def cancel(self) -> None:
        if self.call is not None:
            self.call.cancel()


class RestartEngine(Generic[M]):
    """What one front has under way."""

    __slots__ = ("_batch", "_is_due", "_is_going_on", "_loop", "_ring", "_settle", "_unsettled", "operation")

    def __init__(
        self, loop: Loop, settle: Callable[[M], Operation | None], ring: Callable[[Delayed[M]], object]
    ) -> None:
        self._loop = loop
        # Decides about the end of a member: the operation that this takes, if it takes one.
        self._settle = settle
        # Has `rung` called in the front's turn: the moment of a restart has come.
        self._ring = ring
        self.operation: Operation | None = None
        self._unsettled: deque[M] = deque()
        # Those that are to be started together, and whether it is time.
        self._batch: Delayed[M] | None = None
        self._is_due = False
        self._is_going_on = False

    @property
    def is_idle(self) -> bool:
        return self.operation is None and not self._unsettled and self._batch is None

    # -- news

    def running(self, member: M) -> None:
        """A member is running; that may be old news, for it has been told something else since."""
        if member.status in (Status.STARTING, Status.RESTING):
            member.status = Status.RUNNING
            member.unsettled = False
            member.reason = None
            member.cancel_restart()

    def rested(self, member: M, reason: ExitReason) -> None:
        if member.status is not Status.ENDING:
            is_news = member.status is not Status.LEAVING  # else the operation that told it to leave goes on
            member.status = Status.RESTING
            member.reason = reason
            member.cancel_restart()
            if is_news:
                self.decide_later(member)

    def gone(self, member: M, reason: ExitReason | None = None, by_itself: bool = False) -> None:
        """A member has ended for good, or is none any more."""
        member.cancel_restart()
        member.status = Status.STOPPED
        member.reason = reason
        member.unsettled = False
        if by_itself:
            self.decide_later(member)

    def decide_later(self, member: M) -> None:
        """Have the front decide about a member when nothing is under way."""
        member.unsettled = True
        self._unsettled.append(member)

    def rung(self, delayed: Delayed[M]) -> None:
        """The moment of a restart has come, unless it was given up, or begun in another way, in the meantime."""
        if delayed is self._batch:
            self._is_due = True
        elif len(delayed.members) == 1 and delayed.members[0].delayed is delayed:
            member = delayed.members[0]
            member.delayed = None
            if member.status is Status.RESTING:
                member.start()

    # -- its turn

    def go_on(self) -> None:
        """Go on with what is under way, as far as it goes; then with what has waited for its end."""
        if self._is_going_on:
            return  # news of what it does right now, and will look at next
        self._is_going_on = True
        try:
            self._go_on()
        finally:
            self._is_going_on = False

    def _go_on(self) -> None:
        while True:
            if self.operation is not None:
                try:
                    next(self.operation)
                except StopIteration:
                    self.operation = None
                except BaseException:
                    self.operation = None
                    raise
                else:
                    return  # it waits
            if self._unsettled:
                member = self._unsettled.popleft()
                if member.unsettled:
                    member.unsettled = False
                    self.operation = self._settle(member)
            elif self._is_due:
                assert self._batch is not None
                batch, self._batch, self._is_due = self._batch, None, False
                self.operation = self.bring_up(batch.members)
            else:
                return

    def close(self) -> None:
        if self._batch is not None:
            self._batch.cancel()

    # -- operations

    def bring_down(self, members: Iterable[M], cause: BaseException | None, for_good: bool = False) -> Operation:
        """Have members come to rest, or end for good, one after the other."""
        for member in members:
            if not for_good:
                self.leave(member, cause)
            elif member.status not in (Status.ENDING, Status.STOPPED):
                self.end(member)
            while not (member.status is Status.STOPPED or (member.status is Status.RESTING and not for_good)):
                yield
            if not for_good and member.status is Status.RESTING:
                member.unsettled = False  # its end belongs to this

    def leave(self, member: M, cause: BaseException | None) -> None:
        """Have a member come to rest, if it is not about to."""
        member.cancel_restart()
        if member.status in (Status.RUNNING, Status.STARTING):
            member.status = Status.LEAVING
            member.leave(cause)

    def end(self, member: M) -> None:
        member.cancel_restart()
        member.unsettled = False
        member.status = Status.ENDING
        member.end()

    def bring_up(self, members: Iterable[M]) -> Operation:
        """Start members, one after the other, until one of them fails: the others are started with that one, then."""
        waiting = deque(members)
        while waiting:
            member = waiting.popleft()
            if not member.start():
                continue
            while member.status is Status.STARTING:
                yield
            if member.unsettled and member.status is not Status.STOPPED:
                if waiting:
                    self._batch, self._is_due = Delayed(tuple(waiting), self._loop.now()), True
                return

    def restart(self, member: M, delay: float) -> None:
        member.cancel_restart()
        if delay <= 0.0:
            member.start()
        else:
            member.delayed = self._delay((member,), self._loop.now() + delay)

    def restart_together(self, members: Iterable[M], due: float, place: Callable[[M], int]) -> tuple[float, list[M]]:
        """Start members at `due`, in order of their places, with those that wait already: when, and who that is."""
        chosen = dict.fromkeys(members)
        if self._batch is not None:
            chosen.update(dict.fromkeys(self._batch.members))
            due = max(due, self._batch.due)
            self._batch.cancel()
        for member in chosen:
            member.cancel_restart()
        batch = sorted(chosen, key=place)
        self._is_due = due <= self._loop.now()
        self._batch = Delayed(batch, due) if self._is_due else self._delay(batch, due)
        return due, batch

    def _delay(self, members: Sequence[M], due: float) -> Delayed[M]:
        delayed = Delayed(members, due)
        delayed.call = self._loop.call_at(due, partial(self._ring, delayed))
        return delayed
