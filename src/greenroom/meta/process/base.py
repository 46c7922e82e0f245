"""The callbacks of a meta-process, and what it can find out and do, from either of its threads."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.errors import (
    MetaCannotAsk,
    MetaCannotCompress,
    MetaCannotLink,
    MetaCannotMonitor,
    MetaCannotReply,
    MetaCannotSetLane,
    MetaCannotWatch,
    MetaNotSpawned,
)
from greenroom.lanes import Lane, as_lane
from greenroom.meta.process.options import Compression, MetaOptions
from greenroom.meta.process.state import MetaState

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.actor.messaging.reply import Reply
    from greenroom.exits import ExitReason
    from greenroom.meta.process.ports import HostPort

__all__ = ["MetaBase"]


class MetaBase:
    """What a meta-process is called, can find out and can do; `MetaProcess` adds how it is spawned."""

    # Whether the handlers run on the system's event loop although they are plain functions: they never block.
    _on_loop: ClassVar[bool] = False
    # Whether its `start` soon sees by itself that it is to end. Then it is not broken off, which is never quite safe: a
    # descriptor that it closes at that moment may have become another's.
    _sees_end: ClassVar[bool] = False
    # What it is called after, if that is not its class.
    _label: ClassVar[str | None] = None
    # What brings it to life; None until it is spawned.
    _host: HostPort | None = None
    _state: MetaState = MetaState.SLEEP
    _send_lane: Lane = Lane.DATA
    _compression: Compression = Compression()

    # -- the callbacks

    def init(self) -> object:
        """Called once, by `spawn_meta`. If it raises, nothing is spawned, and `spawn_meta` raises the same."""

    def start(self) -> object:
        """Read from the world outside; runs beside the handlers, on a thread of its own. When it returns, all ends.

        Without a `start` of its own, a meta-process only handles messages, and lives until it is stopped.
        """

    def handle_message(self, message: Any) -> object:
        """Handle what an actor told; it may block. If it raises, the meta-process ends. `self.sender` told it."""
        return UNHANDLED

    def handle_call(self, request: Any) -> object:
        """Answer what an actor asked; it may block. If it raises, that is the answer. `self.sender` asked."""
        return UNHANDLED

    def terminate(self, reason: ExitReason) -> object:
        """Called last, however it ends: close what is open. A blocked `start()` is broken off before."""

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """What it shows of itself to `alias.inspect()` and observers; asked for between two messages."""
        return {}

    # -- what those of the runtime do besides

    def _give_up(self) -> None:
        """It could not terminate, or not in its time: let go of what must not be left behind."""

    def _prepare(self) -> object:
        """What it has to do before it has started: awaited, if it can be. Only those that run on the loop."""

    def _is_unready(self) -> bool:
        """Whether messages have to wait for something."""
        return False

    def _before_children_end(self) -> None:
        """It is to end, and those below it next."""

    # -- what it can find out and do, from either thread

    def _require_host(self, operation: str) -> HostPort:
        if self._host is None:
            raise MetaNotSpawned(type(self).__name__, operation)
        return self._host

    @property
    def id(self) -> Alias:
        """Its own alias: what others send to."""
        return self._require_host("`id`").alias

    @property
    def parent(self) -> ActorRef:
        """The actor, or the meta-process, that it belongs to."""
        return self._require_host("`parent`").parent

    @property
    def state(self) -> MetaState:
        """SLEEP, RUNNING or TERMINATED."""
        return self._state

    @property
    def env(self) -> Mapping[str, Any]:
        """Its environment: from its options, then from its parent, then from the system's config."""
        return self._require_host("`env`").env

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds the fields `actor`, `actor_id` and `system` to its records."""
        return self._require_host("`log`").log

    @property
    def sender(self) -> ActorRef | None:
        """In a handler: who sent the current message. None if it came from outside."""
        return self._require_host("`sender`").sender

    def send(self, target: ActorRef, message: Any, *, lane: Lane | None = None, wait: bool = False) -> None:
        """Tell `target` something, as coming from this meta-process. From any thread.

        A full mailbox raises `MailboxFull`. With `wait`, a plain `start()` blocks until there is room instead, and so
        holds up whoever it reads from; an `async def` writes `await target.send(message)`.
        """
        alias = self._require_host("`send()`").alias
        chosen = self._send_lane if lane is None else as_lane(lane)
        if wait:
            self._require_host("`send()`").send_when_room(target, message, chosen)
        else:
            target.tell(message, lane=chosen, sender=alias)

    @property
    def stopping(self) -> bool:
        """Whether it is to end: a `start()` that does not block for long looks here."""
        return self._host is not None and self._host.is_stopping

    def wait(self, seconds: float | None = None) -> bool:
        """Block until it is to end, for at most `seconds`; whether it is. For a plain `start()`, instead of `sleep`."""
        return self._require_host("`wait()`").stopping.wait(seconds)

    @property
    def send_lane(self) -> Lane:
        """The lane of what it sends. Handlers can set it; see also `MetaOptions`."""
        return self._send_lane

    @send_lane.setter
    def send_lane(self, lane: Lane) -> None:
        host = self._require_host("`send_lane`")
        if self._state is not MetaState.RUNNING:
            raise MetaCannotSetLane(host.alias, self._state.value)
        self._send_lane = as_lane(lane)

    @property
    def compression(self) -> Compression:
        """How large messages to other nodes are compressed. Handlers can set it; see also `MetaOptions`."""
        return self._compression

    @compression.setter
    def compression(self, compression: Compression) -> None:
        host = self._require_host("`compression`")
        if self._state is not MetaState.RUNNING:
            raise MetaCannotCompress(host.alias, self._state.value)
        self._compression = MetaOptions(compression=compression).compression

    def defer_reply(self) -> Reply:
        """In a handler: answer later, from anywhere, with `.send(value)` or `.fail(exc)`."""
        host = self._require_host("`defer_reply()`")
        if self._state is not MetaState.RUNNING:
            raise MetaCannotReply(host.alias, self._state.value)
        return host.defer_reply()

    # -- what it cannot do

    def ask(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise: a meta-process cannot wait for an answer."""
        raise MetaCannotAsk(self._require_host("`ask()`").alias)

    ask_sync = ask

    def link(self, *args: object) -> NoReturn:
        """Raise: actors link to meta-processes, and not the other way round."""
        raise MetaCannotLink(self._require_host("`link()`").alias)

    def monitor(self, *args: object) -> NoReturn:
        """Raise: actors monitor meta-processes, and not the other way round."""
        raise MetaCannotMonitor(self._require_host("`monitor()`").alias)

    def watch(self, *args: object) -> NoReturn:
        """Raise: actors watch meta-processes, and not the other way round."""
        raise MetaCannotWatch(self._require_host("`watch()`").alias)
