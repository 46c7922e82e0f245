"""`Supervisor`: an actor that keeps its children running, as their specs say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from greenroom.actor.failure.engine import Operation, Status
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
from greenroom.supervision.base import ChildNotice, ChildRecord, ChildWakeup, SupervisorBase
from greenroom.supervision.requests import DeleteChild, RestartChild, StartChild


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

    _spec: SupervisorSpec

    def __init__(self, spec: SupervisorSpec) -> None:
        if not isinstance(spec, SupervisorSpec):
            raise ConfigError("spec", spec, "must be a Supervisor.spec(...)")
        super().__init__(spec)

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
            record = self._records[spec.name] = ChildRecord(spec, spec.name, self)
            try:
                self._spawn(record)
                while record.status is Status.STARTING:
                    await self._wakeup
                if not record.tries_again:
                    raise self._cause_of(record)
            except Exception:
                for _ in self._engine.bring_down(self._down_order(), None, for_good=True):
                    await self._wakeup
                raise
        self._wakeup = None
        self.ctx.cell.notify(ChildNotice())  # something may have become of the first while the last were starting

    def _cause_of(self, record: ChildRecord) -> BaseException:
        reason = record.exit_reason
        return ActorTerminated(f"{self.ctx.self}/{record.spec.name}", reason) if reason.cause is None else reason.cause

    # -- exits

    def _decide(self, record: ChildRecord) -> Operation | None:
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
                    yield from self._engine.bring_down([one], reason.cause, for_good)
            elif isinstance(action, Forget):
                if action.name in self._records:  # it may have been forgotten when it ended
                    self._forget(self._records[action.name])
            elif isinstance(action, Start):
                self._start_together(action.names, self.ctx.cell.loop.now() + delay)
            elif isinstance(action, ShutDown):
                cell = self.ctx.cell
                cell.loop.host.request_end(cell, SHUTDOWN)

    def _start_together(self, names: Iterable[str], due: float) -> None:
        records = [self._records[name] for name in names if name in self._records]
        places = {record: number for number, record in enumerate(self._records.values())}
        due, batch = self._engine.restart_together(records, due, lambda record: places.get(record, -1))
        for record in batch:
            if record.rests:
                record.restart_state.due = due

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

    def _add(self, request: StartChild, reply: Reply) -> None:
        if len(request.args) != 1 or request.kwargs:
            raise BadArgument(f"a Supervisor takes StartChild(ChildSpec(...)), not {request!r}")
        spec = self._spec.require_fit(request.args[0])
        if spec.name in self._records:
            raise ChildExists(self.ctx.self, spec.name)
        record = ChildRecord(spec, spec.name, self)
        record.is_new = True
        self._records[spec.name] = record
        try:
            self._bring_up(record, reply)
        except Exception:
            del self._records[spec.name]
            raise

    REQUESTS: ClassVar[tuple[type, ...]] = (*SupervisorBase.REQUESTS, RestartChild, DeleteChild)

    def _answer(self, request: object, reply: Reply) -> None:
        if isinstance(request, RestartChild):
            self._bring_up(self._require_stopped(request.child), reply)
        elif isinstance(request, DeleteChild):
            self._forget(self._require_stopped(request.child))
            reply.send(None)
        else:
            super()._answer(request, reply)

    def _require_stopped(self, child: object) -> ChildRecord:
        record = self._find(child)
        if record.status in (Status.RESTING, Status.LEAVING):
            raise ChildRestarting(self.ctx.self, record.spec.name)
        if record.status is not Status.STOPPED:
            raise ChildRunning(self.ctx.self, record.spec.name)
        return record

    def _has_ended(self, record: ChildRecord, was_up: bool) -> None:
        if (record.is_new and not was_up) or (record.on_request and record.spec.restart is Restart.TEMPORARY):
            self._forget(record)


def _has_finished(record: ChildRecord) -> bool:
    """Whether the child has ended by itself, and will not be restarted."""
    return record.status is Status.STOPPED and not record.unsettled
