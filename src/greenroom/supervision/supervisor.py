"""`Supervisor`: an actor that keeps its children running, as their specs say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.ask import Reply
from greenroom.actor.failure.reports import when
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
from greenroom.supervision.base import Keeping, Operation
from greenroom.supervision.requests import DeleteChild, RestartChild, StartChild
from greenroom.supervision.childrecord import LEAVING, RESTING, STARTING, STOPPED, Due, DueAlarm, Nudge, Wake, Ward

__all__ = ["Supervisor"]


class Supervisor(Keeping):
    """Starts its children in order, restarts them as their specs say, and stops them in reverse.

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
        self._batch: list[Ward] = []
        self._batch_due = 0.0
        self._batch_alarm: DueAlarm | None = None
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
        self.ctx.extra().orderly = True
        self._nudge = Nudge()
        for spec in self._spec.children:
            ward = self._wards[spec.name] = Ward(spec, spec.name, self._hear)
            try:
                self._spawn(ward)
                while ward.status == STARTING:
                    await self._nudge
                if not ward.tries_again:
                    raise self._cause_of(ward)
            except Exception:
                for _ in self._bring_down(self._down_order(), None, for_good=True):
                    await self._nudge
                raise
        self._nudge = None
        # Something may have become of the first while the last were starting.
        self._unsettled.extend(ward for ward in self._wards.values() if ward.unsettled)
        self.ctx.cell.notify(Wake(self))

    def post_stop(self) -> None:
        """Nothing is to come any more."""
        super().post_stop()
        if self._batch_alarm is not None:
            self._batch_alarm.cancel()

    def _cause_of(self, ward: Ward) -> BaseException:
        """Why a child could not start."""
        reason: Any = ward.reason
        return ActorTerminated(f"{self.ctx.self}/{ward.spec.name}", reason) if reason.cause is None else reason.cause

    # -- exits

    def _settle(self, ward: Ward) -> Operation | None:
        reason: Any = ward.reason
        wants = wants_restart(ward.spec.restart, reason.kind)
        within_limit = self._window.admits(self.ctx.now()) if wants else True
        wards = self._concerned(ward)
        views = [
            Child(one.spec.name, one.spec.restart, not one.on_request, one.spec.significant, _has_finished(one))
            for one in wards
        ]
        actions = plan(self._spec.scope, self._spec.auto_shutdown, views, wards.index(ward), reason.kind, within_limit)
        if any(isinstance(action, GiveUp) for action in actions):
            return self._give_up(ward)
        if wants and self._spec.scope is Scope.ONE_FOR_ONE:
            self._restart_alone(ward)
            return None
        return self._carry_out(actions, ward)

    def _concerned(self, ward: Ward) -> list[Ward]:
        """Those a plan has to know of."""
        if self._spec.scope is Scope.ONE_FOR_ONE and not ward.spec.significant:
            return [ward]
        return list(self._wards.values())

    def _carry_out(self, actions: tuple[Action, ...], ward: Ward) -> Operation:
        reason: Any = ward.reason
        starts = next((action for action in actions if isinstance(action, Start)), None)
        delay = 0.0
        if starts is not None and ward.rests:
            delay = self._delay_for(ward)
            self._report(ward, f"{self.ctx.self} restarts {', '.join(starts.names)} {when(delay)}", delay)
        for action in actions:
            if isinstance(action, Stop):
                for one in [self._wards[name] for name in action.names]:
                    for_good = starts is None or one.spec.restart is Restart.TEMPORARY
                    yield from self._bring_down([one], reason.cause, for_good)
            elif isinstance(action, Forget):
                self._wards.pop(action.name, None)
            elif isinstance(action, Start):
                self._wait_together([self._wards[name] for name in action.names if name in self._wards], delay)
                if self._batch_alarm is None:
                    yield from self._start_batch()
            elif isinstance(action, ShutDown):
                cell = self.ctx.cell
                cell.loop.host.request_end(cell, SHUTDOWN)

    # -- starting several

    def _wait_together(self, wards: list[Ward], delay: float) -> None:
        """Let these be started together, when the delay is over; and with them those that wait already."""
        cell = self.ctx.cell
        now: float = cell.loop.now()
        due = now + delay
        if self._batch_alarm is not None:
            self._batch_alarm.cancel()
            self._batch_alarm = None
            due = max(due, self._batch_due)
        self._batch_is_due = False
        waiting = {id(ward) for ward in (*self._batch, *wards)}
        self._batch = [ward for ward in self._wards.values() if id(ward) in waiting]
        self._batch_due = due
        for ward in self._batch:
            ward.forget_due()
            if ward.rests:
                ward.standing.due = due
        if due > now:
            self._batch_alarm = DueAlarm(cell, due, Due(None, self))

    def _start_batch(self) -> Operation:
        batch, self._batch = self._batch, []
        for ward in batch:
            if self._wards.get(ward.key) is not ward or ward.on_request:
                continue
            if ward.status == RESTING:
                self._start_again(ward)
            elif ward.status == STOPPED:  # it had finished, or is gone
                self._spawn_again(ward)
            else:
                continue
            while ward.status == STARTING:
                yield
            if ward.status == RESTING and ward.unsettled:
                return  # it failed again: those that are left are part of what is done about that

    def _note_due(self, due: Due) -> None:
        if due.ward is not None:
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

    def _spawn(self, ward: Ward) -> None:
        super()._spawn(ward)
        # A new actor stands where the list of children has it, for they are stopped in reverse.
        younger: Any = None
        for other in reversed(self._wards.values()):
            if other is ward:
                if younger is not None:
                    ref: Any = ward.ref
                    ref.parent._cell.body.family.put_before(ref._cell.body, younger._cell.body)
                return
            if other.ref is not None and other.ref.is_alive:
                younger = other.ref

    # -- requests

    def _find(self, child: object) -> Ward:
        ward = super()._find(child)
        if isinstance(child, Address) and ward.ref is not None and child != ward.ref:
            raise NoSuchChild(self.ctx.self, f"{child} (ended: another has its place)")
        return ward

    def _key_of(self, child: object) -> Any:
        if isinstance(child, Address):
            ref: Any = child
            return ref.name if ref.parent == self.ctx.self else None
        return child if isinstance(child, str) else None

    def _add(self, request: StartChild, reply: Reply | None) -> Any:
        if len(request.args) != 1 or request.kwargs:
            raise BadArgument(f"a Supervisor takes StartChild(ChildSpec(...)), not {request!r}")
        spec = self._spec.require_fit(request.args[0])
        if spec.name in self._wards:
            raise ChildExists(self.ctx.self, spec.name)
        ward = Ward(spec, spec.name, self._hear)
        ward.new = True
        self._wards[spec.name] = ward
        try:
            return self._bring_up(ward, reply)
        except Exception:
            del self._wards[spec.name]
            raise

    REQUESTS: ClassVar[tuple[type, ...]] = (*Keeping.REQUESTS, RestartChild, DeleteChild)

    def _answer_more(self, request: Any, reply: Reply | None) -> Any:
        if isinstance(request, RestartChild):
            return self._bring_up(self._require_stopped(request.child), reply)
        if isinstance(request, DeleteChild):
            del self._wards[self._require_stopped(request.child).key]
            return None
        return super()._answer_more(request, reply)

    def _require_stopped(self, child: object) -> Ward:
        ward = self._find(child)
        if ward.status in (RESTING, LEAVING):
            raise ChildRestarting(self.ctx.self, ward.spec.name)
        if ward.status != STOPPED:
            raise ChildRunning(self.ctx.self, ward.spec.name)
        return ward

    def _has_ended(self, ward: Ward, never_up: bool) -> None:
        if (never_up and ward.new) or (ward.on_request and ward.spec.restart is Restart.TEMPORARY):
            self._wards.pop(ward.key, None)


def _has_finished(ward: Ward) -> bool:
    """Whether it has ended by itself, and is not to come back by itself."""
    return ward.status == STOPPED and not ward.unsettled
