"""ASGI applications behind a server: one by hand, and Starlette's (E10)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

from greenroom import ActorSystem
from greenroom.errors import ConfigError
from greenroom.meta import Asgi, WebLimits
from greenroom.testing import TestProbe, capture_logs
from tests.meta.web.browser import connect, fetch, request
from tests.meta.web.stage import Answer, serve

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Receive, Send], Awaitable[None]]


def http_only(answer: App) -> App:
    """An application that knows nothing of lifespans."""

    async def app(scope: Any, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await answer(scope, receive, send)

    return app


async def respond(send: Send, body: bytes = b"", status: int = 200, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def read_all(receive: Receive) -> bytes:
    body: bytes = b""
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        body += bytes(message.get("body", b""))
        if not message.get("more_body", False):
            return body


async def test_an_application_is_told_of_a_request_as_asgi_has_it(system: ActorSystem) -> None:  # E10
    scopes: list[Any] = []

    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await respond(send, await read_all(receive), 201, [(b"x-one", b"1"), (b"x-one", b"2")])

    stage = await serve(system, {"/app/*": Asgi(http_only(answer))})
    with await connect(stage) as peer:
        reply = await peer.ask("POST", "/app/caf%C3%A9/x%2Fy?q=%20", b"body", x_color="red")
        assert (reply.status, reply.body) == (201, b"body")
        assert [value for name, value in reply.all_headers if name == "x-one"] == ["1", "2"]
        (scope,) = scopes
        assert scope["asgi"]["version"] == "3.0"
        assert (scope["http_version"], scope["method"], scope["scheme"]) == ("1.1", "POST", "http")
        assert (scope["path"], scope["query_string"]) == ("/app/café/x/y", b"q=%20")
        assert scope["root_path"] == "/app"
        assert (b"x-color", b"red") in scope["headers"]
        assert scope["client"] == peer.sock.getsockname()
        assert scope["raw_path"] == b"/app/caf%C3%A9/x%2Fy"  # as it came
    with await connect(stage) as peer:
        await peer.send(request("POST", "/app/", b"", version="1.0"))
        assert (await peer.reply()).status == 201
        assert scopes[1]["http_version"] == "1.0"


@pytest.mark.parametrize(("route", "root"), [("/*", ""), ("/a/b/*", "/a/b"), ("/a/b", "")])
async def test_an_application_knows_where_it_is_mounted(system: ActorSystem, route: str, root: str) -> None:  # E10
    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        await respond(send, f"{scope['root_path']} {scope['path']}".encode())

    stage = await serve(system, {route: Asgi(http_only(answer))})
    assert (await fetch(stage, path="/a/b")).text == f"{root} /a/b"


async def test_an_application_streams_both_ways(system: ActorSystem) -> None:  # E10
    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            await send({"type": "http.response.body", "body": message["body"].upper(), "more_body": more})

    stage = await serve(system, {"/": Asgi(http_only(answer))})
    with await connect(stage) as peer:
        for _ in range(2):
            await peer.send(request("POST", headers={"transfer-encoding": "chunked"}))
            assert (await peer.head()).headers["transfer-encoding"] == "chunked"
            for piece in (b"abc", b"de"):
                await peer.send(b"%x\r\n%s\r\n" % (len(piece), piece))
                assert await peer.chunk() == piece.upper()
            await peer.send(b"0\r\n\r\n")
            assert await peer.chunk() == b""
        assert (await peer.ask("HEAD")).status == 200
        assert (await peer.ask("POST", "/", b"last")).body == b"LAST"


async def test_an_application_can_ask_actors(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Answer, lambda number: str(int(number) * 2))

    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        await respond(send, (await actor.ask(scope["query_string"].decode())).encode())

    stage = await serve(system, {"/": Asgi(http_only(answer))})
    assert (await fetch(stage, path="/?21")).text == "42"


def failing(how: str) -> App:
    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        if scope["path"] == "/fine":
            await respond(send, b"fine")
            return
        if how == "body only":
            await send({"type": "http.response.body", "body": b"x"})
        if how == "nonsense":
            await send({"type": "nonsense"})
        if how in ("halfway", "halfway, returned"):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
        if how not in ("returned", "halfway, returned"):
            raise ValueError("secret")

    return http_only(answer)


@pytest.mark.parametrize("how", ["raised", "returned", "body only", "nonsense", "halfway", "halfway, returned"])
async def test_an_application_that_fails_harms_nobody(system: ActorSystem, how: str) -> None:  # E10
    stage = await serve(system, {"/*": Asgi(failing(how))})
    with await connect(stage) as peer:
        with capture_logs() as logs:
            await peer.send(request())
            if how.startswith("halfway"):
                said = await peer.cut_off()
                assert not said.endswith(b"0\r\n\r\n")
            else:
                reply = await peer.reply()
                assert reply.status == 500
                assert "secret" not in reply.text
        assert [one for one in logs.records if one.levelname == "ERROR"] or "returned" in how
    assert (await fetch(stage, path="/fine")).text == "fine"


async def test_an_application_that_fails_after_its_answer_has_answered(
    system: ActorSystem,
) -> None:  # E10: as Starlette does
    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        await respond(send, bytes(3_000_000), 500)
        raise ValueError("told to the server too")

    stage = await serve(system, {"/": Asgi(http_only(answer))})
    with await connect(stage, receive_buffer=4096) as peer:
        for _ in range(2):
            assert len((await peer.ask()).body) == 3_000_000


async def test_a_body_that_is_too_large_for_an_application_is_refused(system: ActorSystem) -> None:  # E10, R7
    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        await respond(send, str(len(await read_all(receive))).encode())

    stage = await serve(system, {"/": Asgi(http_only(answer))}, limits=WebLimits(max_body=1000))
    assert (await fetch(stage, "POST", "/", b"x" * 1000)).text == "1000"
    assert (await fetch(stage, "POST", "/", b"x" * 1001)).status == 413
    with await connect(stage) as peer:
        await peer.push(request("POST", headers={"transfer-encoding": "chunked"}) + b"3e9\r\n" + b"x" * 1001)
        assert (await peer.reply()).status == 413


async def test_an_application_learns_that_its_client_has_gone(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)

    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        await read_all(receive)
        probe.ref.tell("asked")
        try:
            probe.ref.tell((await receive())["type"])
        except asyncio.CancelledError:
            probe.ref.tell("http.disconnect")
            raise

    stage = await serve(system, {"/": Asgi(http_only(answer))})
    with await connect(stage) as peer:
        await peer.send(request())
        await probe.expect("asked")
        peer.reset()
    await probe.expect("http.disconnect")
    await stage.until_shown("connections", 0)


# Lifespans


def test_what_is_no_application_is_said_at_once() -> None:  # E10
    with pytest.raises(ConfigError):
        Asgi("app")  # type: ignore[arg-type]


# Starlette


def make_starlette(system: ActorSystem, notes: list[str]) -> Starlette:
    doubler = system.spawn(Answer, lambda number: number * 2)

    async def double(asked: Request) -> JSONResponse:
        return JSONResponse({"double": await doubler.ask(asked.path_params["number"])})

    async def count(asked: Request) -> StreamingResponse:
        async def numbers() -> AsyncIterator[str]:
            for number in range(5):
                await asyncio.sleep(0)
                yield f"{number} "

        return StreamingResponse(numbers())

    async def echo(asked: Request) -> PlainTextResponse:
        body = await asked.body()
        return PlainTextResponse(f"{asked.query_params['name']} {len(body)} {asked.url_for('echo').path}")

    async def fail(asked: Request) -> PlainTextResponse:
        raise ValueError("it fails")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        notes.append("up")
        yield {"ready": True}
        notes.append("down")

    async def state(asked: Request) -> JSONResponse:
        return JSONResponse(asked.state.ready)

    routes = [
        Route("/double/{number:int}", double),
        Route("/count", count),
        Route("/echo", echo, methods=["POST"], name="echo"),
        Route("/fail", fail),
        Mount("/inner", routes=[Route("/state", state)]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


@pytest.mark.parametrize("mount", ["", "/app"])
async def test_starlette_runs_behind_a_server(system: ActorSystem, mount: str) -> None:  # E10
    notes: list[str] = []
    stage = await serve(system, {f"{mount}/*": Asgi(make_starlette(system, notes))})
    with await connect(stage) as peer:
        assert (await peer.ask(path=f"{mount}/double/21")).json() == {"double": 42}
        assert notes == ["up"]
        assert (await peer.ask(path=f"{mount}/count")).text == "0 1 2 3 4 "
        assert (await peer.ask("POST", f"{mount}/echo?name=me", b"12345")).text == f"me 5 {mount}/echo"
        assert (await peer.ask(path=f"{mount}/inner/state")).json() is True
        assert (await peer.ask(path=f"{mount}/nowhere")).status == 404
        assert (await peer.ask(path=f"{mount}/echo")).status == 405
        assert (await peer.ask("HEAD", f"{mount}/count")).status == 200
        assert (await peer.ask(path=f"{mount}/fail")).status == 500
    assert (await fetch(stage, path=f"{mount}/double/1")).json() == {"double": 2}
    stage.alias.stop()
    await stage.alias.terminated()
    assert notes == ["up", "down"]
