"""Actors that own meta-processes, what they hear, and meta-processes that say what becomes of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from greenroom import Actor, ActorRef, ActorSystem, Alias, Context, ExitReason
from greenroom.meta import Closed, Connected, MetaOptions, MetaProcess, Received, TcpServer, Write
from greenroom.testing import TestProbe
from tests.gates import Event, Gate

__all__ = [
    "BAD",
    "KINDS",
    "PATIENCE",
    "AsyncDiary",
    "AsyncOwner",
    "Diary",
    "Echo",
    "Ended",
    "Heard",
    "Held",
    "Owner",
    "Panic",
    "Quiet",
    "Ref",
    "Reporter",
    "Scene",
    "all_told",
    "emptied",
    "hear",
    "hear_bytes",
    "kinds",
    "noted",
    "pair",
    "serve",
]

Ref = ActorRef[Any, Any]
BAD = ValueError("bad")
PATIENCE = 120.0
T = TypeVar("T")


class Panic(BaseException):
    pass


class Heard(NamedTuple):
    """A message that an owner had."""

    message: Any
    sender: Ref | None
    lane: Any


class Ended(NamedTuple):
    """What an owner was told of the end of a child."""

    ref: Ref
    cause: BaseException | None


class Try(NamedTuple):
    """Something to do with a context; the answer is the result, or what it raised."""

    action: Callable[[Context], Any]


class Owner(Actor[Any, Any]):
    """Does with its context what a message says, if it is a function; tells a witness what it hears otherwise."""

    def __init__(self, witness: Ref, first: Callable[[Context], object] = id) -> None:
        self.witness = witness
        self.first = first

    def pre_start(self) -> None:
        self.first(self.ctx)

    def receive(self, message: Any) -> Any:
        if isinstance(message, Try):
            try:
                return message.action(self.ctx), None
            except BaseException as exc:
                return None, exc
        if callable(message):
            return message(self.ctx)
        self.witness.tell(Heard(message, self.ctx.sender, self.ctx.lane))
        return None

    def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.witness.tell(Ended(ref, cause))


class AsyncOwner(Owner):
    """The same; what it is to do may take a while."""

    async def receive(self, message: Any) -> Any:
        done = super().receive(message)
        if isinstance(done, tuple) and isinstance(done[0], Awaitable):
            return await done[0], None
        return await done if isinstance(done, Awaitable) else done


class Scene:
    """An owner, and a probe that hears of all it is told."""

    def __init__(self, system: ActorSystem, kind: type[Owner] = Owner, **options: Any) -> None:
        self.system = system
        self.probe = TestProbe(system)
        self.owner: Ref = system.spawn(kind, self.probe.ref, **options)

    async def do(self, action: Callable[[Context], Any]) -> Any:
        """Have the owner do something, which it survives: the result, or what is raised."""
        result, error = await self.owner.ask(Try(action), timeout=None)
        if error is not None:
            raise error
        return result

    async def spawn(self, meta: Any, options: MetaOptions | None = None) -> Alias:
        """Have the owner spawn a meta-process, and wait until it runs."""
        alias: Alias = await self.do(lambda ctx: ctx.spawn_meta(meta, options))
        await alias.started()
        return alias

    def hold(self) -> Gate:
        """Let the owner, which is an `AsyncOwner`, handle nothing more until the gate has a result."""
        gate = Gate()

        async def wait(_: Any) -> None:
            await gate

        self.owner.tell(wait)
        return gate

    async def heard(self) -> Any:
        """The message of the next thing that the owner heard."""
        return (await self.probe.expect(Heard)).message

    async def all_heard(self, number: int) -> list[Any]:
        return [await self.heard() for _ in range(number)]


class Diary(MetaProcess):
    """Writes down what is called, and answers; its handlers may block."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def init(self) -> None:
        self.notes.append("init")

    def handle_message(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        self.notes.append(message)

    def handle_call(self, request: Any) -> Any:
        if isinstance(request, BaseException):
            raise request
        return request(self) if callable(request) else ("answer", request)

    def terminate(self, reason: ExitReason) -> Any:
        self.notes.append(reason)

    def inspect(self, *items: str) -> dict[str, Any]:
        self.notes.append("inspect")
        return {"items": items, "notes": len(self.notes)}


class AsyncDiary(Diary):
    """The same, on the system's own loop."""

    async def handle_message(self, message: Any) -> None:
        await asyncio.sleep(0)
        super().handle_message(message)

    async def handle_call(self, request: Any) -> Any:
        await asyncio.sleep(0)
        return super().handle_call(request)

    async def terminate(self, reason: ExitReason) -> None:
        await asyncio.sleep(0)
        super().terminate(reason)

    async def inspect(self, *items: str) -> dict[str, Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().inspect(*items)


class Quiet(MetaProcess):
    """Has no callbacks at all."""


KINDS: list[type[Diary]] = [Diary, AsyncDiary]


def kinds(function: Any) -> Any:
    """Run a test with both kinds of diary."""
    import pytest

    return pytest.mark.parametrize("kind", KINDS)(function)


def noted(meta: Diary) -> list[ExitReason]:
    """The ends that a diary has noted."""
    return [note for note in meta.notes if isinstance(note, ExitReason)]


class Held:
    """Where a thread waits until a test lets it go: `enter()` there, `await entered.wait()` and `release()` here."""

    def __init__(self) -> None:
        self.entered = Event()
        self.gate = threading.Event()

    def enter(self) -> None:
        self.entered.set()
        assert self.gate.wait(PATIENCE)

    async def enter_async(self) -> None:
        self.entered.set()
        while not self.gate.is_set():  # noqa: ASYNC110 - whoever lets it go may be on any thread
            await asyncio.sleep(0)

    def release(self) -> None:
        self.gate.set()


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends; the one that a meta-process is given is its own to close, the other is closed by `with`."""
    return socket.socketpair()


# -- owners of connections


async def serve(scene: Scene, server: TcpServer | None = None, **options: Any) -> tuple[TcpServer, Alias]:
    """Have the owner of `scene` listen."""
    server = TcpServer(**options) if server is None else server
    return server, await scene.spawn(server)


async def emptied(server: Alias) -> None:
    """Return when a server has no connection any more."""
    while (await server.inspect("connections", timeout=None))["connections"]:  # noqa: ASYNC110 - nobody is told
        await asyncio.sleep(0)


async def hear(scene: Scene, kind: type[T]) -> T:
    """What the owner of `scene` hears next, which is of this kind."""
    message = await scene.heard()
    assert isinstance(message, kind), message
    return message


async def hear_bytes(scene: Scene, size: int) -> bytes:
    """What the owner receives next, however it is cut: as many bytes as that."""
    got = bytearray()
    while len(got) < size:
        got += (await hear(scene, Received)).data
    return bytes(got)


async def all_told(scene: Scene) -> tuple[list[Any], Closed]:
    """All frames of one connection, and how it ended."""
    frames = []
    while isinstance(message := await scene.heard(), Received):
        frames.append(message.data)
    assert isinstance(message, Closed), message
    return frames, message


class Echo(Actor[Any, Any]):
    """Writes back what it receives."""

    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            message.alias.tell(Write(message.data))


class Reporter(Actor[Any, Any]):
    """Tells a witness what it is told, and who it is."""

    def __init__(self, witness: Ref) -> None:
        self.witness = witness

    def receive(self, message: Any) -> None:
        if isinstance(message, Received) and message.data == b"fail":
            raise ValueError("told to fail")
        if isinstance(message, Received) and message.data == b"stop":
            self.ctx.stop()
        if isinstance(message, Connected | Received | Closed):
            self.witness.tell((self.ctx.self, message))
