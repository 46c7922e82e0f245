"""Steps of an actor's life that run a user's hooks, which may be `async def`.

A procedure is a generator that yields what has to be awaited. As long as no hook is async it runs through at once, on
the spot; from the first awaitable on, it is a coroutine that the loop steps like a handler's. So there is one text for
both, and a life without async hooks never meets asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from greenroom._core.behavior import BehaviorBase, is_generator, refuse_returned_generator
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.messaging.signals import ChildTerminated, Down, Exit, ReceiveTimeout, Signal, Terminated
from greenroom.actor.records.record import ActorRecord
from greenroom.actor.relations import relations_of
from greenroom.errors import DeathPact, LinkBroken
from greenroom.exits import ends_system
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from typing import NoReturn

    from greenroom.actor.offload.executor import Executor

_log = RuntimeLog()

Procedure = Generator[Awaitable[object], Any, Any]


def begin(procedure: Procedure, ending: ActorRecord | None = None) -> object:
    """Run `procedure` as far as it goes without waiting: its result, or a coroutine that is the rest of it.

    If it is the `ending` of an actor, even a hook that raises GeneratorExit does not break it off: only when the actor
    was abandoned does that mean what it says.
    """
    try:
        awaitable = next(procedure)
    except StopIteration as stop:
        return stop.value
    return _go_on(procedure, awaitable, ending)


async def _go_on(procedure: Procedure, awaitable: Awaitable[object], ending: ActorRecord | None) -> object:
    while True:
        try:
            try:
                result = await awaitable
            except GeneratorExit:
                if ending is None or ending.ensure_extras().abandoned:
                    procedure.close()
                    raise
                awaitable = procedure.throw(RuntimeError("the hook raised GeneratorExit"))
            except BaseException as exc:
                awaitable = procedure.throw(exc)
            else:
                awaitable = procedure.send(result)
        except StopIteration as stop:
            return stop.value


def actor_of(record: ActorRecord) -> object:
    """The user's instance, whatever the actor has become since; the context, if the actor is a function."""
    extras = record.extras
    return extras.behaviors[0].subject if extras is not None and extras.behaviors else record.cell.subject


def executor_of(record: ActorRecord) -> Executor | None:
    """The executor of the actor's code, if that does not run on the loop's own thread."""
    return None if record.extras is None else record.extras.executor


def executor_for(record: ActorRecord, function: Callable[..., object]) -> Executor | None:
    executor = executor_of(record)
    return None if executor is None or executor.runs_on_loop(function) else executor


class Hook:
    """A method of an actor in another process, by name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: object) -> NoReturn:
        raise TypeError(f"{self.name} belongs to an actor in another process")


HANDLE = Hook("handle")
SIGNAL = Hook("signal")


def method_of(record: ActorRecord, actor: object, name: str) -> Callable[..., object]:
    executor = executor_of(record)
    return getattr(actor, name) if executor is None or not executor.is_remote else Hook(name)


def call(record: ActorRecord, function: Callable[..., object], *arguments: object) -> Procedure:
    """Call a user's function where the actor's code runs; its result is not awaited."""
    executor = executor_for(record, function)
    if executor is None:
        return function(*arguments)
    return (yield executor.call(record.cell, function, arguments, False))


def do(record: ActorRecord, function: Callable[..., object], *arguments: object) -> Procedure:
    """Call a user's function where the actor's code runs, and await its result if it can be."""
    executor = executor_for(record, function)
    result = function(*arguments) if executor is None else (yield executor.call(record.cell, function, arguments, True))
    if isawaitable(result):
        result = yield result
    return result


def hand_to_actor(record: ActorRecord, message: object) -> object:
    """Have a notice handled like a message: the handler's result, or a coroutine that is the rest of it."""
    cell = record.cell
    executor = executor_of(record)
    if executor is None:
        return cell.handler(cell.subject, message)
    if executor.is_remote:
        return begin(do(record, HANDLE, message))
    return begin(do(record, _handle_there, cell, message))


def _handle_there(cell: Cell, message: object) -> object:
    """The handler's result, after the behavior it returned has been taken on where the code runs."""
    handler, subject = cell.code()
    return cell.loop.host.absorb(cell, handler(subject, message))


def call_hook(record: ActorRecord, name: str, signal: Signal, *arguments: object) -> Procedure:
    """Call the hook `name` if the actor has it, then `on_signal`; the last result other than None."""
    result = None
    actor = actor_of(record)
    if isinstance(actor, Actor):
        hooks = class_info_of(type(actor)).hooks
        if name in hooks:
            result = yield from do(record, method_of(record, actor, name), *arguments)
            _refuse_generator(record, name, result)
        if "on_signal" in hooks:
            answer = yield from do(record, method_of(record, actor, "on_signal"), signal)
            if answer is not None:
                result = answer
    elif record.extras is not None and record.extras.on_signal is not None:
        apart = record.extras.on_signal is SIGNAL  # where its code is, its context is too
        result = yield from do(record, record.extras.on_signal, *(() if apart else (record,)), signal)
    return result


