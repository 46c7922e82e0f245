"""Servers for tests, and the actors behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from greenroom import Actor, ActorSystem, Alias, Context
from greenroom.errors import HttpError
from greenroom.meta import HttpRequest, MetaOptions, Received, WebServer, WebSocketClient, Write
from greenroom.testing import TestProbe
from tests.meta.owners import Ref
from tests.meta.peers import PATIENCE

__all__ = ["Answer", "AsyncAnswer", "Client", "Owner", "Reporter", "Stage", "begin", "do", "serve", "until"]


class Owner(Actor[Any, Any]):
    """Does with its context what it is asked to, if that is a function; tells a witness what it hears otherwise."""

    def __init__(self, witness: Ref) -> None:
        self.witness = witness

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self.ctx)
        self.witness.tell(message)
        return None


class Stage:
    """A server, its alias, its owner, and a probe that hears what the owner hears."""

    def __init__(self, server: WebServer, alias: Alias, owner: Ref, probe: TestProbe) -> None:
        self.server = server
        self.alias = alias
        self.owner = owner
        self.probe = probe

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.server.address[:2]
        return host, port

    @property
    def port(self) -> int:
        return self.address[1]

    async def shown(self, name: str) -> Any:
        """What the server says of itself."""
        return (await self.alias.inspect(name))[name]

    async def until_shown(self, name: str, value: Any) -> None:
        """Wait until the server says so."""
        async with asyncio.timeout(PATIENCE):
            while await self.shown(name) != value:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)


async def serve(
    system: ActorSystem, routes: Mapping[str, Any], *, options: MetaOptions | None = None, **settings: Any
) -> Stage:
    """A server that listens."""
    probe = TestProbe(system)
    owner: Ref = system.spawn(Owner, probe.ref)
    server = WebServer(routes=routes, **settings)
    alias = await do(owner, lambda ctx: ctx.spawn_meta(server, options))
    await alias.started()
    return Stage(server, alias, owner, probe)


async def do(owner: Ref, action: Callable[[Context], Any]) -> Any:
    """Have an owner do something."""
    return await owner.ask(action, timeout=None)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nothing tells of."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


class Answer(Actor[Any, Any]):
    """Answers with the result of a function."""

    answers: ClassVar[tuple[type[Exception], ...]] = (HttpError,)

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer

    def receive(self, request: Any) -> Any:
        return self.answer(request)


class AsyncAnswer(Actor[HttpRequest, Any]):
    """The same, with a function to wait for."""

    answers: ClassVar[tuple[type[Exception], ...]] = (HttpError,)

    def __init__(self, answer: Callable[[HttpRequest], Awaitable[Any]]) -> None:
        self.answer = answer

    async def receive(self, request: HttpRequest) -> Any:
        return await self.answer(request)


class Reporter(Actor[Any, Any]):
    """Echoes, tells a witness what it hears and who it is, and fails or stops when it is told to."""

    def __init__(self, witness: Ref) -> None:
        self.witness = witness

    def receive(self, message: Any) -> None:
        self.witness.tell((self.ctx.self, message))
        if isinstance(message, Received):
            if message.data == "fail":
                raise ValueError("told to fail")
            if message.data == "stop":
                self.ctx.stop()
            else:
                message.alias.tell(Write(message.data))


class Client:
    """A client, and a probe that hears what its owner hears."""

    def __init__(self, system: ActorSystem) -> None:
        self.probe = TestProbe(system)
        self.owner: Ref = system.spawn(Owner, self.probe.ref)
        self.alias: Alias

    async def begin(self, url: str, **options: Any) -> Client:
        client = WebSocketClient(url, **options)
        self.alias = await do(self.owner, lambda ctx: ctx.spawn_meta(client))
        return self

    async def stop(self) -> None:
        self.alias.stop()
        await self.alias.terminated()


async def begin(system: ActorSystem, url: str, **options: Any) -> Client:
    return await Client(system).begin(url, **options)
