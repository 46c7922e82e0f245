"""Actors whose every hook is noted, actors that are restarted, and what holds of each life."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Backoff,
    Behaviors,
    Context,
    ExitReason,
    OnRestart,
    Scope,
    State,
    Supervision,
)
from greenroom.system.ending.report import ShutdownReport
from greenroom.testing import assert_ledger_balanced
from tests.gates import Event, turns

CREATED, STARTING, RUNNING = State.CREATED, State.STARTING, State.RUNNING
STOPPING, STOPPED, FAILED, RESTARTING = State.STOPPING, State.STOPPED, State.FAILED, State.RESTARTING
TERMINATED = State.TERMINATED

TRANSITIONS: dict[State, set[State]] = {
    CREATED: {STARTING, TERMINATED},
    STARTING: {RUNNING, FAILED, STOPPING},
    RUNNING: {STOPPING, FAILED, RESTARTING},
    FAILED: {RUNNING, RESTARTING, STOPPING, TERMINATED},
    RESTARTING: {STARTING, FAILED, STOPPING},
    STOPPING: {STOPPED},
    STOPPED: {RESTARTING, TERMINATED},
    TERMINATED: set(),
}


def actor_at(system: ActorSystem, path: str | int) -> ActorRef[Any, Any]:
    ref = system.actor(path)
    assert ref is not None
    return ref


def report_of(system: ActorSystem | None) -> ShutdownReport:
    assert system is not None
    assert system.report is not None
    return system.report


def assert_ended_once(system: ActorSystem, actors: int) -> None:
    """The system has stopped, and so many actors with it, none of them by force."""
    report = report_of(system)
    assert (report.started, report.terminated, report.forced) == (actors, actors, ())
    assert system.phase == "stopped"
    assert system.actors() == []
    assert_ledger_balanced(system)


def assert_is_a_life(history: tuple[State, ...], *, killed: bool = False) -> None:
    assert history[0] is CREATED
    assert history[-1] is TERMINATED
    for here, there in pairwise(history):
        assert there in TRANSITIONS[here] or (killed and there is TERMINATED and here is not TERMINATED), history


class Hooked(Actor[Any, Any]):
    """Writes down which of its hooks run; `acts` says what they do besides, and may return something to await."""

    def __init__(self, log: list[str] | None = None, **acts: Callable[[Context], Any]) -> None:
        self.log = [] if log is None else log
        self.acts = acts
        if "init" in acts:
            acts["init"](None)  # type: ignore[arg-type]

    def play(self, hook: str) -> Any:
        self.log.append(hook)
        return self.acts[hook](self.ctx) if hook in self.acts else None

    def receive(self, message: Any) -> Any:
        self.log.append(f"receive {message}")
        return message(self.ctx) if callable(message) else message

    def pre_start(self) -> Any:
        return self.play("pre_start")

    def post_start(self) -> Any:
        return self.play("post_start")

    def pre_stop(self) -> Any:
        return self.play("pre_stop")

    def post_stop(self) -> Any:
        return self.play("post_stop")


HOOKS = ("pre_start", "post_start", "pre_stop", "post_stop", "pre_restart", "post_restart", "snapshot", "restore")
Kind = TypeVar("Kind", bound=type[Actor[Any, Any]])


def suspending(kind: Kind) -> Kind:
    """A class decorator: the handler and the hooks of its base are `async def`, suspend, and await what they return."""

    def suspend(method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(self: Any, *arguments: Any) -> Any:
            await asyncio.sleep(0)
            result = method(self, *arguments)
            return await result if isawaitable(result) else result

        return call

    base = kind.__mro__[1]
    for name in ("receive", *HOOKS):
        if name not in vars(kind) and getattr(base, name, None) is not getattr(Actor, name, None):
            setattr(kind, name, suspend(getattr(base, name)))
    return kind


@suspending
class HookedAsync(Hooked):
    pass


class Plain(Actor[Any, Any]):
    """Without any hook."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message


