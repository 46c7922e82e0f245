"""What this floor asks of the system above it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from greenroom.clock import Random
from greenroom.exits import ExitReason
from greenroom.lanes import MailboxConfig
from greenroom.policy.specs import Supervision

if TYPE_CHECKING:
    from greenroom.actor.messaging.deadletters import DeadLetters

__all__ = ["SystemPort"]


class SystemPort(Protocol):
    """The system, as its actors' lives need it."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def token(self) -> str:
        """What tells it from every other system, in pickled refs."""
        ...

    @property
    def dead_letters(self) -> DeadLetters:
        """Where messages go that cannot be delivered."""
        ...

    @property
    def stop_timeout(self) -> float:
        """Seconds that an actor and its children have to stop."""
        ...

    @property
    def keeps_history(self) -> bool:
        """Whether actors remember the states they went through."""
        ...

    @property
    def mailbox(self) -> MailboxConfig:
        """The mailbox of actors that are spawned without one."""
        ...

    @property
    def supervision(self) -> Supervision:
        """What becomes of failed actors that nothing else was said about."""
        ...

    @property
    def random(self) -> Random:
        """Where chance comes from."""
        ...

    @property
    def env(self) -> Mapping[str, Any]:
        """What actors find in their `env`, unless they were given something else."""
        ...

    def fail(self, cause: BaseException) -> None:
        """End the whole system, because of `cause`."""
        ...

    def spawn(self, factory: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Bring up an actor."""
        ...

    @property
    def is_placing(self) -> bool:
        """Whether it has a say in where the code of actors runs that were spawned without a dispatcher."""
        ...

    def place_for(self, dispatcher: str | None, spec: Any, name: str | None, parent: Any) -> tuple[str | None, Any]:
        """By which dispatcher, and where, the code of a new actor is to run; nothing for the loop's own thread."""
        ...

    def call(self, what: str, action: Any) -> Any:
        """Do something on the system's own thread, and wait for its result."""
        ...

    def everybody_has_gone(self) -> None:
        """The last actor of a system that is stopping has ended."""
        ...

    def root_has_ended(self, reason: ExitReason) -> None:
        """The root behavior has ended."""
        ...

    def actor(self, name_or_id: str | int) -> Any:
        """The actor with this path, if it is alive."""
        ...

    def ref_of_id(self, cell_id: int, path: str) -> Any:
        """The ref that was pickled with this id."""
        ...
