"""Applications are started and stopped with their server (E10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import ActorSystem, ManualClock
from greenroom.meta import Asgi, WebServer
from greenroom.testing import TestProbe
from tests.gates import turns
from tests.meta.owners import Ref
from tests.meta.web.browser import connect, fetch
from tests.meta.web.stage import Owner, do, serve
from tests.meta.web.test_asgi import Receive, Send, respond


class Living:
    """An application that notes what becomes of it."""

    def __init__(self, answers: str = "complete") -> None:
        self.notes: list[str] = []
        self.answers = answers

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await respond(send, str(scope["state"].get("number")).encode())
            return
        scope["state"]["number"] = 7
        while True:
            kind = (await receive())["type"]
            self.notes.append(kind)
            await send({"type": f"{kind}.{self.answers}", "message": "no room"})
            if kind == "lifespan.shutdown":
                return


async def test_an_application_is_started_and_stopped_with_the_server(system: ActorSystem) -> None:  # E10
    app = Living()
    mounted = Asgi(app)
    stage = await serve(system, {"/a": mounted, "/b/*": mounted})
    assert (await fetch(stage, path="/a")).text == "7"
    assert (await fetch(stage, path="/b/c")).text == "7"
    assert app.notes == ["lifespan.startup"]
    stage.alias.stop()
    await stage.alias.terminated()
    assert app.notes == ["lifespan.startup", "lifespan.shutdown"]


async def test_an_application_can_be_without_a_lifespan(system: ActorSystem) -> None:  # E10
    app = Living()
    stage = await serve(system, {"/a": Asgi(app, lifespan=False)})
    assert (await fetch(stage, path="/a")).text == "None"
    stage.alias.stop()
    await stage.alias.terminated()
    assert app.notes == []


async def test_a_server_whose_application_cannot_start_does_not(system: ActorSystem) -> None:  # E10
    working = Living()
    owner: Ref = system.spawn(Owner, TestProbe(system).ref)
    server = WebServer(routes={"/a": Asgi(working), "/b": Asgi(Living("failed"))})
    alias = await do(owner, lambda ctx: ctx.spawn_meta(server))
    with pytest.raises(RuntimeError, match="no room"):
        await alias.started()
    await alias.terminated()
    with pytest.raises(ConnectionError):
        await connect(server.address)


async def test_a_server_has_started_when_its_applications_have(system: ActorSystem) -> None:  # E10
    entered, gate = asyncio.Event(), asyncio.Event()
    living = Living()

    async def slow(scope: Any, receive: Receive, send: Send) -> None:
        entered.set()
        await gate.wait()
        await living(scope, receive, send)

    starting = asyncio.ensure_future(serve(system, {"/": Asgi(slow)}))
    await entered.wait()
    await turns()
    assert not starting.done()
    gate.set()
    await starting
    assert living.notes == ["lifespan.startup"]


async def test_a_server_that_is_stopped_while_its_applications_start_leaves_nothing(system: ActorSystem) -> None:  # E10
    entered = asyncio.Event()

    async def stuck(scope: Any, receive: Receive, send: Send) -> None:
        entered.set()
        await asyncio.Event().wait()

    owner: Ref = system.spawn(Owner, TestProbe(system).ref)
    alias = await do(owner, lambda ctx: ctx.spawn_meta(WebServer(routes={"/": Asgi(stuck)})))
    await entered.wait()
    alias.kill()
    await alias.terminated()


class Stuck:
    """An application that is told to end, and does not until it is cancelled."""

    def __init__(self) -> None:
        self.told, self.cancelled = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.told.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest.mark.config(stop_timeout=5.0)
async def test_applications_are_told_to_end_together(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10: one that is slow keeps it from nobody
    first, second = Stuck(), Stuck()
    stage = await serve(system, {"/a": Asgi(first), "/b": Asgi(second)})
    stage.alias.stop()
    await first.told.wait()
    await turns()
    assert second.told.is_set()
    await clock.advance(5.0)
    await stage.alias.terminated()


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.config(stop_timeout=5.0)
async def test_an_application_that_does_not_end_in_time_is_cancelled(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # E10
    apps = [Stuck(), Stuck()]
    stage = await serve(system, {f"/{number}": Asgi(app) for number, app in enumerate(apps)})
    stage.alias.stop()
    for app in apps:
        await app.told.wait()
    assert not any(app.cancelled.is_set() for app in apps)
    if how == "stop":
        await clock.advance(5.0)
    else:
        stage.alias.kill()
    await stage.alias.terminated()
    await turns()
    assert all(app.cancelled.is_set() for app in apps)