@suspending
class PlainAsync(Plain):
    pass


def handle(ctx: Context, message: Any) -> Any:
    return message(ctx) if callable(message) else message


KINDS: list[Any] = [Plain, PlainAsync, Hooked, HookedAsync, handle, Behaviors.receive(handle)]
KIND_NAMES = ["plain", "plain async", "hooked", "hooked async", "function", "behavior"]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
every_hooked = pytest.mark.parametrize("kind", [Hooked, HookedAsync], ids=["sync", "async"])


def raises(error: BaseException) -> Callable[[Any], Any]:
    def act(_: object) -> Any:
        raise error.with_traceback(None)  # or it would grow with every use

    return act


async def ended(system: ActorSystem, ref: ActorRef[Any, Any], within: float = 120.0) -> ExitReason:
    """How `ref` ended; if it does not, the system is forced to, so that the test ends at once."""
    try:
        async with asyncio.timeout(within):
            return await ref.terminated()
    except TimeoutError:
        stranded = f"{ref} is stranded: {ref.state}, {ref.history}"
        await system.shutdown(timeout=0.1)
        raise AssertionError(stranded) from None


Ref = ActorRef[Any, Any]
AT_ONCE = Supervision(max_restarts=None, backoff=None)
"""Restarts without delay and without limit."""
CLEARING = Supervision(max_restarts=None, backoff=None, mailbox=OnRestart.CLEAR)
"""Restarts without delay and without limit, that drop what was queued."""
BAD = ValueError("on purpose")


class Book:
    """What the incarnations of one actor have in common: what happened to them, and what their hooks do besides.

    `acts` are by the name of a hook, for every incarnation, or by a name and a number, as `"pre_start 2"`.
    """

    def __init__(self, name: str = "", log: list[str] | None = None, /, **acts: Callable[[Any], Any]) -> None:
        self.name = name
        self.log: list[str] = [] if log is None else log
        self.heard: list[Any] = []
        self.acts: dict[str, Callable[[Any], Any]] = dict(acts)
        self.lives = 0
        self.actors: list[Any] = []

    def write(self, what: str, number: int) -> None:
        self.log.append(f"{self.name}{what} {number}")

    def take(self) -> list[str]:
        """The lines since the last call."""
        written = list(self.log)
        self.log.clear()
        return written


