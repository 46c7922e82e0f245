"""Requests over HTTP/1.1 and 1.0, as raw bytes, and what an actor is asked (E10)."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Any

import pytest

from greenroom import ActorSystem
from greenroom.errors import ConfigError
from greenroom.meta import HttpRequest, MetaOptions, Route, WebLimits, WebServer
from greenroom.testing import TestProbe
from tests.gates import turns
from tests.meta.web.client import connect, fetch, request
from tests.meta.web.stage import Answer, serve


def described(asked: HttpRequest) -> dict[str, Any]:
    """All that a request has, as JSON."""
    return {
        "method": asked.method,
        "path": asked.path,
        "query": asked.query,
        "params": dict(asked.params),
        "headers": dict(asked.headers),
        "body": asked.body.decode("latin-1"),
    }


def named(name: str, asked: HttpRequest) -> str:
    """A name, whatever is asked."""
    return name


async def test_a_request_is_a_message_with_a_reply(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"GET /hello/{name}": probe.ref})
    with await connect(stage) as peer:
        await peer.send(request(path="/hello/you?x=1&y=&x=2", headers={"X-Color": "red"}))
        asked = await probe.expect(HttpRequest)
        assert (asked.method, asked.path, asked.query_string) == ("GET", "/hello/you", "x=1&y=&x=2")
        assert asked.query == {"x": "2", "y": ""}
        assert asked.params == {"name": "you"}
        assert asked.headers["x-color"] == "red"
        assert (asked.body, asked.scheme) == (b"", "http")
        assert asked.peer[:2] == peer.sock.getsockname()
        probe.reply("hello")
        reply = await peer.reply()
        assert (reply.status, reply.reason, reply.text) == (200, "OK", "hello")
        assert reply.headers["content-length"] == "5"
        assert reply.headers["date"].endswith("GMT")


async def test_a_connection_takes_one_request_after_the_other(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/{n}": system.spawn(Answer, lambda asked: asked.params["n"])})
    with await connect(stage) as peer:
        for number in range(50):
            assert (await peer.ask(path=f"/{number}")).text == str(number)
        assert await stage.alias.inspect("connections", "taken", "requests") == {
            "connections": 1,
            "taken": 1,
            "requests": 50,
        }
    await stage.until_shown("connections", 0)


async def test_no_response_waits_for_an_acknowledgement(system: ActorSystem) -> None:  # E10: what asyncio leaves undone
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: "yes")})
    with await connect(stage) as peer:
        await peer.ask()
        (exchange,) = stage.server._exchanges
        sock = exchange.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_requests_that_come_together_are_answered_in_their_order(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/{n}": system.spawn(Answer, lambda asked: asked.params["n"] + asked.body.decode())})
    with await connect(stage) as peer:
        await peer.send(b"".join(request("POST", f"/{n}", b"x" * (n % 7)) for n in range(100)))
        for number in range(100):
            assert (await peer.reply()).text == str(number) + "x" * (number % 7)
        assert (await peer.ask(path="/last")).text == "last"


async def test_requests_that_come_together_are_asked_one_at_a_time(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/{n}": probe.ref})
    with await connect(stage) as peer:
        await peer.send(b"".join(request(path=f"/{n}") for n in range(3)))
        await peer.taken()
        for number in range(3):
            asked = await probe.expect(HttpRequest)
            assert asked.path == f"/{number}"
            await probe.expect_no()
            probe.reply(str(number))
            assert (await peer.reply()).text == str(number)


async def test_a_client_that_sends_no_more_is_still_answered(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/{n}": probe.ref})
    with await connect(stage) as peer:
        await peer.send(request(path="/1") + request(path="/2"))
        peer.end()
        await peer.taken()
        for number in (1, 2):
            await probe.expect(HttpRequest)
            probe.reply(str(number))
            assert (await peer.reply()).text == str(number)
        assert await peer.rest() == b""


@pytest.mark.parametrize("path", ["/", "/nowhere"])
async def test_a_client_that_sends_no_more_is_closed_whenever_it_says_so(
    system: ActorSystem, path: str
) -> None:  # E10, R7
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: "yes")})
    for number in range(15):
        with await connect(stage) as peer:
            await peer.send(request("POST", path, b"hello"))
            await turns(number)
            peer.end()
            assert b"HTTP/1.1 " in await peer.rest()
    await stage.until_shown("connections", 0)


@pytest.mark.parametrize(
    ("target", "path", "query", "params"),
    [
        ("/p/caf%C3%A9", "/p/café", "", {"x": "café"}),
        ("/p/a%20b+c", "/p/a b+c", "", {"x": "a b+c"}),
        ("/p/x?a=b%20c+d", "/p/x", "a=b%20c+d", {"x": "x"}),
        ("/p/x?", "/p/x", "", {"x": "x"}),
        ("/p/x?a?b=/c", "/p/x", "a?b=/c", {"x": "x"}),
        ("http://example.org/p/x?y=1", "/p/x", "y=1", {"x": "x"}),  # as to a proxy
        ("http://example.org:81/p/x", "/p/x", "", {"x": "x"}),
        ("/p/%FF", "/p/\N{REPLACEMENT CHARACTER}", "", {"x": "\N{REPLACEMENT CHARACTER}"}),
        ("/p/100%", "/p/100%", "", {"x": "100%"}),
        ("/p/%zz", "/p/%zz", "", {"x": "%zz"}),
    ],
)
async def test_paths_are_unquoted_and_queries_are_not(
    system: ActorSystem, target: str, path: str, query: str, params: dict[str, str]
) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/p/{x}": probe.ref})
    with await connect(stage) as peer:
        await peer.send(request(path=target))
        asked = await probe.expect(HttpRequest)
        assert (asked.path, asked.query_string, dict(asked.params)) == (path, query, params)
        probe.reply(None)
        assert (await peer.reply()).status == 204


async def test_paths_and_methods_that_are_not_there(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Answer, described)
    stage = await serve(system, {"GET /a": actor, "PUT /a": actor, "/b": actor})
    with await connect(stage) as peer:
        reply = await peer.ask(path="/nowhere")
        assert reply.status == 404
        assert "/nowhere" in reply.text
        reply = await peer.ask("POST", "/a", b"12345")
        assert reply.status == 405
        assert {"GET", "PUT"} <= set(reply.headers["allow"].split(", ")) <= {"GET", "PUT", "HEAD"}
        assert (await peer.ask("POST", "/nowhere", b"12345")).status == 404
        assert (await peer.ask("BREW", "/b")).json()["method"] == "BREW"
        assert (await peer.ask("PUT", "/a", b"12345")).json()["body"] == "12345"


async def test_head_is_answered_as_get_without_the_body(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: f"{asked.method} it was")
    stage = await serve(system, {"GET /a": actor})
    with await connect(stage) as peer:
        got, head = await peer.ask(path="/a"), await peer.ask("HEAD", "/a")
        assert got.text == "GET it was"
        assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "11")
        assert head.headers["content-type"] == got.headers["content-type"]
        assert (await peer.ask("HEAD", "/nowhere")).status == 404
        assert (await peer.ask(path="/a")).text == "GET it was"  # nothing was left over


async def test_several_actors_take_turns_and_the_dead_are_passed_over(system: ActorSystem) -> None:  # E10: pools
    pool = [system.spawn(Answer, partial(named, name)) for name in "abc"]
    stage = await serve(system, {"/": pool, "/r": Route(pool[:2])})
    with await connect(stage) as peer:
        assert [(await peer.ask()).text for _ in range(6)] == list("abcabc")
        assert {(await peer.ask(path="/r")).text for _ in range(2)} == {"a", "b"}
        pool[1].stop()
        await pool[1].terminated()
        assert sorted([(await peer.ask()).text for _ in range(4)]) == list("aacc")
        for ref in pool:
            ref.stop()
            await ref.terminated()
        assert (await peer.ask()).status == 503


async def test_http_1_0_is_answered_and_closed(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: "old")})
    with await connect(stage) as peer:
        await peer.send(b"GET / HTTP/1.0\r\n\r\n")  # without a host, as it was then
        reply = await peer.reply()
        assert (reply.status, reply.text) == (200, "old")
        assert await peer.rest() == b""


async def test_a_client_that_wants_it_closed_gets_it_closed(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: "yes")})
    with await connect(stage) as peer:
        reply = await peer.ask(connection="close")
        assert (reply.text, reply.headers["connection"]) == ("yes", "close")
        assert await peer.rest() == b""


async def test_a_request_for_another_protocol_is_answered_in_this_one(system: ActorSystem) -> None:  # E10: curl --http2
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: asked.body or b"none")})
    with await connect(stage) as peer:
        for body in (None, b"some"):
            reply = await peer.ask("POST", "/", body, upgrade="h2c", connection="Upgrade, HTTP2-Settings")
            assert (reply.status, reply.body) == (200, body or b"none")
        assert (await peer.ask()).status == 200


BAD = [
    b"\r\n\r\n\r\n",
    b"nonsense\r\n\r\n",
    b"GET /\r\nhost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",  # no host
    b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    b"GET / x HTTP/1.1\r\nhost: a\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\nno colon\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\nsp ace: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\nx : b\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\nx: \x00\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: -5\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: \xb2\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1e3\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50) + b"\r\n\r\n",  # TLS
]


@pytest.mark.parametrize("sent", BAD)
async def test_what_is_no_http_is_refused_and_closed(system: ActorSystem, sent: bytes) -> None:  # E10, R7
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: "fine")})
    with await connect(stage) as peer:
        await peer.send(sent)
        reply = await peer.reply()
        assert reply.status in (400, 501, 505)
        assert reply.headers["connection"] == "close"
        assert reply.text
        assert await peer.cut_off() == b""
    assert (await fetch(stage)).text == "fine"


@pytest.mark.parametrize(
    ("method", "version", "status"), [("GET", "2.0", 505), ("HEAD", "9.9", 505), ("CONNECT", "1.1", 501)]
)
async def test_what_this_server_does_not_do_is_refused(
    system: ActorSystem, method: str, version: str, status: int
) -> None:  # E10
    stage = await serve(system, {"/*": system.spawn(Answer, lambda asked: "fine")})
    with await connect(stage) as peer:
        await peer.send(request(method, version=version))
        reply = await peer.reply(method)
        assert (reply.status, reply.headers["connection"]) == (status, "close")
        assert await peer.cut_off() == b""


async def test_what_is_no_http_after_a_good_request_is_refused_after_its_answer(system: ActorSystem) -> None:  # E10, R7
    probe = TestProbe(system)
    stage = await serve(system, {"/": probe.ref})
    with await connect(stage) as peer:
        await peer.send(request() + b"nonsense\r\n\r\n")
        await peer.taken()
        await probe.expect(HttpRequest)
        probe.reply("good")
        assert (await peer.reply()).text == "good"
        assert (await peer.reply()).status == 400
        assert await peer.cut_off() == b""


async def test_a_port_that_is_taken_is_known_at_once(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {})
    with pytest.raises(OSError, match="in use"):
        await serve(system, {}, port=stage.port)


async def test_a_server_can_be_given_its_socket_or_another_family(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: "here")
    sock = socket.create_server(("127.0.0.1", 0))
    stage = await serve(system, {"/": actor}, sock=sock, options=MetaOptions(name="web"))
    assert stage.server.address == sock.getsockname()
    assert stage.alias.name == "web"
    assert (await fetch(stage)).text == "here"
    six = await serve(system, {"/": actor}, host="::1")
    reader, writer = await asyncio.open_connection("::1", six.port)
    writer.write(request(headers={"connection": "close"}))
    assert (await reader.read()).endswith(b"here")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    "settings",
    [
        {"port": -1},
        {"port": 70_000},
        {"backlog": 0},
        {"tls": "yes"},
        {"limits": {"max_body": 5}},
        {"routes": {"nowhere": []}},
        {"routes": {"/": "a string"}},
        {"routes": {"/": []}},
        {"routes": {"/": 5}},
        {"routes": {"/": ["a", "b"]}},
    ],
)
def test_settings_that_make_no_sense_are_said_at_once(settings: dict[str, Any]) -> None:  # E10
    with pytest.raises(ConfigError):
        WebServer(**{"routes": {}, **settings})


@pytest.mark.parametrize("name", ["max_connections", "max_headers", "max_body"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "1", True])
def test_limits_that_are_no_counts_are_said_at_once(name: str, value: Any) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        WebLimits(**{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize("name", ["header_timeout", "body_timeout", "request_timeout", "write_timeout", "keep_alive"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), "1"])
def test_limits_that_are_no_times_are_said_at_once(name: str, value: Any) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        WebLimits(**{name: value})
    assert caught.value.field == name
