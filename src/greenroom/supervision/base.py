"""What all supervisors do: start children, hear what becomes of them, and carry out plans.

A plan is carried out as an *operation*: a generator that yields whenever it has to wait for a child, and goes on with
the next notice about one. So the supervisor is an ordinary actor that handles one message at a time, orders to it act
at once even in the middle of an operation, and nothing is ever retried in a loop: each attempt is a notice of its own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.actor import Actor
from greenroom.actor.messaging.address import Address
from greenroom.actor.api.behaviors import Behaviors
from greenroom.actor.failure.reports import report, when
from greenroom.actor.life.restarting import Leave, start_again
from greenroom.errors import ActorTerminated, NoSuchChild, RestartLimit, Unhandled
from greenroom.exits import KILLED, SHUTDOWN, ExitReason
from greenroom.lanes import MailboxConfig
from greenroom.policy.backoff import Backoff, next_delay
from greenroom.policy.intensity import Window, elapsed
from greenroom.supervision.requests import CountChildren, StartChild, StopChild, WhichChildren
from greenroom.supervision.childrecord import (
    ENDING,
    LEAVING,
    RESTING,
    RUNNING,
    STARTING,
    STOPPED,
    Alert,
    Due,
    DueAlarm,
    Gone,
    Nudge,
    Rested,
    Running,
    Wake,
    Ward,
    count,
)

if TYPE_CHECKING:
    from greenroom.actor.messaging.ask import Reply

__all__ = ["LATER", "Keeping", "Operation"]

_log = logging.getLogger("greenroom")

Operation = Generator[None, None, None]


class Keeping(Actor[Any, Any]):
    """The common part of `Supervisor` and `DynamicSupervisor`."""

    REQUESTS: ClassVar[tuple[type, ...]] = (StartChild, StopChild, WhichChildren, CountChildren)
    __greenroom_stays_at_home__: ClassVar[bool] = True

    def __init__(self, intensity: int | None, period: float, backoff: Backoff | None) -> None:
        self._period = period
        self._intensity = intensity
        self._backoff = backoff
        self._window = Window(intensity, period)
        # By name, or (if they are all made of one template) by id; in the order they were first started.
        self._wards: dict[Any, Ward] = {}
        # What is under way, and who waits for its end: exits to be settled, and requests.
        self._operation: Operation | None = None
        self._unsettled: deque[Ward] = deque()
        self._requests: deque[tuple[Any, Reply]] = deque()
        # While the supervisor itself is starting, it handles no notices yet.
        self._nudge: Nudge | None = None

    # -- notices

    def _hear(self, alert: Alert) -> None:
        """Something has become of a child: see to it when it is its turn."""
        if self._nudge is not None:
            self._note(alert)
            self._nudge.wake_waiter()
        else:
            self.ctx.cell.notify(alert)

    def receive(self, message: Any) -> Any:
        """A notice about a child, or a request."""
        if isinstance(message, Alert):
            if self._is_mine(message):
                self._take_notice(message)
            return None
        if not isinstance(message, self.REQUESTS):
            return Behaviors.unhandled
        if self._operation is not None:
            self._requests.append((message, self.ctx.defer_reply()))
            return None
        try:
            answer = self._answer(message, None)
        except Exception as exc:  # the asker's mistake, not the supervisor's
            self.ctx.fail_reply(exc)
            return None
        return None if answer is LATER else answer

    def _is_mine(self, alert: Alert) -> bool:
        """Whether a notice is about a child that is still one, and not about one of an incarnation before."""
        if alert.ward is not None:
            return self._wards.get(alert.ward.key) is alert.ward
        return isinstance(alert, Due | Wake) and alert.owner is self

    def _take_notice(self, alert: Alert) -> None:
        if isinstance(alert, Due):
            self._note_due(alert)
        elif not isinstance(alert, Wake):
            self._note(alert)
            if alert.ward.unsettled:
                self._unsettled.append(alert.ward)
        self._go_on()

    def _note(self, alert: Alert) -> None:
        """Write down what has become of a child. It may be old news: the child was told something else since."""
        ward = alert.ward
        if isinstance(alert, Running):
            if ward.status in (STARTING, RESTING):
                ward.status = RUNNING
                ward.unsettled = False
                ward.reason = None
                ward.forget_due()
            started, ward.started = ward.started, []
            for reply in started:
                reply.send(ward.ref)
        elif isinstance(alert, Gone):
            self._note_gone(ward, alert.reason)
        elif isinstance(alert, Rested) and ward.status != ENDING:
            # If it was told to, whoever told it goes on; else this is news.
            ward.unsettled = ward.status != LEAVING
            ward.status = RESTING
            ward.reason = alert.reason

    def _note_gone(self, ward: Ward, reason: ExitReason) -> None:
        ref, ward.ref = ward.ref, None
        by_itself = ward.status in (RUNNING, RESTING) or (ward.status == STARTING and ward.tries_again)
        never_up = not ward.tries_again
        ward.forget_due()
        ward.status = STOPPED
        ward.reason = reason
        ward.unsettled = by_itself
        cause = reason.cause
        error = cause if isinstance(cause, Exception) else ActorTerminated(ref, reason)
        started, ward.started = ward.started, []
        for reply in started:
            reply.fail(error)
        ended, ward.ended = ward.ended, []
        for reply in ended:
            reply.send(None)
        if not by_itself:
            self._has_ended(ward, never_up)

    def _has_ended(self, ward: Ward, never_up: bool) -> None:
        """A child has ended because it was told to, or never came up: it may be time to forget it."""
        raise NotImplementedError

    def _note_due(self, due: Due) -> None:
        """It is time for a restart."""
        ward = due.ward
        # A restart that was given up, or begun in another way, while this notice was queued has no alarm any more.
        if ward.alarm is not None and ward.alarm.alert is due and ward.status == RESTING:
            self._start_again(ward)

    def post_stop(self) -> None:
        """Nothing is to come any more. Who still waits for an answer would wait for ever."""
        waiting = [reply for _, reply in self._requests]
        for ward in self._wards.values():
            ward.forget_due()
            waiting += [*ward.started, *ward.ended]
            ward.started, ward.ended = [], []
        self._requests.clear()
        for reply in waiting:
            reply.fail(ActorTerminated(self.ctx.self, "before it could answer; if it is restarted, ask again"))

    # -- operations

    def _go_on(self) -> None:
        """Go on with what is under way, as far as it goes; then with what has waited for its end."""
        while True:
            if self._operation is not None:
                try:
                    next(self._operation)
                except StopIteration:
                    self._operation = None
                except BaseException:
                    self._operation = None
                    raise
                else:
                    return  # it waits
            if self._unsettled:
                ward = self._unsettled.popleft()
                if ward.unsettled and self._wards.get(ward.key) is ward:
                    ward.unsettled = False
                    if ward.rests or ward.status == STOPPED:  # else it has ended for good, and the notice is coming
                        self._operation = self._settle(ward)
            elif self._begin_what_is_due():
                continue
            elif self._requests:
                request, reply = self._requests.popleft()
                self._answer_later(request, reply)
            else:
                return

    def _settle(self, ward: Ward) -> Operation | None:
        """Do something about the end of a child, as the plan says: the operation that is, if it takes one."""
        raise NotImplementedError

    def _begin_what_is_due(self) -> bool:
        """Begin what had to wait for the end of something else; whether there was such a thing."""
        return False

    # -- requests

    def _answer(self, request: Any, reply: Reply | None) -> Any:
        """The answer to a request, or `LATER` if it will be given to `reply`."""
        if isinstance(request, WhichChildren):
            return [ward.info() for ward in self._wards.values()]
        if isinstance(request, CountChildren):
            return count(self._wards.values(), Keeping)
        if isinstance(request, StartChild):
            return self._add(request, reply)
        if isinstance(request, StopChild):
            return self._stop(self._find(request.child), reply)
        return self._answer_more(request, reply)

    def _answer_more(self, request: Any, reply: Reply | None) -> Any:
        """As `_answer`, for what not every supervisor can do."""
        raise Unhandled(self.ctx.self, request)

    def _answer_later(self, request: Any, reply: Reply) -> None:
        """Answer a request that had to wait."""
        try:
            answer = self._answer(request, reply)
        except Exception as exc:
            reply.fail(exc)
        else:
            if answer is not LATER:
                reply.send(answer)

    def _find(self, child: object) -> Ward:
        """The child of this name, or with this ref."""
        ward = self._wards.get(self._key_of(child))
        if ward is None:
            raise NoSuchChild(self.ctx.self, str(child) if isinstance(child, Address) else child)
        return ward

    def _key_of(self, child: object) -> Any:
        raise NotImplementedError

    def _add(self, request: StartChild, reply: Reply | None) -> Any:
        raise NotImplementedError

    def _bring_up(self, ward: Ward, reply: Reply | None) -> Any:
        """Start a child that has no actor, and answer when it is running."""
        self._spawn(ward)
        ward.started.append(self.ctx.defer_reply() if reply is None else reply)
        return LATER

    def _stop(self, ward: Ward, reply: Reply | None) -> Any:
        """End a child because somebody asks for it, and answer when it is gone."""
        ward.on_request = True
        if ward.status == STOPPED:
            return None
        ward.ended.append(self.ctx.defer_reply() if reply is None else reply)
        if ward.status != ENDING:
            self._end(ward)
        return LATER

    # -- doing

    def _spawn(self, ward: Ward) -> None:
        """Bring up the actor of a child that has none."""
        spec = ward.spec
        mailbox = spec.mailbox if isinstance(spec.mailbox, MailboxConfig) else None
        life = self.ctx.cell.loop.host
        ref = life.spawn(
            spec.factory,
            spec.args,
            dict(spec.kwargs),
            self.ctx.self,
            self._name_of(ward),
            mailbox,
            None,
            None,
            spec.dispatcher,
        )
        ward.entrust(ref)

    def _spawn_again(self, ward: Ward) -> None:
        """Bring up another actor for a child that has had one; if that fails it is tried again."""
        self._spawn(ward)
        ward.tries_again = True

    def _name_of(self, ward: Ward) -> str | None:
        return ward.spec.name

    def _start_again(self, ward: Ward) -> None:
        ward.forget_due()
        ward.unsettled = False
        ward.status = STARTING
        ref: Any = ward.ref
        ref._cell.order(start_again)

    def _end(self, ward: Ward) -> None:
        """Have a child end for good, in its own time."""
        ref: Any = ward.ref
        ward.forget_due()
        ward.unsettled = False
        ward.status = ENDING
        if not ref.is_alive:
            return  # the notice is on its way
        ward.standing.final = True
        ref._cell.loop.host.request_end(ref._cell, KILLED if ward.spec.patience <= 0.0 else SHUTDOWN)

    def _bring_down(self, wards: Iterable[Ward], cause: BaseException | None, for_good: bool) -> Operation:
        """Have children end for good, or come to rest, one after the other."""
        for ward in wards:
            if ward.status == STOPPED:
                continue
            if for_good:
                if ward.status != ENDING:
                    self._end(ward)
                while ward.status != STOPPED:
                    yield
            else:
                yield from self._bring_to_rest(ward, cause)

    def _bring_to_rest(self, ward: Ward, cause: BaseException | None) -> Operation:
        ward.forget_due()
        if ward.status in (RUNNING, STARTING):
            ward.status = LEAVING
            ref: Any = ward.ref
            killed = ward.spec.patience <= 0.0
            ref._cell.loop.host.request_restart(ref._cell, Leave(cause, killed=killed))
        while ward.status not in (RESTING, STOPPED):
            yield
        ward.unsettled = False

    def _restart_alone(self, ward: Ward) -> None:
        """Start a child again, now or when its backoff is over."""
        if ward.status == STOPPED:  # it is gone, though it was to come back: a new one takes its place
            self._spawn_again(ward)
            return
        ward.forget_due()
        delay = self._delay_for(ward)
        self._report(ward, f"{self.ctx.self} restarts it {when(delay)}", delay)
        if delay <= 0.0:
            self._start_again(ward)
        else:
            cell = self.ctx.cell
            due = cell.loop.now() + delay
            ward.standing.due = due
            ward.alarm = DueAlarm(cell, due, Due(ward, self))

    def _delay_for(self, ward: Ward) -> float:
        """How long the next restart of a child waits."""
        backoff = self._backoff if ward.spec.backoff is None else ward.spec.backoff
        chance = self.ctx.system.random.random() if backoff is not None and backoff.jitter else 0.5
        standing = ward.standing
        failure = standing.failure
        since = standing.running_since
        was_up = failure is None or failure.was_running
        ran = elapsed(since, self.ctx.now()) if since is not None and was_up else None
        delay, standing.streak = next_delay(backoff, standing.streak, ran, self._period, chance)
        standing.quiet_time = self._period
        return delay

    def _give_up(self, ward: Ward) -> Operation:
        """One restart too many: stop them all, then fail with what the last one failed with."""
        reason: Any = ward.reason
        ref = ward.ref
        why = f"more than {self._intensity} restarts in {self._period:g} s"
        self._report(ward, f"{why}: {self.ctx.self} stops its children and fails", 0.0, always=True)
        yield from self._bring_down(self._down_order(ward), None, for_good=True)
        cause = reason.cause
        if cause is None:
            cause = RestartLimit(self.ctx.self, ref, reason, self._intensity or 0, self._period)
        # Not raised: each time it is, an exception's traceback grows, and this one may go up through many supervisors.
        cell = self.ctx.cell
        cell.loop.host.failed(cell, Wake(self), cause)
        while True:
            yield  # there is nothing more to do

    def _down_order(self, first: Ward | None = None) -> list[Ward]:
        """All children, the youngest first; `first`, which is down already, before all."""
        wards = [ward for ward in reversed(self._wards.values()) if ward is not first]
        return wards if first is None else [first, *wards]

    def _report(self, ward: Ward, decision: str, acts_in: float, always: bool = False) -> None:
        """Tell people of a failure and of what was decided; of other ends, that they lead to a restart."""
        ref: Any = ward.ref
        if ref is None or not ref.is_alive:
            return
        standing = ward.standing
        if not standing.reported:
            report(ref._cell, standing, decision, acts_in, always)
        else:
            fields = ref._cell.loop.host.log_fields(ref._cell)
            _log.info("%s ended (%s); %s", ref, ward.reason, decision, extra=fields)


LATER = object()
"""The answer to a request will be given later."""