def rest_of_hook(record: ActorRecord, name: str, signal: Signal, result: object) -> Procedure:
    """The rest of `call_hook`, after the hook itself has returned `result`."""
    if isawaitable(result):
        result = yield result
    _refuse_generator(record, name, result)
    actor: Any = actor_of(record)
    if "on_signal" in class_info_of(type(actor)).hooks:
        yield from do(record, actor.on_signal, signal)


def rest_of_signal(record: ActorRecord, result: object) -> Procedure:
    if isawaitable(result):
        yield result


def _refuse_generator(record: ActorRecord, name: str, result: object) -> None:
    if is_generator(result):
        refuse_returned_generator(f"{name} of {record.cell.name()}", result)


def inspect(record: ActorRecord, items: tuple[str, ...], tell: Callable[..., object]) -> Procedure:
    """Call the actor's `inspect`: `tell(shown)`, or `tell(None, cause)` if it raises."""
    actor = actor_of(record)
    try:
        method = method_of(record, actor, "inspect") if isinstance(actor, Actor) else None
        tell({} if method is None else (yield from do(record, method, *items)))
    except Exception as exc:
        tell(None, exc)


def attempt(record: ActorRecord, name: str, procedure: Procedure) -> Procedure:
    """Run a hook of an actor that is ending or restarted: what the hook raises is logged, and changes nothing."""
    try:
        yield from procedure
    except BaseException as exc:
        if isinstance(exc, GeneratorExit) and record.ensure_extras().abandoned:
            raise
        hook_raised(record, name, exc)


def hook_raised(
    record: ActorRecord, name: str, cause: BaseException, told: str = "{} of %s raised, which changes nothing"
) -> None:
    """Log what a hook of an actor that is ending raised, and tell its world."""
    fields = record.cell.loop.host.log_fields(record.cell)
    _log.exception(told.format(name), record.cell.name(), extra=fields)
    record.cell.loop.world.hook_raised(record.cell, name, cause)
    if ends_system(cause):
        record.cell.loop.host.system.fail(cause)


# -- notices


def deliver_notice(record: ActorRecord, notice: object) -> object:
    """Hand a notice to the actor, unless it has been taken back meanwhile; what the hook or handler returns."""
    if isinstance(notice, Terminated):
        return deliver_terminated(record, notice)
    if isinstance(notice, ChildTerminated):
        return begin(call_hook(record, "on_child_terminated", notice, notice.ref, notice.cause))
    if isinstance(notice, Exit):
        return deliver_exit(record, notice)
    if isinstance(notice, Down):
        monitoring = relations_of(record).monitoring
        if monitoring.get(notice.mref) is not notice:
            return None
        del monitoring[notice.mref]
    elif isinstance(notice, ReceiveTimeout):
        receive_timer = record.ensure_extras().receive_timer
        if receive_timer is None or not receive_timer.is_still_quiet():
            return None
    return hand_to_actor(record, notice)


def deliver_terminated(record: ActorRecord, notice: Terminated) -> object:
    target = notice.ref._cell
    watching = relations_of(record).watching
    watch = watching.get(target)
    if watch is None or watch.notice is not notice:
        return None
    del watching[target]
    if watch.message is not None:
        record.cell.loop.visits.show(watch.message)
        return hand_to_actor(record, watch.message)
    return begin(_call_on_terminated(record, notice))


def _call_on_terminated(record: ActorRecord, notice: Terminated) -> Procedure:
    result = yield from call_hook(record, "on_terminated", notice, notice.ref, notice.cause)
    actor = actor_of(record)
    has_hook = isinstance(actor, Actor) and "on_terminated" in class_info_of(type(actor)).hooks
    # Without an `on_terminated`, `on_signal` must have returned a behavior.
    if not has_hook and (not isinstance(result, BehaviorBase) or result.unhandled):
        raise DeathPact(record.cell.ref, notice.ref, notice.reason) from notice.cause
    return result


def deliver_exit(record: ActorRecord, notice: Exit) -> object:
    relations = relations_of(record)
    target = notice.ref._cell
    if relations.linked.get(target) is not notice:
        return None
    del relations.linked[target]
    if relations.traps_exits:
        return hand_to_actor(record, notice)
    if not notice.reason.abnormal:
        return None
    cause = notice.reason.cause
    if cause is None:
        cause = LinkBroken(record.cell.ref, notice.ref, notice.reason)
    # Not raised: each time it is, an exception's traceback grows, and this one may pass many actors.
    record.cell.loop.host.failed(record.cell, notice, cause)
    return None
