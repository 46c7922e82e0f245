"""Steps of an actor's life that run a user's hooks, which may be `async def`.

A procedure is a generator that yields what has to be awaited. As long as no hook is async it runs through at once, on
the spot; from the first awaitable on, it is a coroutine that the loop steps like a handler's. So there is one text for
both, and a life without async hooks never meets asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from greenroom._core.behavior import is_generator, refuse_returned_generator
from greenroom._core.mailbox.cell import Cell
from greenroom.actor.api.actor import Actor
from greenroom.actor.life.spec import class_info_of
from greenroom.actor.messaging.signals import Signal
from greenroom.actor.records.record import ActorRecord
from greenroom.exits import ends_system
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from typing import NoReturn

    from greenroom.actor.records.parts import ExecutorPort

__all__ = [
    "HANDLE",
    "SIGNAL",
    "Hook",
    "Procedure",
    "actor_of",
    "attempt",
    "attempt_hook",
    "begin",
    "call",
    "call_hook",
    "do",
    "executor_of",
    "hand_to_actor",
    "hook_raised",
    "inspect",
    "method_of",
    "rest_of_hook",
    "rest_of_signal",
]

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
    """The user's actor, whatever it has become since; for actors that are functions, their context."""
    extras = record.extras
    return extras.behaviors[0].subject if extras is not None and extras.behaviors else record.cell.subject


def executor_of(record: ActorRecord) -> ExecutorPort | None:
    """Where the actor's code runs, if that is not on its loop's own thread."""
    return None if record.extras is None else record.extras.executor


def executor_for(record: ActorRecord, function: Callable[..., object]) -> ExecutorPort | None:
    """Where one of the actor's functions is to be called, if that is not here."""
    executor = executor_of(record)
    return None if executor is None or executor.runs_on_loop(function) else executor


class Hook:
    """One of the actor's methods, by name: for those who have the actor itself in another process."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: object) -> NoReturn:
        raise TypeError(f"{self.name} belongs to an actor in another process")


HANDLE = Hook("handle")
SIGNAL = Hook("signal")


def method_of(record: ActorRecord, actor: object, name: str) -> Callable[..., object]:
    """A method of the user's actor, for `do`."""
    executor = executor_of(record)
    return getattr(actor, name) if executor is None or not executor.is_remote else Hook(name)


def call(record: ActorRecord, function: Callable[..., object], *arguments: object) -> Procedure:
    """Call a user's function, wherever the actor's code runs; what it returns, even if that is to be awaited."""
    executor = executor_for(record, function)
    if executor is None:
        return function(*arguments)
    return (yield executor.call(record.cell, function, arguments, False))


def do(record: ActorRecord, function: Callable[..., object], *arguments: object) -> Procedure:
    """The same; what it returns is awaited, if it can be."""
    executor = executor_for(record, function)
    result = function(*arguments) if executor is None else (yield executor.call(record.cell, function, arguments, True))
    if isawaitable(result):
        result = yield result
    return result


def hand_to_actor(record: ActorRecord, message: object) -> object:
    """Have something that is no ordinary message handled like one: what that returns, or the rest of it."""
    cell = record.cell
    executor = executor_of(record)
    if executor is None:
        return cell.handler(cell.subject, message)
    if executor.is_remote:
        return begin(do(record, HANDLE, message))
    return begin(do(record, _handle_there, cell, message))


def _handle_there(cell: Cell, message: object) -> object:
    """What its handler returns; what it becomes by that, it becomes where its code runs."""
    handler, subject = cell.code()
    return cell.loop.host.absorb(cell, handler(subject, message))


def call_hook(record: ActorRecord, name: str, signal: Signal, *arguments: object) -> Procedure:
    """Call the hook `name` if the actor has it, then `on_signal`; the last result that is not None."""
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
    """The rest of `call_hook`, where the hook itself has been called and has returned something."""
    if isawaitable(result):
        result = yield result
    _refuse_generator(record, name, result)
    actor: Any = actor_of(record)
    if "on_signal" in class_info_of(type(actor)).hooks:
        yield from do(record, actor.on_signal, signal)


def rest_of_signal(record: ActorRecord, result: object) -> Procedure:
    """The same, where `on_signal` has returned something."""
    if isawaitable(result):
        yield result


def _refuse_generator(record: ActorRecord, name: str, result: object) -> None:
    if is_generator(result):
        refuse_returned_generator(f"{name} of {record.cell.name()}", result)


def inspect(record: ActorRecord, items: tuple[str, ...], tell: Callable[..., object]) -> Procedure:
    """Ask the actor's `inspect` what it shows of itself: `tell(shown)`, or `tell(None, cause)` if it raises."""
    actor = actor_of(record)
    try:
        method = method_of(record, actor, "inspect") if isinstance(actor, Actor) else None
        tell({} if method is None else (yield from do(record, method, *items)))
    except Exception as exc:
        tell(None, exc)


def attempt_hook(record: ActorRecord, name: str, signal: Signal, *arguments: object) -> Procedure:
    """Call a hook of an actor that is ending or being restarted: what it raises is logged, and that goes on."""
    yield from attempt(record, name, call_hook(record, name, signal, *arguments))


def attempt(record: ActorRecord, name: str, procedure: Procedure) -> Procedure:
    """Do what a hook of an actor that is ending wants: what it raises is logged, and that goes on."""
    try:
        yield from procedure
    except BaseException as exc:
        if isinstance(exc, GeneratorExit) and record.ensure_extras().abandoned:
            raise
        hook_raised(record, name, exc)


def hook_raised(record: ActorRecord, name: str, cause: BaseException) -> None:
    """Say that a hook of an actor that is ending raised, in the log, and to the simulation if there is one."""
    fields = record.cell.loop.host.log_fields(record.cell)
    _log.exception("%s of %s raised, which changes nothing", name, record.cell.name(), extra=fields)
    director = record.cell.loop.director
    if director is not None:
        director.hook_raised(record.cell, name, cause)
    if ends_system(cause):
        record.cell.loop.host.port.fail(cause)
