"""`Context`: an actor's own view of the runtime, `self.ctx`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from inspect import CORO_CREATED, getcoroutinestate, isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any

from greenroom._core.build import MadeByRuntime
from greenroom._core.itemkinds import MESSAGE
from greenroom._core.mailbox.cell import Cell
from greenroom._core.receipt import Piped, Receipt
from greenroom._core.timing.timers import Timer
from greenroom.actor.api.behavior import become, unbecome
from greenroom.actor.api.fdwatch import FdWatch, unwatch_fd, watch_fd
from greenroom.actor.api.spawn import Spawns, spawn_child
from greenroom.actor.messaging.address import Address
from greenroom.actor.messaging.question import Question, forward_question
from greenroom.actor.messaging.ref import Alias
from greenroom.actor.messaging.reply import Reply
from greenroom.actor.messaging.stash import Stash
from greenroom.actor.messaging.timers import KeyedTimers, ReceiveTimer, cell_of, start_timer
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.records.restartstate import incarnation_of
from greenroom.actor.relations import demonitor, known_relations, link, monitor, relations_of, unlink, unwatch, watch
from greenroom.errors import AlreadyReplied, BadArgument, NoMessage, NotAMeta, WrongThread
from greenroom.exits import NORMAL
from greenroom.lanes import Lane
from greenroom.validation import require_count, require_delay

if TYPE_CHECKING:
    from greenroom._core.handoff.messages import MessageHandoff
    from greenroom._core.scheduler.visits import Visits
    from greenroom.actor.api.behavior import Behavior
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.actor.messaging.signals import MonitorRef
    from greenroom.meta.process.metaprocess import MetaProcess
    from greenroom.meta.process.options import MetaOptions

_log = logging.getLogger("greenroom.actor")


if TYPE_CHECKING:

    class _Base(ActorRecord, Spawns): ...

else:
    # What the methods below use of the record, `ContextRecord` has: here it would show in the help.
    class _Base(Spawns):
        __slots__ = ()


class Context(_Base):
    """What an actor can find out and do: `self.ctx`. Use it only in the actor's own handlers and hooks."""

    __slots__ = ()
    __signature__ = MadeByRuntime("Context")

    # -- who and where

    @property
    def self(self) -> ActorRef:
        """The actor's own ref."""
        ref: ActorRef = self.cell.shown()  # type: ignore[assignment]
        return ref

    @property
    def name(self) -> str:
        """The actor's name."""
        return self.self.name

    @property
    def parent(self) -> ActorRef | None:
        """The ref of its parent, or None if the system spawned it."""
        return self.self.parent

    @property
    def children(self) -> list[ActorRef]:
        """The refs of its children, oldest first; its meta-processes are in `metas`."""
        records = [] if self.child_list is None else self.child_list.records()
        return [child.cell.ref for child in records if type(child.cell.ref) is not Alias]

    @property
    def system(self) -> Any:
        """The system it lives in."""
        return self.cell.loop.host.system

    @property
    def env(self) -> Mapping[str, Any]:
        """Its environment: from its own `spawn`, then from its parent, then from the system's config."""
        return self.settings().env

    def now(self) -> float:
        """The time, by the system's clock."""
        return float(self.cell.loop.now())

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds the fields `actor`, `actor_id` and `system` to its records."""
        extras = self.ensure_extras()
        if extras.log is None:
            extras.log = _ActorLog(self)
        return extras.log

    # -- the message in hand

    def _hand(self) -> Visits | MessageHandoff | None:
        """What has this actor in hand at present: its loop's visits, if they do."""
        visits = self.cell.loop.visits
        return visits if visits.hand is self.cell else None

    def _receipt(self) -> object:
        """The sender of the message in hand: a ref, None or a receipt; also while its handler is suspended."""
        hand = self._hand()
        if hand is not None:
            return hand.sender
        return None if self.cell.task is None else self.cell.task.sender

    def _require_message(self, what: str) -> Visits | MessageHandoff:
        hand = self._hand()
        if hand is None or hand.kind != MESSAGE:
            raise NoMessage(self.self, what)
        return hand

    @property
    def sender(self) -> ActorRef | None:
        """The actor that sent the current message; None if it came from outside."""
        receipt = self._receipt()
        return receipt.shown_sender() if isinstance(receipt, Receipt) else receipt  # type: ignore[return-value]

    @property
    def lane(self) -> Lane:
        """The lane of the current message."""
        hand = self._hand()
        if hand is not None:
            return Lane(hand.lane)
        return Lane.DATA if self.cell.task is None else Lane(self.cell.task.lane)

    def reply(self, value: object) -> None:
        """Answer the current message now; the handler's return value is then ignored.

        If the message was told, not asked, the reply is told to its sender.
        """
        receipt = self._require_message("reply()").sender
        if isinstance(receipt, Question):
            _require_open(receipt)
            receipt.answer(value)
        else:
            self._reply_by_telling(receipt, value)

    def _reply_by_telling(self, receipt: object, value: object) -> None:
        sender = receipt.shown_sender() if isinstance(receipt, Receipt) else receipt
        if isinstance(sender, Address):
            sender.tell(value, sender=self.self)
        else:
            self._publish(value)

    def _publish(self, reply: object) -> None:
        self.cell.loop.host.publish(reply, self.self, None, "nobody to reply to")

    def fail_reply(self, exc: BaseException) -> None:
        """Answer the current ask with an exception. The actor itself goes on."""
        if not isinstance(exc, BaseException):
            raise BadArgument(f"a reply fails with an exception, not with {exc!r}")
        receipt = self._require_message("fail_reply()").sender
        if isinstance(receipt, Question):
            _require_open(receipt)
            receipt.refuse(exc)
        else:
            self._publish(exc)

    def defer_reply(self) -> Reply:
        """Answer the current message later, from anywhere, with `.send(value)` or `.fail(exc)`."""
        receipt = self._require_message("defer_reply()").sender
        loop = self.cell.loop
        if not isinstance(receipt, Question):
            return Reply(loop, None, lambda value: self._reply_by_telling(receipt, value))
        _require_open(receipt)
        self._owe(receipt)
        return Reply(loop, receipt, lambda value: None)

    def _owe(self, question: Question) -> None:
        question.defer(self.ensure_extras().deferred)

    def forward(self, ref: ActorRef) -> None:
        """Pass the current message on to `ref`, with its original sender. If it was asked, `ref` answers."""
        target = cell_of(ref, "forward()")
        hand = self._require_message("forward()")
        receipt, message, lane = hand.sender, hand.message, Lane(hand.lane)
        if not isinstance(receipt, Question):
            target.post(message, self.sender, lane)
            return
        _require_open(receipt)
        self._hand_on(receipt, target)
        hand.let_sender_go()
        try:
            target.post(message, receipt, lane)
        except Exception as exc:
            receipt.refuse(exc)

    def _hand_on(self, question: Question, target: Cell) -> None:
        forward_question(question, target)

    def blocking(self) -> AbstractContextManager[None]:
        """`with self.ctx.blocking(): event.wait()`: a handler on another thread only waits inside the block.

        Use it around code that blocks the thread, not around an `await`. The pool may start another thread meanwhile,
        and a `ManualClock` may advance; for code that runs, or blocks without saying so, the clock waits. What ends the
        wait does not tell the clock: a test that does so awaits `system.settle()` before it advances the clock again.
        On the system's own thread this has no effect.
        """
        return nullcontext()

    # -- kin

    if not TYPE_CHECKING:

        def spawn(self, factory, /, *args, **options):
            """Spawn a child, and return its ref at once. The arguments are those of `ActorSystem.spawn`.

            >>> import asyncio
            >>> from greenroom import Actor, ActorSystem
            >>> class Parent(Actor[str, str]):
            ...     def receive(self, message: str) -> str:
            ...         child = self.ctx.spawn(lambda ctx, message: None, name=message)
            ...         return child.path
            >>> async def main() -> str:
            ...     async with ActorSystem() as system:
            ...         return await system.spawn(Parent, name="parent").ask("child")
            >>> asyncio.run(main())
            '/parent/child'
            """
            return self.system.spawn(factory, *args, parent=self.self, **options)

        spawn.__wrapped__ = spawn_child

    def stop(self, child: ActorRef | None = None) -> None:
        """Stop a child or, without an argument, the actor itself, after the current message.

        An actor that stops itself may take its time for the current message: its deadline to end, `stop_timeout`,
        starts when that is done.
        """
        if child is None:
            self.cell.loop.host.request_own_end(self.cell)
        else:
            self._stop_child(child)

    def _stop_child(self, child: ActorRef) -> None:
        cell = cell_of(child, "stop(child)")
        if child.parent != self.self:
            raise BadArgument(f"{child} is no child of {self.self}: use `ref.stop()` for others")
        self.cell.loop.host.request_end(cell, NORMAL)

    def watch(self, ref: ActorRef, message: object = None) -> None:
        """Watch `ref`: when it has ended, `on_terminated` is called, or `message` is delivered."""
        watch(self, cell_of(ref, "watch()"), message)

    def unwatch(self, ref: ActorRef) -> None:
        """Stop watching, also if the other has ended and its notice is queued."""
        unwatch(self, cell_of(ref, "unwatch()"))

    def monitor(self, ref: ActorRef) -> MonitorRef:
        """Receive `Down(mref, ref, reason)` when `ref` has ended. Every monitor gets its own."""
        return monitor(self, cell_of(ref, "monitor()"))

    def demonitor(self, mref: MonitorRef, flush: bool = True) -> bool:
        """End a monitor; False if there is none. With `flush`, a queued `Down` is removed too."""
        return demonitor(self, mref, flush)

    def link(self, ref: ActorRef) -> None:
        """Link to `ref`: when one of the two ends abnormally, the other fails with the same reason."""
        link(self, cell_of(ref, "link()"))

    def unlink(self, ref: ActorRef) -> None:
        """Remove a link, also if the other has ended and its `Exit` is queued."""
        unlink(self, cell_of(ref, "unlink()"))

    @property
    def trap_exit(self) -> bool:
        """If True, the end of a linked actor arrives as `Exit(ref, reason)` instead of failing this one."""
        relations = known_relations(self)
        return relations is not None and relations.traps_exits

    @trap_exit.setter
    def trap_exit(self, traps: bool) -> None:
        if not isinstance(traps, bool):
            raise BadArgument(f"trap_exit is True or False, not {traps!r}")
        relations_of(self).traps_exits = traps

    # -- time

    def send_after(self, delay: float, target: ActorRef, message: object) -> Timer:
        """Send `message` to `target` after `delay` seconds, unless this actor ends first."""
        # What `start_timer` does, without its two calls: a fifth of the time (`make bench`, P11).
        if type(delay) is not float:
            require_delay("delay", delay)
        cell = self.cell
        to = target._cell if isinstance(target, Address) else cell_of(target, "send_after()")  # type: ignore[redundant-expr]
        timer: Timer = cell.loop.start_timer(delay, to, message, 0.0, False, cell)
        return timer

    def send_every(self, interval: float, target: ActorRef, message: object, *, fixed_rate: bool = False) -> Timer:
        """Send `message` to `target` every `interval` seconds, counted from the last handling or at a fixed rate."""
        return start_timer(self.cell, interval, cell_of(target, "send_every()"), message, interval, fixed_rate)

    @property
    def timers(self) -> KeyedTimers:
        """Timers by key."""
        extras = self.ensure_extras()
        if extras.keyed is None:
            extras.keyed = self._new_timers()
        keyed: KeyedTimers = extras.keyed
        return keyed

    def _new_timers(self) -> KeyedTimers:
        return KeyedTimers(self.cell)

    def set_receive_timeout(self, seconds: float | None) -> None:
        """Receive `ReceiveTimeout` when no message has come for `seconds`; None switches it off."""
        extras = self.ensure_extras()
        before = extras.receive_timer
        receive_timer = None if seconds is None else ReceiveTimer(self.cell, seconds)
        if before is not None:
            before.stop()
        extras.receive_timer = receive_timer
        if receive_timer is not None:
            receive_timer.begin()

    # -- behavior

    def become(self, behavior: Behavior | Callable[..., object], *, push: bool = False) -> None:
        """Handle the next messages with `behavior`: one of `Behaviors`, a function `(ctx, message)`, or a method.

        It replaces the present behavior. With `push=True` it keeps that one below, and `unbecome` goes back to it.
        """
        become(self, behavior, push)

    def unbecome(self) -> None:
        """Go back to what the last `become(..., push=True)` kept, or to the actor's own `receive`."""
        unbecome(self)

    def stash(self) -> None:
        """Set the current message aside, to be handled after `unstash` or `unstash_all`."""
        self._get_stash().put("stash()")

    def unstash_all(self) -> int:
        """Queue the stashed messages again, in order and ahead of newer ones; returns how many."""
        return self._get_stash().unstash_all()

    def unstash(self, n: int = 1) -> int:
        """Queue the first `n` stashed messages again, in order and ahead of newer ones; returns how many.

        To serve a stash one message at a time, call it when one is done; `unstash_all` would stash the rest again.
        """
        return self._get_stash().unstash(n)

    @property
    def stash_capacity(self) -> int:
        """How many messages the stash holds; 1000 by default."""
        return self._get_stash().capacity

    @stash_capacity.setter
    def stash_capacity(self, capacity: int) -> None:
        require_count("stash capacity", capacity)
        self._get_stash().capacity = capacity

    def _get_stash(self) -> Stash:
        extras = self.ensure_extras()
        if extras.stash is None:
            extras.stash = self._new_stash()
        stash: Stash = extras.stash
        return stash

    def _new_stash(self) -> Stash:
        return Stash(self.cell)

    def pipe_to_self(
        self,
        awaitable: Awaitable[Any],
        map: Callable[[Any], object] | None = None,  # noqa: A002 - the word of the contract
        *,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> asyncio.Task[None]:
        """Await something without blocking the mailbox: its result arrives as a message, passed through `map`.

        If it raises, `on_error` turns the exception into a message; without `on_error` the actor fails. When the actor
        ends, pending pipes are cancelled.
        """
        if self.cell.loop.visits.stepper.aio is None:
            raise WrongThread("pipe_to_self() of a system that does not run")
        task = start_pipe(self, awaitable, map, on_error)
        self._begin_pipe(task)
        task.add_done_callback(self._end_pipe)
        return task

    def _begin_pipe(self, pipe: Any) -> None:
        self.ensure_extras().pipes[pipe] = None

    def _end_pipe(self, pipe: Any) -> None:
        self.ensure_extras().pipes.pop(pipe, None)

    def _take_piped(self, message: object) -> None:
        """Queue what was piped: a system that drains waits for it, as for any message from outside."""
        self.cell.post(message, Piped(self.self), Lane.DATA)

    # -- the world outside

    def spawn_meta(self, meta: MetaProcess | Callable[[], MetaProcess], options: MetaOptions | None = None) -> Alias:
        """Bring up a meta-process, which belongs to this actor and ends with it. Raises what its `init` raises.

        Given a function that makes one, it can be restarted: see `MetaOptions(supervision=...)`.
        """
        factory = None
        if not hasattr(meta, "__greenroom_spawn__") or isinstance(meta, type):
            if not callable(meta):
                raise NotAMeta(f"spawn_meta() takes a MetaProcess, or a function that makes one, not {meta!r}")
            factory = meta
            meta = factory()
        if not hasattr(meta, "__greenroom_spawn__"):
            raise NotAMeta(f"spawn_meta() was given {factory!r}, which made {meta!r}, and that is no MetaProcess")
        made: Any = meta
        alias: Alias = made.__greenroom_spawn__(self, options, factory)
        return alias

    @property
    def metas(self) -> list[Alias]:
        """The aliases of its meta-processes, oldest first."""
        records = [] if self.child_list is None else self.child_list.records()
        lasting = [child for child in records if child.reason is None]
        return [ref for child in lasting if isinstance(ref := child.cell.ref, Alias)]

    def watch_fd(self, fd: Any, interest: int, *, once: bool = False) -> FdWatch:
        """Receive `IoReady(fd, events)` whenever `fd` can be read (`READ`) or written (`WRITE`); with `once`, one time.

        `fd` is a number, or anything with a `fileno()`. While an `IoReady` is not handled there is no other. A
        descriptor that cannot be watched is a `WatchError`, as is one that is watched already.
        """
        return watch_fd(self, fd, interest, once)

    def unwatch_fd(self, fd: Any) -> bool:
        """Watch `fd` no more, also if an `IoReady` is queued; False if this actor does not watch it."""
        return unwatch_fd(self, fd)


class ContextRecord(Context, ActorRecord):
    """The context of a living actor is its record too, which saves an object."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return dir(Context)  # for those who look around with the Tab key


def _require_open(question: Question) -> None:
    if question.replied:
        raise AlreadyReplied


def start_pipe(
    context: Context,
    awaitable: Awaitable[Any],
    to_message: Callable[[Any], object] | None,
    on_error: Callable[[BaseException], object] | None,
) -> asyncio.Task[None]:
    """The task of a pipe, in the asyncio loop that runs here."""
    if not isawaitable(awaitable):
        raise BadArgument(f"pipe_to_self() takes something to await, not {awaitable!r}")
    task = asyncio.get_running_loop().create_task(_pipe(context, awaitable, to_message, on_error))
    task.add_done_callback(lambda task: _close_unused(task, awaitable))
    return task


def _close_unused(task: asyncio.Task[None], awaitable: Awaitable[object]) -> None:
    # One that was cancelled before its first step has left what it was given untouched.
    if task.cancelled() and iscoroutine(awaitable) and getcoroutinestate(awaitable) == CORO_CREATED:
        awaitable.close()


async def _pipe(
    context: Context,
    awaitable: Awaitable[Any],
    to_message: Callable[[Any], object] | None,
    on_error: Callable[[BaseException], object] | None,
) -> None:
    ref = context.self
    born = incarnation_of(context)
    try:
        result = await awaitable
        message = result if to_message is None else to_message(result)
    except (Exception, asyncio.CancelledError) as exc:
        me = asyncio.current_task()
        if isinstance(exc, asyncio.CancelledError) and me is not None and me.cancelling():
            raise  # the actor has ended
        if incarnation_of(context) != born:
            return  # whose it was is gone
        if on_error is None:
            ref._fail_by_pipe(exc)
            return
        try:
            message = on_error(exc)
        except Exception as error:
            ref._fail_by_pipe(error)
            return
    if incarnation_of(context) != born:
        context.cell.loop.host.publish(message, ref, ref, "for an earlier incarnation")
        return
    try:
        context._take_piped(message)
    except Exception as exc:  # no room, say: its own fault, so it hears of it
        ref.fail(exc)


class _ActorLog(logging.LoggerAdapter[logging.Logger]):
    """Says in each record which actor logs."""

    def __init__(self, context: Context) -> None:
        ref = context.self
        self._path = ref.path
        super().__init__(_log, {"actor": ref.path, "actor_id": ref.id, "system": context.system.name})

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Put the actor's path before the message; with arguments that is a format, and a path may have a `%`."""
        path = self._path.replace("%", "%%") if args else self._path
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # who called is not here, but above
        super().log(level, f"{path}: {msg}", *args, **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs
