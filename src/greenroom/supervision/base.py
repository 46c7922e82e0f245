"""What all supervisors do: start children, hear what becomes of them, and answer requests.

A supervisor is an ordinary actor that handles one message at a time. News of its children are notices to it; the
restart engine goes on with each, so orders to the supervisor act at once even in the middle of a restart.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from collections.abc import Generator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from greenroom._core.scheduler.stepping import Wait
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import UNHANDLED
from greenroom.actor.failure.engine import Delayed, Member, Operation, RestartEngine, Status
from greenroom.actor.failure.reports import FailureSource, report, when
from greenroom.actor.life.restarting import RestartOrder, start_again
from greenroom.actor.messaging.address import Address
from greenroom.actor.records.restartstate import RestartState, restart_state_of
from greenroom.actor.records.states import Stage, State
from greenroom.errors import ActorTerminated, NoSuchChild, RestartLimit
from greenroom.errortext import counted
from greenroom.exits import KILLED, SHUTDOWN, ExitKind, ExitReason
from greenroom.lanes import MailboxConfig
from greenroom.policy.children import ChildSpec, DynamicSpec, SupervisorSpec
from greenroom.policy.directives import OnRestart
from greenroom.policy.limits import Window
from greenroom.policy.plan import wants_restart
from greenroom.runtimelog import RuntimeLog
from greenroom.supervision.requests import ChildCounts, ChildInfo, CountChildren, StartChild, StopChild, WhichChildren

if TYPE_CHECKING:
    from greenroom._core.mailbox.cell import Cell
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.reply import Reply

_log = RuntimeLog()


class ChildNotice(FailureSource):
    """Tells a supervisor where a child stands now; without a child, that the supervisor itself has something to do."""

    __slots__ = ("reason", "record", "status")

    def __init__(
        self, record: ChildRecord | None = None, status: Status | None = None, reason: ExitReason | None = None
    ) -> None:
        self.record = record
        self.status = status
        # How the child has ended, if it has.
        self.reason = reason

    def __str__(self) -> str:
        return "over its children"


class ChildWakeup(Wait):
    """What a supervisor that is starting waits for: something has happened to a child."""

    __slots__ = ("_cancelled",)

    def __init__(self) -> None:
        self.set_up_alarm(0.0)
        self.waiter = None
        self._cancelled: BaseException | None = None

    def __await__(self) -> Generator[ChildWakeup, None, None]:
        yield self
        if self._cancelled is not None:
            raise self._cancelled

    def cancel(self, msg: object = None) -> bool:
        self._cancelled = CancelledError() if msg is None else CancelledError(msg)
        self.wake_waiter()
        return True


class ChildRecord(Member):
    """One child: its spec, and its ref while there is one. The `ChildSupervisor` of that actor."""

    __slots__ = ("ended", "is_new", "key", "on_request", "ref", "spec", "started", "supervisor", "tries_again")

    def __init__(self, spec: ChildSpec, key: str | int | None, supervisor: SupervisorBase) -> None:
        super().__init__()
        self.spec = spec
        self.key = key
        self.supervisor = supervisor
        self.ref: ActorRef | None = None
        # Whether a start that fails is tried again: not before the actor has been running once.
        self.tries_again = False
        # Whether the child is forgotten if its first start fails, and whether a request stopped it.
        self.is_new = False
        self.on_request = False
        # Who waits for it to be running, or to be gone.
        self.started: list[Reply] = []
        self.ended: list[Reply] = []

    # -- told by the runtime, on the child's own thread

    @property
    def time_to_stop(self) -> float:
        return self.spec.patience

    @property
    def on_restart(self) -> OnRestart:
        return self.spec.mailbox if isinstance(self.spec.mailbox, OnRestart) else OnRestart.KEEP

    def wants(self, kind: ExitKind) -> bool:
        return self.tries_again and wants_restart(self.spec.restart, kind)

    def rested(self, cell: Cell, reason: ExitReason) -> None:
        self.supervisor._child_notice(ChildNotice(self, Status.RESTING, reason))

    def running(self, cell: Cell) -> None:
        self.tries_again = True
        self.is_new = False
        self.supervisor._child_notice(ChildNotice(self, Status.RUNNING))

    def gone(self, cell: Cell, reason: ExitReason) -> None:
        self.supervisor._child_notice(ChildNotice(self, Status.STOPPED, reason))

    # -- asked by its supervisor

    @property
    def actor_ref(self) -> ActorRef:
        """The ref of a child that has an actor, or had one."""
        return self.ref  # type: ignore[return-value]

    @property
    def exit_reason(self) -> ExitReason:
        """How a child ended that has ended."""
        return self.reason  # type: ignore[return-value]

    @property
    def rests(self) -> bool:
        """Whether the child can be started again: it may have ended for good, and the notice is on its way."""
        return self.status is Status.RESTING and self.ref is not None and self.ref.is_alive

    @property
    def restart_state(self) -> RestartState:
        """The runtime's own record of a child that is alive."""
        return restart_state_of(self.actor_ref._cell.record)

    # -- told by the engine

    def start(self) -> bool:
        """Start the actor again, or another one if it is gone; not if it was stopped on request."""
        if self.on_request or self.status not in (Status.RESTING, Status.STOPPED):
            return False
        if self.status is Status.STOPPED:
            self.supervisor._spawn(self)
            self.tries_again = True
        else:
            self.cancel_restart()
            self.unsettled = False
            self.status = Status.STARTING
            self.actor_ref._cell.order(start_again)
        return True

    def leave(self, cause: BaseException | None) -> None:
        cell = self.actor_ref._cell
        cell.loop.host.request(cell, RestartOrder(cause, killed=self.spec.patience <= 0.0))

    def end(self) -> None:
        """Have the actor end for good; if it has, the notice is on its way."""
        if self.actor_ref.is_alive:
            self.restart_state.final = True
            cell = self.actor_ref._cell
            cell.loop.host.request_end(cell, KILLED if self.spec.patience <= 0.0 else SHUTDOWN)

    def supervise(self, ref: ActorRef) -> None:
        self.ref = ref
        self.status = Status.STARTING
        self.tries_again = self.on_request = False
        self.restart_state.supervisor = self

    def info(self) -> ChildInfo:
        if self.ref is None or not self.ref.is_alive:
            return ChildInfo(self.spec.name, None, State.TERMINATED, 0, None, None)
        restart_state = self.restart_state
        due = restart_state.due if self.ref._cell.record.stage == Stage.RESTING else None
        return ChildInfo(
            self.ref.name, self.ref, self.ref.state, restart_state.restarts, restart_state.last_restart, due
        )


