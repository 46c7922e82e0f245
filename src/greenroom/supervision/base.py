"""What all supervisors do: start children, hear what becomes of them, and carry out plans.

A plan is carried out as an *operation*: a generator that yields whenever it has to wait for a child, and goes on with
the next notice about one. So the supervisor is an ordinary actor that handles one message at a time, orders to it act
at once even in the middle of an operation, and nothing is ever retried in a loop: each attempt is a notice of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, ClassVar

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.failure.reports import report, when
from greenroom.actor.life.restarting import RestartOrder, start_again
from greenroom.actor.messaging.address import Address
from greenroom.errors import ActorTerminated, NoSuchChild, RestartLimit, Unhandled
from greenroom.errors.base import counted
from greenroom.exits import KILLED, SHUTDOWN, ExitReason
from greenroom.lanes import MailboxConfig
from greenroom.policy.backoff import Backoff, next_delay
from greenroom.policy.intensity import Window, elapsed
from greenroom.runtimelog import RuntimeLog
from greenroom.supervision.childrecord import (
    ENDING,
    LEAVING,
    RESTING,
    RUNNING,
    STARTING,
    STOPPED,
    ChildNotice,
    ChildRecord,
    ChildWakeup,
    Gone,
    RestartDue,
    RestartDueAlarm,
    Rested,
    Running,
    Wake,
    count,
)
from greenroom.supervision.requests import CountChildren, StartChild, StopChild, WhichChildren

if TYPE_CHECKING:
    from greenroom.actor.messaging.reply import Reply

__all__ = ["LATER", "Operation", "SupervisorBase"]

_log = RuntimeLog()

Operation = Generator[None, None, None]


class SupervisorBase(Actor):
    """The common part of `Supervisor` and `DynamicSupervisor`."""

    REQUESTS: ClassVar[tuple[type, ...]] = (StartChild, StopChild, WhichChildren, CountChildren)
    __greenroom_stays_on_loop__: ClassVar[bool] = True

    def __init__(self, intensity: int | None, period: float, backoff: Backoff | None) -> None:
        self._period = period
        self._intensity = intensity
        self._backoff = backoff
        self._window = Window(intensity, period)
        # By name, or (if they are all made of one template) by id; in the order they were first started.
        self._records: dict[str | int | None, ChildRecord] = {}
        # What is under way, and who waits for its end: exits to be settled, and requests.
        self._operation: Operation | None = None
        self._unsettled: deque[ChildRecord] = deque()
        self._requests: deque[tuple[object, Reply]] = deque()
        # While the supervisor itself is starting, it handles no notices yet.
        self._wakeup: ChildWakeup | None = None

    # -- notices

    def _child_notice(self, notice: ChildNotice) -> None:
        """Something has become of a child: see to it when it is its turn."""
        if self._wakeup is not None:
            self._note(notice)
            self._wakeup.wake_waiter()
        else:
            self.ctx.cell.notify(notice)

    def receive(self, message: object) -> object:
        """A notice about a child, or a request."""
        if isinstance(message, ChildNotice):
            if self._is_mine(message):
                self._take_notice(message)
            return None
        if not isinstance(message, self.REQUESTS):
            return UNHANDLED
        if self._operation is not None:
            self._requests.append((message, self.ctx.defer_reply()))
            return None
        try:
            answer = self._answer(message, None)
        except Exception as exc:  # the asker's mistake, not the supervisor's
            self.ctx.fail_reply(exc)
            return None
        return None if answer is LATER else answer

    def _is_mine(self, notice: ChildNotice) -> bool:
        """Whether a notice is about a child that is still one, and not about one of an incarnation before."""
        if notice.record is not None:
            return self._records.get(notice.record.key) is notice.record
        return isinstance(notice, RestartDue | Wake) and notice.owner is self

    def _take_notice(self, notice: ChildNotice) -> None:
        if isinstance(notice, RestartDue):
            self._note_due(notice)
        elif notice.record is not None:
            self._note(notice)
            if notice.record.unsettled:
                self._unsettled.append(notice.record)
        self._go_on()

    def _note(self, notice: ChildNotice) -> None:
        """Write down what has become of a child. It may be old news: the child was told something else since."""
        record = notice.record
        if record is None:
            return
        if isinstance(notice, Running):
            if record.status in (STARTING, RESTING):
                record.status = RUNNING
                record.unsettled = False
                record.reason = None
                record.forget_due()
            started, record.started = record.started, []
            for reply in started:
                reply.send(record.ref)
        elif isinstance(notice, Gone):
            self._note_gone(record, notice.reason)
        elif isinstance(notice, Rested) and record.status != ENDING:
            # If it was told to, whoever told it goes on; else this is news.
            record.unsettled = record.status != LEAVING
            record.status = RESTING
            record.reason = notice.reason

    def _note_gone(self, record: ChildRecord, reason: ExitReason) -> None:
        ref, record.ref = record.ref, None
        by_itself = record.status in (RUNNING, RESTING) or (record.status == STARTING and record.tries_again)
        never_up = not record.tries_again
        record.forget_due()
        record.status = STOPPED
        record.reason = reason
        record.unsettled = by_itself
        cause = reason.cause
        error = cause if isinstance(cause, Exception) else ActorTerminated(ref, reason)
        started, record.started = record.started, []
        for reply in started:
            reply.fail(error)
        ended, record.ended = record.ended, []
        for reply in ended:
            reply.send(None)
        if not by_itself:
            self._has_ended(record, never_up)

    def _has_ended(self, record: ChildRecord, never_up: bool) -> None:
        """A child has ended because it was told to, or never came up: it may be time to forget it."""
        raise NotImplementedError

    def _note_due(self, due: RestartDue) -> None:
        """It is time for a restart."""
        record = due.record
        # A restart that was given up, or begun in another way, while this notice was queued has no alarm any more.
        if record is not None and record.alarm is not None and record.alarm.notice is due and record.status == RESTING:
            self._start_again(record)

    def post_stop(self) -> None:
        """Nothing is to come any more. Who still waits for an answer would wait for ever."""
        waiting = [reply for _, reply in self._requests]
        for record in self._records.values():
            record.forget_due()
            waiting += [*record.started, *record.ended]
            record.started, record.ended = [], []
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
                record = self._unsettled.popleft()
                if record.unsettled and self._records.get(record.key) is record:
                    record.unsettled = False
                    if record.rests or record.status == STOPPED:  # else it has ended for good, and the notice is coming
                        self._operation = self._settle(record)
            elif self._begin_what_is_due():
                continue
            elif self._requests:
                request, reply = self._requests.popleft()
                self._answer_later(request, reply)
            else:
                return

    def _settle(self, record: ChildRecord) -> Operation | None:
        """Do something about the end of a child, as the plan says: the operation that is, if it takes one."""
        raise NotImplementedError

    def _begin_what_is_due(self) -> bool:
        """Begin what had to wait for the end of something else; whether there was such a thing."""
        return False

    # -- requests

    def _answer(self, request: object, reply: Reply | None) -> object:
        """The answer to a request, or `LATER` if it will be given to `reply`."""
        if isinstance(request, WhichChildren):
            return [record.info() for record in self._records.values()]
        if isinstance(request, CountChildren):
            return count(self._records.values(), SupervisorBase)
        if isinstance(request, StartChild):
            return self._add(request, reply)
        if isinstance(request, StopChild):
            return self._stop(self._find(request.child), reply)
        return self._answer_more(request, reply)

    def _answer_more(self, request: object, reply: Reply | None) -> object:
        """As `_answer`, for what not every supervisor can do."""
        raise Unhandled(self.ctx.self, request)

    def _answer_later(self, request: object, reply: Reply) -> None:
        """Answer a request that had to wait."""
        try:
            answer = self._answer(request, reply)
        except Exception as exc:
            reply.fail(exc)
        else:
            if answer is not LATER:
                reply.send(answer)

    def _find(self, child: object) -> ChildRecord:
        """The child of this name, or with this ref."""
        record = self._records.get(self._key_of(child))
        if record is None:
            raise NoSuchChild(self.ctx.self, str(child) if isinstance(child, Address) else child)
        return record

    def _key_of(self, child: object) -> str | int | None:
        raise NotImplementedError

    def _add(self, request: StartChild, reply: Reply | None) -> object:
        raise NotImplementedError

    def _bring_up(self, record: ChildRecord, reply: Reply | None) -> object:
        """Start a child that has no actor, and answer when it is running."""
        self._spawn(record)
        record.started.append(self.ctx.defer_reply() if reply is None else reply)
        return LATER

    def _stop(self, record: ChildRecord, reply: Reply | None) -> object:
        """End a child because somebody asks for it, and answer when it is gone."""
        record.on_request = True
        if record.status == STOPPED:
            return None
        record.ended.append(self.ctx.defer_reply() if reply is None else reply)
        if record.status != ENDING:
            self._end(record)
        return LATER

    # -- carrying out

    def _spawn(self, record: ChildRecord) -> None:
        """Bring up the actor of a child that has none."""
        spec = record.spec
        mailbox = spec.mailbox if isinstance(spec.mailbox, MailboxConfig) else None
        life = self.ctx.cell.loop.host
        ref = life.spawn(
            spec.factory,
            spec.args,
            dict(spec.kwargs),
            self.ctx.self,
            self._name_of(record),
            mailbox,
            None,
            None,
            spec.dispatcher,
        )
        record.entrust(ref)

    def _spawn_again(self, record: ChildRecord) -> None:
        """Bring up another actor for a child that has had one; if that fails it is tried again."""
        self._spawn(record)
        record.tries_again = True

    def _name_of(self, record: ChildRecord) -> str | None:
        return record.spec.name

    def _start_again(self, record: ChildRecord) -> None:
        record.forget_due()
        record.unsettled = False
        record.status = STARTING
        ref = record.actor_ref
        ref._cell.order(start_again)

    def _end(self, record: ChildRecord) -> None:
        """Have a child end for good, in its own time."""
        ref = record.actor_ref
        record.forget_due()
        record.unsettled = False
        record.status = ENDING
        if not ref.is_alive:
            return  # the notice is on its way
        record.restart_state.final = True
        ref._cell.loop.host.request_end(ref._cell, KILLED if record.spec.patience <= 0.0 else SHUTDOWN)

    def _bring_down(self, records: Iterable[ChildRecord], cause: BaseException | None, for_good: bool) -> Operation:
        """Have children end for good, or come to rest, one after the other."""
        for record in records:
            if record.status == STOPPED:
                continue
            if for_good:
                if record.status != ENDING:
                    self._end(record)
                while record.status != STOPPED:
                    yield
            else:
                yield from self._bring_to_rest(record, cause)

    def _bring_to_rest(self, record: ChildRecord, cause: BaseException | None) -> Operation:
        record.forget_due()
        if record.status in (RUNNING, STARTING):
            record.status = LEAVING
            ref = record.actor_ref
            killed = record.spec.patience <= 0.0
            ref._cell.loop.host.request_restart(ref._cell, RestartOrder(cause, killed=killed))
        while record.status not in (RESTING, STOPPED):
            yield
        record.unsettled = False

    def _restart_alone(self, record: ChildRecord) -> None:
        """Start a child again, now or when its backoff is over."""
        if record.status == STOPPED:  # it is gone, though it was to come back: a new one takes its place
            self._spawn_again(record)
            return
        record.forget_due()
        delay = self._delay_for(record)
        self._report(record, f"{self.ctx.self} restarts it {when(delay)}", delay)
        if delay <= 0.0:
            self._start_again(record)
        else:
            cell = self.ctx.cell
            due = cell.loop.now() + delay
            record.restart_state.due = due
            record.alarm = RestartDueAlarm(cell, due, RestartDue(record, self))

    def _delay_for(self, record: ChildRecord) -> float:
        """How long the next restart of a child waits."""
        backoff = self._backoff if record.spec.backoff is None else record.spec.backoff
        chance = self.ctx.system.random.random() if backoff is not None and backoff.jitter else 0.5
        restart_state = record.restart_state
        failure = restart_state.failure
        since = restart_state.running_since
        was_up = failure is None or failure.was_running
        ran = elapsed(since, self.ctx.now()) if since is not None and was_up else None
        delay, restart_state.streak = next_delay(backoff, restart_state.streak, ran, self._period, chance)
        restart_state.quiet_time = self._period
        return delay

    def _give_up(self, record: ChildRecord) -> Operation:
        """One restart too many: stop them all, then fail with what the last one failed with."""
        reason = record.exit_reason
        ref = record.ref
        why = f"more than {counted(self._intensity, 'restart')} in {self._period:g} s"
        remedy = "Find out why it ends, or raise `intensity` or `period` of its Supervisor"
        self._report(record, f"{why}: {self.ctx.self} stops its children and fails", 0.0, always=True, remedy=remedy)
        yield from self._bring_down(self._down_order(record), None, for_good=True)
        cause = reason.cause
        if cause is None:
            cause = RestartLimit(self.ctx.self, ref, reason, self._intensity or 0, self._period)
        # Not raised: each time it is, an exception's traceback grows, and this one may go up through many supervisors.
        cell = self.ctx.cell
        cell.loop.host.failed(cell, Wake(self), cause)
        while True:
            yield  # there is nothing more to do

    def _down_order(self, first: ChildRecord | None = None) -> list[ChildRecord]:
        """All children, the youngest first; `first`, which is down already, before all."""
        records = [record for record in reversed(self._records.values()) if record is not first]
        return records if first is None else [first, *records]

    def _report(
        self, record: ChildRecord, decision: str, acts_in: float, always: bool = False, remedy: str = ""
    ) -> None:
        """Tell people of a failure and of what was decided; of other ends, that they lead to a restart."""
        ref = record.ref
        if ref is None or not ref.is_alive:
            return
        restart_state = record.restart_state
        if not restart_state.reported:
            report(ref._cell, restart_state, decision, acts_in, always, remedy)
        else:
            fields = ref._cell.loop.host.log_fields(ref._cell)
            _log.info("%s ended (%s); %s", ref, record.reason, decision, extra=fields)


LATER = object()
"""The answer to a request will be given later."""