class Bird(Actor[Any, Any]):
    """Does what it is sent, if that is a function of itself; raises what is an exception; hears anything else."""

    def __init__(self, book: Book) -> None:
        book.lives += 1
        book.actors.append(self)
        self.book = book
        self.number = book.lives
        self.run("init")

    def run(self, hook: str) -> Any:
        self.book.write(hook, self.number)
        act = self.book.acts.get(f"{hook} {self.number}", self.book.acts.get(hook))
        return None if act is None else act(self)

    def obey(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message.with_traceback(None)  # or it would grow with every use
        if callable(message):
            return message(self)
        self.book.heard.append(message)
        return message

    def receive(self, message: Any) -> Any:
        return self.obey(message)


class Phoenix(Bird):
    """Writes down every hook of a restart."""

    def pre_start(self) -> Any:
        return self.run("pre_start")

    def post_start(self) -> Any:
        return self.run("post_start")

    def pre_stop(self) -> Any:
        return self.run("pre_stop")

    def post_stop(self) -> Any:
        return self.run("post_stop")

    def pre_restart(self, cause: BaseException | None) -> Any:
        self.cause = cause
        return self.run("pre_restart")

    def post_restart(self) -> Any:
        return self.run("post_restart")

    def snapshot(self) -> Any:
        result = self.run("snapshot")
        return f"state of {self.number}" if result is None else result

    def restore(self, state: Any) -> Any:
        self.state = state
        return self.run("restore")

    def on_terminated(self, ref: Ref, cause: BaseException | None) -> Any:
        self.book.heard.append(("terminated", ref))


@suspending
class AsyncPhoenix(Phoenix):
    async def snapshot(self) -> Any:
        await asyncio.sleep(0)
        result = self.run("snapshot")
        result = await result if isawaitable(result) else result
        return f"state of {self.number}" if result is None else result


PHOENIXES = [Phoenix, AsyncPhoenix]
every_phoenix = pytest.mark.parametrize("kind", PHOENIXES, ids=["sync", "async"])

BORN_AGAIN = ["init 2", "pre_start 2", "restore 2", "post_restart 2", "post_start 2"]
GONE = ["pre_restart 1", "snapshot 1", "post_stop 1"]


class Gate:
    """Something to wait at, again and again; `entered` tells that somebody does."""

    def __init__(self, stubborn: bool = False) -> None:
        self.entered = Event()
        self.opened = Event()
        self.cancelled = 0
        self.stubborn = stubborn

    async def wait(self, *_: object) -> None:
        self.entered.set()
        while not self.opened.is_set():
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if not self.stubborn:
                    raise


def assert_legal(history: tuple[State, ...], *, killed: bool = False) -> None:
    """Only transitions of M1, whether the life is over or not."""
    assert history[0] is State.CREATED
    for here, there in pairwise(history):
        allowed = there in TRANSITIONS[here] or (killed and there is State.TERMINATED)
        assert allowed, f"{here.name} -> {there.name} in {[state.name for state in history]}"


def runs(ref: Ref) -> bool:
    return ref.state is State.RUNNING


async def soon(system: ActorSystem, awaited: Awaitable[Any], within: float = 120.0) -> Any:
    """The result of `awaited`. If it takes too long, the system is forced to end, so that the test ends at once."""
    try:
        async with asyncio.timeout(within):
            return await awaited
    except TimeoutError:
        stranded = f"somebody is stranded: {[(str(ref), ref.state, ref.history) for ref in system.actors()]}"
        await system.shutdown(timeout=0.1)
        raise AssertionError(stranded) from None


def slow(delay: float, **options: Any) -> Supervision:
    """Restarts after exactly `delay` seconds each time."""
    return Supervision(backoff=Backoff(min=delay, max=delay), **options)


ALL = Supervision(scope=Scope.ONE_FOR_ALL, max_restarts=None, backoff=None)
REST = Supervision(scope=Scope.REST_FOR_ONE, max_restarts=None, backoff=None)
ALONE = Supervision(max_restarts=None, backoff=None)


class Troupe:
    """Siblings named a, b, c..., below a parent or at the top, and one log of all their hooks."""

    def __init__(self, system: ActorSystem, kind: Any, *supervisions: Supervision, top: bool = False) -> None:
        self.system = system
        self.log: list[str] = []
        self.parent: Any = None if top else system.spawn(Plain)
        self.books: list[Book] = []
        self.refs: list[Ref] = []
        for number, supervision in enumerate(supervisions):
            name = "abcdefgh"[number]
            self.books.append(Book(f"{name} ", self.log))
            self.refs.append(system.spawn(kind, self.books[-1], name=name, parent=self.parent, supervision=supervision))

    async def begin(self) -> list[Ref]:
        for ref in self.refs:
            await ref.ask("hello")
        self.log.clear()
        for book in self.books:
            book.heard.clear()
        return self.refs

    @property
    def lives(self) -> list[int]:
        return [book.lives for book in self.books]

    def left(self) -> str:
        """The names of those that left, in their order."""
        return "".join(line[0] for line in self.log if " post_stop " in line)

    def came(self) -> str:
        """The names of those that were made, in their order."""
        return "".join(line[0] for line in self.log if " init " in line)

    def assert_legal(self) -> None:
        for ref in self.refs:
            assert_legal(ref.history)


async def settled(troupe: Troupe) -> None:
    """Wait until all siblings that live run."""

    async def wait() -> None:
        await turns(20)
        while any(ref.is_alive and ref.state is not State.RUNNING for ref in troupe.refs):  # noqa: ASYNC110
            await asyncio.sleep(0)

    await soon(troupe.system, wait())
    await troupe.system.settle()
