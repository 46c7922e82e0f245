"""What the further loops of a system need of it, as a protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from greenroom.actor.records.ports import SystemPort

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom._core.scheduler.poller import Poller
    from greenroom.actor.lifecycle import Lifecycle
    from greenroom.system.config import SystemConfig

__all__ = ["OwningSystem"]


class OwningSystem(SystemPort, Protocol):
    """The system that loops belong to; `ActorSystem` is one."""

    _loop: Loop
    _poller: Poller

    @property
    def config(self) -> SystemConfig:
        """Its settings."""
        ...

    @property
    def _life(self) -> Lifecycle: ...

    def _request_end(self, timeout: float, drain: bool | None) -> None:
        """Begin the shutdown, and return at once."""
        ...
