"""ASGI applications behind a server: one by hand, and Starlette; their WebSockets, their start and their end (E10)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket as StarletteSocket

from greenroom import ActorSystem, ManualClock
from greenroom.errors import ConfigError
from greenroom.meta import Asgi, StopListening, WebLimits, WebServer
from greenroom.testing import TestProbe, capture_logs
from tests.gates import turns
from tests.meta.owners import Ref
from tests.meta.peers import PATIENCE
from tests.meta.web.client import connect, fetch, request
from tests.meta.web.frames import (
    BINARY,
    CLOSE,
    NO_TAKEOVER,
    PING,
    PONG,
    TEXT,
    close_frame,
    deflated,
    deflated_frames,
    frame,
    handshake,
    open_socket,
)
from tests.meta.web.stage import Answer, Owner, do, serve

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


def app(serve_socket: Callable[[Any, Receive, Send], Awaitable[None]]) -> Asgi:
    """An application that has WebSockets only."""

    async def only(scope: Any, receive: Receive, send: Send) -> None:
        assert scope["type"] == "websocket"
        assert (await receive())["type"] == "websocket.connect"
        await serve_socket(scope, receive, send)

    return Asgi(only, lifespan=False)


async def echo(scope: Any, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


async def test_an_application_is_told_of_a_socket_as_asgi_has_it(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)

    async def describe(scope: Any, receive: Receive, send: Send) -> None:
        probe.ref.tell(scope)
        await send({"type": "websocket.accept", "subprotocol": "b", "headers": [(b"x-one", b"1")]})
        probe.ref.tell(await receive())

    stage = await serve(system, {"/app/*": app(describe)})
    with await open_socket(stage, "/app/x%2Fy?q=1", sec_websocket_protocol="a, b") as peer:
        scope = await probe.receive()
        assert (scope["path"], scope["raw_path"]) == ("/app/x/y", b"/app/x%2Fy")
        assert (scope["root_path"], scope["query_string"], scope["scheme"]) == ("/app", b"q=1", "ws")
        assert (scope["subprotocols"], scope["http_version"]) == (["a", "b"], "1.1")
        assert scope["server"] == stage.address
        assert "method" not in scope
        assert peer.answer.headers["sec-websocket-protocol"] == "b"
        assert peer.answer.headers["x-one"] == "1"
        await peer.send(close_frame(4002, "so long"))
        said = await probe.receive()
        assert said == {"type": "websocket.disconnect", "code": 4002, "reason": "so long"}


async def test_an_application_speaks_with_its_peer(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": app(echo)})
    early = frame(TEXT, "early") + frame(PING, "p")
    with await open_socket(stage, early=early, deflate=True) as peer:
        frames = [await peer.frame() for _ in range(2)]
        assert {one.opcode for one in frames} == {TEXT, PONG}
        assert await peer.say("ü" * 10_000) == "ü" * 10_000
        await peer.send(frame(BINARY, deflated(b"packed" * 100), rsv=4))
        assert await peer.message() == b"packed" * 100
        await stage.until_shown("websockets", 1)
        assert (await peer.farewell(4000)).code == 4000
    await stage.until_shown("websockets", 0)


async def test_a_slow_application_holds_its_peer_up_and_loses_nothing(system: ActorSystem) -> None:  # E10
    gate, number, text = asyncio.Event(), 3000, "x" * 4000

    async def slow(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await gate.wait()
        heard = [(await receive())["text"] for _ in range(number)]
        assert heard == [f"{n}{text}" for n in range(number)]
        await send({"type": "websocket.send", "text": "all"})

    stage = await serve(system, {"/ws": app(slow)})
    with await open_socket(stage) as peer:
        sending = asyncio.ensure_future(peer.push(b"".join(frame(TEXT, f"{n}{text}") for n in range(number))))
        await peer.stuck()
        assert not sending.done()
        gate.set()
        assert await peer.message() == "all"
        assert (await peer.frame()).code == 1000
        await sending


async def test_large_messages_are_unpacked_as_a_slow_application_takes_them(system: ActorSystem) -> None:  # R7
    gate, number, size = asyncio.Event(), 60, 500_000  # fewer than may wait, by their number alone

    async def slow(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await gate.wait()
        assert [len((await receive())["bytes"]) for _ in range(number)] == [size] * number
        await send({"type": "websocket.send", "text": "all"})

    stage = await serve(system, {"/ws": app(slow)})
    bombs = deflated_frames(number, size, noise=2000)
    with await open_socket(stage, deflate=True, **NO_TAKEOVER) as peer:
        sending, peak = await peer.send_until_stuck(bombs)
        assert peak < 6_000_000
        gate.set()
        await sending
        assert await peer.message() == "all"


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("refuses", 403, None),
        ("returns", 403, None),
        ("raises", 500, None),
        ("speaks first", 500, None),
        ("closes", 101, 4005),
        ("accepts and returns", 101, 1000),
        ("accepts and raises", 101, 1011),
    ],
)
async def test_an_application_can_end_a_socket_at_any_time(
    system: ActorSystem, how: str, status: int, code: int | None
) -> None:
    async def serve_socket(scope: Any, receive: Receive, send: Send) -> None:
        if how == "speaks first":
            await send({"type": "websocket.send", "text": "x"})
        if how in ("closes", "accepts and returns", "accepts and raises"):
            await send({"type": "websocket.accept"})
        if how in ("refuses", "closes"):
            await send({"type": "websocket.close", "code": 4005, "reason": "enough"})
        if how.endswith("raises"):
            raise ValueError("secret")

    stage = await serve(system, {"/ws": app(serve_socket), "/": system.spawn(Answer, lambda asked: "plain")})
    if status == 101:
        with await open_socket(stage) as peer:
            last = await peer.frame()
            assert (last.opcode, last.code) == (CLOSE, code)
            assert last.payload[2:] == (b"enough" if how == "closes" else b"")
            await peer.send(close_frame(1000))
            assert await peer.rest() == b""
    else:
        with await connect(stage) as browser:
            with capture_logs() as logs:
                await browser.send(handshake())
                reply = await browser.reply()
            assert (reply.status, "secret" in reply.text) == (status, False)
            assert bool([one for one in logs.records if one.levelname == "ERROR"]) == (status == 500)
            assert (await browser.ask()).text == "plain"
    await stage.until_shown("websockets", 0)


async def test_a_bad_handshake_is_not_for_the_application(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/ws": app(echo)})
    with await connect(stage) as peer:
        await peer.send(handshake(sec_websocket_key="short"))
        assert (await peer.reply()).status == 400


@pytest.mark.parametrize("how", ["stop", "stop listening"])
async def test_sockets_of_applications_end_with_the_server_and_not_before(system: ActorSystem, how: str) -> None:  # E10
    stage = await serve(system, {"/ws": app(echo)})
    with await open_socket(stage) as peer:
        if how == "stop":
            stage.alias.stop()
            assert (await peer.frame()).code == 1001
            await peer.send(close_frame(1001))
        else:
            await stage.alias.ask(StopListening())
            assert await peer.say("still") == "still"
            await peer.farewell()
        await stage.alias.terminated()


@pytest.mark.config(stop_timeout=1000.0)
async def test_an_application_that_does_not_end_is_broken_off(system: ActorSystem, clock: ManualClock) -> None:  # E10
    ended = asyncio.Event()

    async def stubborn(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    stage = await serve(system, {"/ws": app(stubborn)}, limits=WebLimits(linger=5.0))
    with await open_socket(stage) as peer:
        stage.alias.stop()
        assert (await peer.frame()).code == 1001
        await peer.send(close_frame(1001))
        assert await peer.rest() == b""
        assert not ended.is_set()
        await clock.advance(5.0)
        await ended.wait()
        await stage.alias.terminated()


async def pour(send: Send) -> None:
    """Send far more than fits anywhere, which only an end of the socket breaks off."""
    for _ in range(10_000):
        await send({"type": "websocket.send", "text": "x" * 10_000})


@pytest.mark.parametrize("how", ["reset", "reset unseen", "farewell"])
async def test_an_application_that_only_sends_ends_with_its_client(system: ActorSystem, how: str) -> None:  # E10
    accepted, gate = asyncio.Event(), asyncio.Event()
    errors: list[BaseException] = []

    async def only_send(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        accepted.set()
        await gate.wait()
        try:
            await pour(send)
        except OSError as exc:
            errors.append(exc)
            raise

    stage = await serve(system, {"/ws": app(only_send)})
    with capture_logs() as logs, await open_socket(stage) as peer:
        await accepted.wait()
        if how == "reset unseen":
            peer.reset()  # it is a write that fails first
        gate.set()
        if how == "reset":
            await peer.frame()  # it sends
            peer.reset()
        elif how == "farewell":
            await peer.send(close_frame(1000))
            await peer.rest()
        await stage.until_shown("websockets", 0)
    assert [str(error) for error in errors] == ["the client has closed the WebSocket"]
    assert [line for line in logs.records if line.levelname == "ERROR"] == []


@pytest.mark.config(stop_timeout=1000.0)
async def test_an_application_that_sends_whatever_it_is_told_holds_nobody_up(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    told, ended = asyncio.Event(), asyncio.Event()

    async def deaf(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        with pytest.raises(OSError, match="closed"):
            await pour(send)
        try:
            while True:
                turned = asyncio.Event()
                asyncio.get_running_loop().call_soon(turned.set)
                with pytest.raises(OSError, match="closed"):
                    await send({"type": "websocket.send", "text": "x"})
                assert turned.is_set()  # else nothing else would ever have its turn
                told.set()
        finally:
            ended.set()

    stage = await serve(system, {"/ws": app(deaf)}, limits=WebLimits(linger=5.0))
    peer = await open_socket(stage)
    peer.reset()
    async with asyncio.timeout(PATIENCE):
        await told.wait()
    assert not ended.is_set()
    stage.alias.stop()
    await turns()
    await clock.advance(5.0)
    await ended.wait()
    await stage.alias.terminated()


async def test_an_application_whose_own_connection_fails_has_failed(system: ActorSystem) -> None:  # E10
    async def fail(scope: Any, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        raise ConnectionResetError("its database is gone")

    stage = await serve(system, {"/ws": app(fail)})
    with capture_logs() as logs, await open_socket(stage) as peer:
        assert (await peer.frame()).code == 1011
    assert [line.levelname for line in logs.records if line.levelname == "ERROR"] == ["ERROR"]


async def test_starlettes_sockets(system: ActorSystem) -> None:  # E10
    shouter = system.spawn(Answer, str.upper)

    async def shout(socket: StarletteSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(await shouter.ask(text))

    stage = await serve(system, {"/app/*": Asgi(Starlette(routes=[WebSocketRoute("/{room}", shout)]))})
    with await open_socket(stage, "/app/blue") as peer:
        assert await peer.say("hello") == "HELLO"
        await peer.farewell()


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