class SupervisorBase(Actor):
    """The common part of `Supervisor` and `DynamicSupervisor`."""

    REQUESTS: ClassVar[tuple[type, ...]] = (StartChild, StopChild, WhichChildren, CountChildren)
    __greenroom_stays_on_loop__: ClassVar[bool] = True

    def __init__(self, spec: SupervisorSpec | DynamicSpec) -> None:
        self._spec = spec
        self._window = Window(spec.intensity, spec.period)
        # By name, or (if they are all made of one template) by id; in the order they were first started.
        self._records: dict[str | int | None, ChildRecord] = {}
        # Requests that wait for the end of what is under way.
        self._requests: deque[tuple[object, Reply]] = deque()
        # While the supervisor itself is starting, it handles no notices yet.
        self._wakeup: ChildWakeup | None = None

    # -- notices

    def _child_notice(self, notice: ChildNotice) -> None:
        """News of a child: noted in the supervisor's turn, or at once while it is still starting."""
        if self._wakeup is not None:
            self._note(notice)
            self._wakeup.wake_waiter()
        else:
            self.ctx.cell.notify(notice)

    def receive(self, message: object) -> object:
        if isinstance(message, ChildNotice):
            if message.record is not None and self._records.get(message.record.key) is not message.record:
                return None
            self._note(message)
        elif isinstance(message, Delayed):
            self._engine.rung(message)
        elif isinstance(message, self.REQUESTS):
            self._requests.append((message, self.ctx.defer_reply()))
        else:
            return UNHANDLED
        self._go_on()
        return None

    def _note(self, notice: ChildNotice) -> None:
        """Tell the engine what has become of a child, and answer the requests that wait for it."""
        record = notice.record
        if record is None:
            return
        if notice.reason is None:
            self._engine.running(record)
            started, record.started = record.started, []
            for reply in started:
                reply.send(record.ref)
        elif notice.status is Status.RESTING:
            self._engine.rested(record, notice.reason)
        else:
            self._note_gone(record, notice.reason)

    def _note_gone(self, record: ChildRecord, reason: ExitReason) -> None:
        ref, record.ref = record.ref, None
        was_up = record.tries_again
        by_itself = record.status in (Status.RUNNING, Status.RESTING) or (record.status is Status.STARTING and was_up)
        self._engine.gone(record, reason, by_itself)
        cause = reason.cause
        error = cause if isinstance(cause, Exception) else ActorTerminated(ref, reason)
        started, record.started = record.started, []
        for reply in started:
            reply.fail(error)
        ended, record.ended = record.ended, []
        for reply in ended:
            reply.send(None)
        if not by_itself:
            self._has_ended(record, was_up)

    def _has_ended(self, record: ChildRecord, was_up: bool) -> None:
        """A child has ended because it was told to, or its first start failed."""
        raise NotImplementedError

    def post_stop(self) -> None:
        """Cancel the restarts to come, and fail the requests that would wait for ever."""
        waiting = [reply for _, reply in self._requests]
        for record in self._records.values():
            record.cancel_restart()
            waiting += [*record.started, *record.ended]
            record.started, record.ended = [], []
        self._requests.clear()
        self._engine.close()
        for reply in waiting:
            reply.fail(ActorTerminated(self.ctx.self, "before it could answer; if it is restarted, ask again"))

    # -- what is under way

    @cached_property
    def _engine(self) -> RestartEngine[ChildRecord]:
        cell = self.ctx.cell
        return RestartEngine(cell.loop, self._settle, cell.notify)

    def _go_on(self) -> None:
        """Go on with what is under way, as far as it goes; then with the requests that wait for its end."""
        self._engine.go_on()
        while self._engine.operation is None and self._requests:
            request, reply = self._requests.popleft()
            try:
                self._answer(request, reply)
            except Exception as exc:  # the asker's mistake, not the supervisor's
                reply.fail(exc)
            self._engine.go_on()

    def _settle(self, record: ChildRecord) -> Operation | None:
        if record.rests or record.status is Status.STOPPED:
            return self._decide(record)
        return None  # it has ended for good since, and the notice is coming

    def _decide(self, record: ChildRecord) -> Operation | None:
        raise NotImplementedError

    # -- requests

    def _answer(self, request: object, reply: Reply) -> None:
        if isinstance(request, WhichChildren):
            reply.send([record.info() for record in self._records.values()])
        elif isinstance(request, CountChildren):
            reply.send(self._counts())
        elif isinstance(request, StartChild):
            self._add(request, reply)
        elif isinstance(request, StopChild):
            self._stop(self._find(request.child), reply)

    def _counts(self) -> ChildCounts:
        statuses = [record.status for record in self._records.values()]
        factories = [record.spec.factory for record in self._records.values()]
        supervisors = sum(isinstance(one, type) and issubclass(one, SupervisorBase) for one in factories)
        return ChildCounts(
            specs=len(statuses),
            active=statuses.count(Status.RUNNING),
            restarting=statuses.count(Status.RESTING) + statuses.count(Status.LEAVING),
            supervisors=supervisors,
            workers=len(statuses) - supervisors,
        )

    def _find(self, child: object) -> ChildRecord:
        """The child of this name, or with this ref."""
        record = self._records.get(self._key_of(child))
        if record is None:
            raise NoSuchChild(self.ctx.self, str(child) if isinstance(child, Address) else child)
        return record

    def _key_of(self, child: object) -> str | int | None:
        raise NotImplementedError

    def _add(self, request: StartChild, reply: Reply) -> None:
        raise NotImplementedError

    def _bring_up(self, record: ChildRecord, reply: Reply) -> None:
        """Start a child that has no actor; the answer is sent when it is running."""
        self._spawn(record)
        record.started.append(reply)

    def _stop(self, record: ChildRecord, reply: Reply) -> None:
        """End a child on request; the answer is sent when it is gone."""
        record.on_request = True
        if record.status is Status.STOPPED:
            reply.send(None)
            return
        record.ended.append(reply)
        if record.status is not Status.ENDING:
            self._engine.end(record)

    # -- carrying out

    def _spawn(self, record: ChildRecord) -> None:
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
        record.supervise(ref)

    def _forget(self, record: ChildRecord) -> None:
        self._records.pop(record.key, None)
        record.on_request = True  # so that it is not started with others
        record.unsettled = False

    def _name_of(self, record: ChildRecord) -> str | None:
        return record.spec.name

    def _restart_alone(self, record: ChildRecord) -> None:
        if record.status is Status.STOPPED:  # it is gone, though it was to come back: a new one takes its place
            record.start()
            return
        delay = self._delay_for(record)
        self._report(record, f"{self.ctx.self} restarts it {when(delay)}", delay)
        record.restart_state.due = self.ctx.cell.loop.now() + delay
        self._engine.restart(record, delay)

    def _delay_for(self, record: ChildRecord) -> float:
        backoff = self._spec.backoff if record.spec.backoff is None else record.spec.backoff
        restart_state = record.restart_state
        ran = restart_state.ran(self.ctx.now())
        return restart_state.delays.next(backoff, ran, self._spec.period, self.ctx.system.random)

    def _give_up(self, record: ChildRecord) -> Operation:
        """End all children, then fail with what the last one failed with."""
        reason = record.exit_reason
        ref = record.ref
        spec = self._spec
        why = f"more than {counted(spec.intensity, 'restart')} in {spec.period:g} s"
        remedy = "Find out why it ends, or raise `intensity` or `period` of its Supervisor"
        self._report(record, f"{why}: {self.ctx.self} stops its children and fails", 0.0, always=True, remedy=remedy)
        yield from self._engine.bring_down(self._down_order(record), None, for_good=True)
        cause = reason.cause
        if cause is None:
            cause = RestartLimit(self.ctx.self, ref, reason, spec.intensity or 0, spec.period)
        # Not raised: each time it is, an exception's traceback grows, and this one may go up through many supervisors.
        cell = self.ctx.cell
        cell.loop.host.failed(cell, ChildNotice(), cause)
        while True:
            yield  # there is nothing more to do

    def _down_order(self, first: ChildRecord | None = None) -> list[ChildRecord]:
        """All children, the youngest first; `first`, which is down already, before all."""
        records = [record for record in reversed(self._records.values()) if record is not first]
        return records if first is None else [first, *records]

    def _report(
        self, record: ChildRecord, decision: str, acts_in: float, always: bool = False, remedy: str = ""
    ) -> None:
        """Log a failure and what was decided about it, or that another end leads to a restart."""
        ref = record.ref
        if ref is None or not ref.is_alive:
            return
        restart_state = record.restart_state
        if not restart_state.reported:
            report(ref._cell, restart_state, decision, acts_in, always, remedy)
        else:
            fields = ref._cell.loop.host.log_fields(ref._cell)
            _log.info("%s ended (%s); %s", ref, record.reason, decision, extra=fields)
