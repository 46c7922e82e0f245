"""What lower rooms know of upper ones, as protocols: the host of a loop, and the system it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.loop import Loop
from greenroom.actor.records.parts import ExecutorPort
from greenroom.actor.records.record import ActorRecord, ChildList, Settings
from greenroom.exits import ExitReason
from greenroom.lanes import MailboxConfig
from greenroom.policy.specs import Supervision
from greenroom.seededrandom import Random

__all__ = ["ActorDefaults", "ActorHost", "DeadLetterSink", "SystemPort"]


T = TypeVar("T")


class DeadLetterSink(Protocol):
    """Where messages go that cannot be delivered."""

    def publish(self, message: object, sender: object, recipient: object, reason: str) -> None:
        """Take in a message that was not handled."""
        ...


class ActorDefaults(Protocol):
    """A system's config, as its actors' lives need it."""

    @property
    def mailbox(self) -> MailboxConfig:
        """The mailbox of actors that are spawned without one."""
        ...

    @property
    def supervision(self) -> Supervision:
        """What becomes of failed actors that nothing else was said about."""
        ...

    @property
    def env(self) -> Mapping[str, Any]:
        """What actors find in their `env`, unless they were given something else."""
        ...

    @property
    def placement(self) -> Mapping[str, str]:
        """Where the code of actors runs that were spawned without a dispatcher, by their paths."""
        ...

    @property
    def stop_timeout(self) -> float:
        """Seconds that an actor and its children have to stop."""
        ...

    @property
    def start_timeout(self) -> float | None:
        """Seconds that an actor has to start; None for as long as it likes."""
        ...

    @property
    def history(self) -> bool:
        """Whether actors remember the states they went through."""
        ...


class SystemPort(Protocol):
    """The system, as its actors' lives need it. What users are not to call has an underscore."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def token(self) -> str:
        """What tells it from every other system, in pickled refs."""
        ...

    @property
    def dead_letters(self) -> DeadLetterSink:
        """Where messages go that cannot be delivered."""
        ...

    @property
    def config(self) -> ActorDefaults:
        """What actors have that were given nothing else."""
        ...

    @property
    def random(self) -> Random:
        """Where chance comes from."""
        ...

    def fail(self, cause: BaseException) -> None:
        """End the whole system, because of `cause`."""
        ...

    def spawn(self, factory: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Bring up an actor."""
        ...

    def _executor_for(
        self, life: Any, dispatcher: str | None, spec: Any, args: tuple[Any, ...], name: str | None, parent: Any
    ) -> tuple[str | None, ExecutorPort | None]:
        """By which dispatcher, and where, the code of a new actor is to run; nothing for the loop's own thread."""
        ...

    def _call_at(self, host: Any, what: str, action: Callable[[], T]) -> T:
        """Do something on the thread of `host`'s loop, and wait for its result."""
        ...

    def _other_hosts(self, life: Any) -> list[Any]:
        """The hosts of the system's other loops."""
        ...

    def _everybody_has_gone(self, life: Any) -> None:
        """The last actor of one loop has ended, and the system is stopping."""
        ...

    def _root_has_ended(self, reason: ExitReason) -> None:
        """The root behavior has ended."""
        ...

    def actor(self, name_or_id: str | int) -> Any:
        """The actor with this path, if it is alive."""
        ...

    def _ref_of_id(self, cell_id: int, path: str) -> Any:
        """The ref that was pickled with this id."""
        ...


class ActorHost(Protocol):
    """The host of one loop, as the steps of a life need it; `Lifecycle` is the one there is."""

    @property
    def port(self) -> SystemPort:
        """The system."""
        ...

    @property
    def loop(self) -> Loop:
        """The loop whose actors these are."""
        ...

    @property
    def top(self) -> ChildList:
        """The actors that have no parent."""
        ...

    @property
    def closed(self) -> bool:
        """Whether nothing may be spawned or restarted any more."""
        ...

    @property
    def resting(self) -> dict[Cell, None]:
        """Those that wait to be started again."""
        ...

    @property
    def settings(self) -> Settings:
        """What actors have that are spawned without settings of their own."""
        ...

    def enter(self, record: ActorRecord, state: int) -> None:
        """Let an actor be in `state`."""
        ...

    def place_at_top(self, cell: Cell) -> int:
        """When an actor without a parent was spawned, among those of all loops."""
        ...

    def begin_to_run(self, cell: Cell, record: ActorRecord) -> None:
        """An actor is ready for its first message."""
        ...

    def set_deadline(self, cell: Cell, record: ActorRecord) -> None:
        """Force an actor to end if it has not by then."""
        ...

    def clear_deadline(self, record: ActorRecord) -> None:
        """An actor has ended in time."""
        ...

    def request_end(self, cell: Cell, reason: ExitReason) -> None:
        """Tell an actor to end, after the message in hand. From any thread."""
        ...

    def request_failure(self, cell: Cell, cause: BaseException, child: Any = None, why: str = ...) -> Any:
        """Let an actor fail, after the message in hand. From any thread."""
        ...

    def request_restart(self, cell: Cell, order: Callable[[Cell], object]) -> None:
        """Let an actor be made afresh by `order`, after the message in hand. From any thread."""
        ...

    def order_stop(self, cell: Cell) -> None:
        """Have an actor end next, in whichever way is decided."""
        ...

    def order_kill(self, cell: Cell) -> None:
        """Have an actor end next, without a farewell."""
        ...

    def order_close(self, cell: Cell) -> None:
        """Have an ending go on: nobody has to be waited for."""
        ...

    def is_told_to_stop(self, cell: Cell) -> bool:
        """Whether an order to end waits."""
        ...

    def is_told_to_change(self, cell: Cell) -> bool:
        """Whether an order to end, to fail or to be restarted waits."""
        ...

    def forget_stops(self, cell: Cell) -> None:
        """An actor failed before it came to stop: it is restarted instead."""
        ...

    def conclude(self, cell: Cell, record: ActorRecord) -> None:
        """An ending is done, but for its last steps."""
        ...

    def failed(self, cell: Cell, message: object, cause: BaseException) -> None:
        """A handler, notice or order let `cause` out."""
        ...

    def note_forced(self, cell: Cell) -> None:
        """Remember that an actor had to be forced."""
        ...

    def log_fields(self, cell: Cell) -> dict[str, object]:
        """What a log record about an actor has in its fields."""
        ...
