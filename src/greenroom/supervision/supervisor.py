"""`Supervisor`: an actor that keeps its children running, as their specs say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from greenroom.actor.failure.reports import when
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.ref import ActorRef
from greenroom.actor.messaging.reply import Reply
from greenroom.errors import (
    ActorTerminated,
    BadArgument,
    ChildExists,
    ChildRestarting,
    ChildRunning,
    ConfigError,
    NoSuchChild,
)
from greenroom.exits import SHUTDOWN
from greenroom.policy.backoff import Backoff
from greenroom.policy.children import AutoShutdown, ChildSpec, Restart, SupervisorSpec
from greenroom.policy.directives import Scope
from greenroom.policy.plan import Action, Child, Forget, GiveUp, ShutDown, Start, Stop, plan, wants_restart
from greenroom.supervision.base import Operation, SupervisorBase
from greenroom.supervision.childrecord import (
    LEAVING,
    RESTING,
    STARTING,
    STOPPED,
    ChildRecord,
    ChildWakeup,
    RestartDue,
    RestartDueAlarm,
    Wake,
)
from greenroom.supervision.requests import DeleteChild, RestartChild, StartChild

__all__ = ["Supervisor"]


class Supervisor(SupervisorBase):
    """Starts its children in order, restarts them by their specs, and stops them in reverse order.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem, ChildSpec, Supervisor, WhichChildren
    >>> class Worker(Actor[str, str]):
    ...     def receive(self, message: str) -> str:
    ...         return message.upper()
    >>> async def main() -> list[str]:
    ...     async with ActorSystem() as system:
    ...         spec = Supervisor.spec([ChildSpec("a", Worker), ChildSpec("b", Worker)])
    ...         supervisor = system.spawn(Supervisor, spec)
    ...         return [child.name for child in await supervisor.ask(WhichChildren())]
    >>> asyncio.run(main())
    ['a', 'b']
    """

    def __init__(self, spec: SupervisorSpec) -> None:
        if not isinstance(spec, SupervisorSpec):
            raise ConfigError("spec", spec, "must be a Supervisor.spec(...)")
        super().__init__(spec.intensity, spec.period, spec.backoff)
        self._spec = spec
        # Those that wait for the same moment, to be started together; and whether it has come.
        self._batch: list[ChildRecord] = []
        self._batch_due = 0.0
        self._batch_alarm: RestartDueAlarm | None = None
        self._batch_is_due = False

    @staticmethod
    def spec(
        children: Iterable[ChildSpec] = (),
        scope: Scope = Scope.ONE_FOR_ONE,
        intensity: int | None = 3,
        period: float = 5.0,
        auto_shutdown: AutoShutdown = AutoShutdown.NEVER,
        backoff: Backoff | None = None,
    ) -> SupervisorSpec:
        """What `spawn(Supervisor, ...)` takes; a spec that makes no sense is a `ConfigError`."""
        return SupervisorSpec(tuple(children), scope, intensity, period, auto_shutdown, backoff)

    # -- its own start

    async def pre_start(self) -> None:
        """Start all children, one after the other; if one cannot start, stop those before it and fail."""
        self.ctx.ensure_extras().orderly = True
        self._wakeup = ChildWakeup()
        for spec in self._spec.children:
            record = self._records[spec.name] = ChildRecord(spec, spec.name, self._child_notice)
            try:
                self._spawn(record)
                while record.status == STARTING:
                    await self._wakeup
                if not record.tries_again:
                    raise self._cause_of(record)
            except Exception:
                for _ in self._bring_down(self._down_order(), None, for_good=True):
                    await self._wakeup
                raise
        self._wakeup = None
        # Something may have become of the first while the last were starting.
        self._unsettled.extend(record for record in self._records.values() if record.unsettled)
        self.ctx.cell.notify(Wake(self))

    def post_stop(self) -> None:
        """Nothing is to come any more."""
        super().post_stop()
        if self._batch_alarm is not None:
            self._batch_alarm.cancel()

    def _cause_of(self, record: ChildRecord) -> BaseException:
        """Why a child could not start."""
        reason = record.exit_reason
        return ActorTerminated(f"{self.ctx.self}/{record.spec.name}", reason) if reason.cause is None else reason.cause

    # -- exits

    def _settle(self, record: ChildRecord) -> Operation | None:
        reason = record.exit_reason
        wants = wants_restart(record.spec.restart, reason.kind)
        within_limit = self._window.admits(self.ctx.now()) if wants else True
        records = self._concerned(record)
        views = [
            Child(one.spec.name, one.spec.restart, not one.on_request, one.spec.significant, _has_finished(one))
            for one in records
        ]
        actions = plan(
            self._spec.scope, self._spec.auto_shutdown, views, records.index(record), reason.kind, within_limit
        )
        if any(isinstance(action, GiveUp) for action in actions):
            return self._give_up(record)
        if wants and self._spec.scope is Scope.ONE_FOR_ONE:
            self._restart_alone(record)
            return None
        return self._carry_out(actions, record)

    def _concerned(self, record: ChildRecord) -> list[ChildRecord]:
        """Those a plan has to know of."""
        if self._spec.scope is Scope.ONE_FOR_ONE and not record.spec.significant:
            return [record]
        return list(self._records.values())

    def _carry_out(self, actions: tuple[Action, ...], record: ChildRecord) -> Operation:
        reason = record.exit_reason
        starts = next((action for action in actions if isinstance(action, Start)), None)
        delay = 0.0
        if starts is not None and record.rests:
            delay = self._delay_for(record)
            self._report(record, f"{self.ctx.self} restarts {', '.join(starts.names)} {when(delay)}", delay)
        for action in actions:
            if isinstance(action, Stop):
                for one in [self._records[name] for name in action.names]:
                    for_good = starts is None or one.spec.restart is Restart.TEMPORARY
                    yield from self._bring_down([one], reason.cause, for_good)
            elif isinstance(action, Forget):
                self._records.pop(action.name, None)
            elif isinstance(action, Start):
                self._wait_together([self._records[name] for name in action.names if name in self._records], delay)
                if self._batch_alarm is None:
                    yield from self._start_batch()
            elif isinstance(action, ShutDown):
                cell = self.ctx.cell
                cell.loop.host.request_end(cell, SHUTDOWN)

    # -- starting several

    def _wait_together(self, records: list[ChildRecord], delay: float) -> None:
        """Let these be started together, when the delay is over; and with them those that wait already."""
        cell = self.ctx.cell
        now: float = cell.loop.now()
        due = now + delay
        if self._batch_alarm is not None:
            self._batch_alarm.cancel()
            self._batch_alarm = None
            due = max(due, self._batch_due)
        self._batch_is_due = False
        waiting = {id(record) for record in (*self._batch, *records)}
        self._batch = [record for record in self._records.values() if id(record) in waiting]
        self._batch_due = due
        for record in self._batch:
            record.forget_due()
            if record.rests:
                record.restart_state.due = due
        if due > now:
            self._batch_alarm = RestartDueAlarm(cell, due, RestartDue(None, self))

    def _start_batch(self) -> Operation:
        batch, self._batch = self._batch, []
        for record in batch:
            if self._records.get(record.key) is not record or record.on_request:
                continue
            if record.status == RESTING:
                self._start_again(record)
            elif record.status == STOPPED:  # it had finished, or is gone
                self._spawn_again(record)
            else:
                continue
            while record.status == STARTING:
                yield
            if record.status == RESTING and record.unsettled:
                return  # it failed again: those that are left are part of what is done about that

    def _note_due(self, due: RestartDue) -> None:
        if due.record is not None:
            super()._note_due(due)
        elif self._batch_alarm is not None:
            self._batch_alarm = None
            self._batch_is_due = True

    def _begin_what_is_due(self) -> bool:
        if not self._batch_is_due:
            return False
        self._batch_is_due = False
        self._operation = self._start_batch()
        return True

    def _spawn(self, record: ChildRecord) -> None:
        super()._spawn(record)
        # A new actor stands where the list of children has it, for they are stopped in reverse.
        younger: ActorRef | None = None
        for other in reversed(self._records.values()):
            if other is record:
                if younger is not None:
                    siblings = self.ctx.cell.record.child_list
                    siblings.put_before(record.actor_ref._cell.record, younger._cell.record)
                return
            if other.ref is not None and other.ref.is_alive:
                younger = other.ref

    # -- requests

    def _find(self, child: object) -> ChildRecord:
        record = super()._find(child)
        if isinstance(child, Address) and record.ref is not None and child != record.ref:
            raise NoSuchChild(self.ctx.self, f"{child} (ended: another has its place)")
        return record

    def _key_of(self, child: object) -> str | int | None:
        if isinstance(child, ActorRef):
            return child.name if child.parent == self.ctx.self else None
        return child if isinstance(child, str) else None

    def _add(self, request: StartChild, reply: Reply | None) -> object:
        if len(request.args) != 1 or request.kwargs:
            raise BadArgument(f"a Supervisor takes StartChild(ChildSpec(...)), not {request!r}")
        spec = self._spec.require_fit(request.args[0])
        if spec.name in self._records:
            raise ChildExists(self.ctx.self, spec.name)
        record = ChildRecord(spec, spec.name, self._child_notice)
        record.new = True
        self._records[spec.name] = record
        try:
            return self._bring_up(record, reply)
        except Exception:
            del self._records[spec.name]
            raise

    REQUESTS: ClassVar[tuple[type, ...]] = (*SupervisorBase.REQUESTS, RestartChild, DeleteChild)

    def _answer_more(self, request: object, reply: Reply | None) -> object:
        if isinstance(request, RestartChild):
            return self._bring_up(self._require_stopped(request.child), reply)
        if isinstance(request, DeleteChild):
            del self._records[self._require_stopped(request.child).key]
            return None
        return super()._answer_more(request, reply)

    def _require_stopped(self, child: object) -> ChildRecord:
        record = self._find(child)
        if record.status in (RESTING, LEAVING):
            raise ChildRestarting(self.ctx.self, record.spec.name)
        if record.status != STOPPED:
            raise ChildRunning(self.ctx.self, record.spec.name)
        return record

    def _has_ended(self, record: ChildRecord, never_up: bool) -> None:
        if (never_up and record.new) or (record.on_request and record.spec.restart is Restart.TEMPORARY):
            self._records.pop(record.key, None)


def _has_finished(record: ChildRecord) -> bool:
    """Whether it has ended by itself, and is not to come back by itself."""
    return record.status == STOPPED and not record.unsettled
