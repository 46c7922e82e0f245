"""`DynamicSupervisor`: one template, many children, started and stopped as the program goes."""

from __future__ import annotations

from dataclasses import replace

from greenroom.actor.failure.engine import Operation
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.reply import Reply
from greenroom.errors import ConfigError, TooManyChildren
from greenroom.policy.backoff import Backoff
from greenroom.policy.children import ChildSpec, DynamicSpec
from greenroom.policy.plan import wants_restart
from greenroom.supervision.base import ChildRecord, SupervisorBase
from greenroom.supervision.requests import StartChild


class DynamicSupervisor(SupervisorBase):
    """Starts children from one template: `StartChild(*args, **kwargs)` adds its arguments to the template's.

    Each child is restarted alone, with the same arguments. A child that has ended for good is forgotten.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem, ChildSpec, DynamicSupervisor, StartChild
    >>> class Session(Actor[str, str]):
    ...     def __init__(self, user: str) -> None:
    ...         self.user = user
    ...     def receive(self, message: str) -> str:
    ...         return f"{self.user}: {message}"
    >>> async def main() -> str:
    ...     async with ActorSystem() as system:
    ...         sessions = system.spawn(DynamicSupervisor, ChildSpec("session", Session))
    ...         ada = await sessions.ask(StartChild("ada"))
    ...         return await ada.ask("hello")
    >>> asyncio.run(main())
    'ada: hello'
    """

    _spec: DynamicSpec

    def __init__(self, spec: DynamicSpec | ChildSpec) -> None:
        if isinstance(spec, ChildSpec):
            spec = DynamicSpec(spec)
        if not isinstance(spec, DynamicSpec):
            raise ConfigError("spec", spec, "must be a DynamicSupervisor.spec(...) or a ChildSpec")
        super().__init__(spec)

    @staticmethod
    def spec(
        template: ChildSpec,
        intensity: int | None = 3,
        period: float = 5.0,
        backoff: Backoff | None = None,
        max_children: int | None = None,
    ) -> DynamicSpec:
        """What `spawn(DynamicSupervisor, ...)` takes, if the template alone does not say enough."""
        return DynamicSpec(template, intensity, period, backoff, max_children)

    def pre_start(self) -> None:
        self.ctx.ensure_extras().orderly = True

    def _name_of(self, record: ChildRecord) -> str | None:
        return None  # they are called after their kind and their number

    def _key_of(self, child: object) -> str | int | None:
        if isinstance(child, Address):
            return child.id
        if isinstance(child, str):
            found = self.ctx.system.actor(f"{self.ctx.self}/{child}")
            return None if found is None else found.id
        return None

    def _add(self, request: StartChild, reply: Reply) -> None:
        limit = self._spec.max_children
        if limit is not None and len(self._records) >= limit:
            raise TooManyChildren(self.ctx.self, limit)
        template = self._spec.template
        spec = template
        if request.args or request.kwargs:
            spec = replace(template, args=(*template.args, *request.args), kwargs={**template.kwargs, **request.kwargs})
        self._bring_up(ChildRecord(spec, None, self), reply)

    def _spawn(self, record: ChildRecord) -> None:
        self._records.pop(record.key, None)
        super()._spawn(record)
        record.key = record.actor_ref.id
        self._records[record.key] = record

    def _decide(self, record: ChildRecord) -> Operation | None:
        if not wants_restart(record.spec.restart, record.exit_reason.kind):
            self._forget(record)
        elif self._window.admits(self.ctx.now()):
            self._restart_alone(record)
        else:
            return self._give_up(record)
        return None

    def _has_ended(self, record: ChildRecord, was_up: bool) -> None:
        self._forget(record)
