"""What actors answer, and what becomes of those that do not (E10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, MailboxConfig, Supervision
from greenroom.errors import HttpError
from greenroom.meta import HttpRequest, HttpResponse
from greenroom.meta.web.messages import response_of
from greenroom.testing import TestProbe, capture_logs
from tests.meta.web.browser import connect, fetch, request
from tests.meta.web.stage import Answer, AsyncAnswer, serve

TEXT, JSON, HTML = "text/plain; charset=utf-8", "application/json", "text/html; charset=utf-8"
BYTES = "application/octet-stream"

ANSWERS: list[tuple[str, Any, int, bytes, str | None]] = [
    ("a text", "grüße", 200, "grüße".encode(), TEXT),
    ("no text", "", 200, b"", TEXT),
    ("bytes", b"\x00\xff", 200, b"\x00\xff", BYTES),
    ("a bytearray", bytearray(b"ab"), 200, b"ab", BYTES),
    ("a view", memoryview(b"abc")[1:], 200, b"bc", BYTES),
    ("a dict", {"a": [1, None]}, 200, b'{"a": [1, null]}', JSON),
    ("a list", [1, "2"], 200, b'[1, "2"]', JSON),
    ("no dict", {}, 200, b"{}", JSON),
    ("nothing", None, 204, b"", None),
    ("a response", HttpResponse(b"made", 201, {"x-y": "z"}), 201, b"made", None),
    ("a response with a text", HttpResponse("größer"), 200, "größer".encode(), None),
    ("a response with a view", HttpResponse(memoryview(b"view")), 200, b"view", None),
    ("an empty response", HttpResponse(), 200, b"", None),
    ("a response of None", HttpResponse(None), 200, b"", None),
    ("json", HttpResponse.json({"b": 2}, 202), 202, b'{"b": 2}', JSON),
    ("html", HttpResponse.html("<p>ü", 404), 404, "<p>ü".encode(), HTML),
    ("not changed", HttpResponse(b"ignored", 304), 304, b"", None),
    ("no content", HttpResponse(b"ignored", 204), 204, b"", None),
    ("an odd status", HttpResponse(b"odd", 299), 299, b"odd", None),
    ("a teapot", HttpResponse(b"short and stout", 418), 418, b"short and stout", None),
]


@pytest.mark.parametrize(
    ("answer", "status", "body", "kind"), [row[1:] for row in ANSWERS], ids=[r[0] for r in ANSWERS]
)
async def test_what_an_actor_answers_is_the_response(
    system: ActorSystem, answer: Any, status: int, body: bytes, kind: str | None
) -> None:  # E10
    async def answering(asked: HttpRequest) -> Any:
        await asyncio.sleep(0)
        return answer

    sync, later = system.spawn(Answer, lambda asked: answer), system.spawn(AsyncAnswer, answering)
    stage = await serve(system, {"/": sync, "/async": later})
    with await connect(stage) as peer:
        for path in ("/", "/async", "/"):
            reply = await peer.ask(path=path)
            assert (reply.status, reply.body, reply.headers.get("content-type")) == (status, body, kind)
            head = await peer.ask("HEAD", path)
            assert (head.status, head.headers.get("content-type")) == (status, kind)
            if status not in (204, 304):
                assert head.headers["content-length"] == reply.headers["content-length"] == str(len(body))


async def test_headers_are_sent_as_they_are_given(system: ActorSystem) -> None:  # E10
    cookies = HttpResponse(b"", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Ümlaut"[:2] + "u", "ü")])
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: cookies)})
    reply = await fetch(stage)
    assert [value for name, value in reply.all_headers if name == "set-cookie"] == ["a=1", "b=2"]
    assert reply.headers["x-u"] == "ü"


async def test_an_actor_can_have_the_connection_closed_and_set_the_date(system: ActorSystem) -> None:  # E10
    answer = HttpResponse(b"bye", headers={"Connection": "close", "Date": "then"})
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: answer)})
    with await connect(stage) as peer:
        reply = await peer.ask()
        assert (reply.body, reply.headers["date"]) == (b"bye", "then")
        assert await peer.rest() == b""


@pytest.mark.parametrize("answer", [5, 1.5, True, object(), {1, 2}, (1, 2), HttpRequest, {"a": object()}, [b"bytes"]])
async def test_what_is_no_response_is_a_500(system: ActorSystem, answer: Any) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: answer)
    stage = await serve(system, {"/": actor, "/ok": system.spawn(Answer, lambda asked: "ok")})
    with await connect(stage) as peer:
        with capture_logs() as logs:
            assert (await peer.ask()).status == 500
        assert [one for one in logs.records if one.levelname == "ERROR"]
        assert (await peer.ask(path="/ok")).text == "ok"
    assert actor.is_alive


@pytest.mark.parametrize(
    "answer",
    [
        HttpResponse(b"x", headers={"x": "a\r\nset-cookie: stolen"}),
        HttpResponse(b"x", headers={"x": "日本"}),
        HttpResponse(b"x", headers={"sp ace": "x"}),
        HttpResponse(b"x", 42),
        HttpResponse(b"x", 1000),
        HttpResponse(b"x", 101),
        HttpResponse(b"x", "good"),  # type: ignore[arg-type]
        HttpResponse(5),
        HttpResponse(object()),
        HttpResponse(b"x", headers=5),  # type: ignore[arg-type]
        HttpResponse(b"x", headers={"content-length": "many"}),
        HttpResponse(b"1234567890", headers={"content-length": "3"}),
        HttpResponse(b"1234567890", headers={"Content-Length": "30"}),
        HttpResponse({"a": "dict"}),
    ],
    ids=[
        *("newline", "unicode", "space", "42", "1000", "101", "good", "5", "object", "no headers", "many"),
        *("too short", "too long", "a dict"),
    ],
)
async def test_a_response_that_cannot_be_written_is_a_500_and_says_so(
    system: ActorSystem, answer: HttpResponse
) -> None:  # E10
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: answer)})
    with await connect(stage) as peer:
        with capture_logs() as logs:
            await peer.send(request())
            said = await peer.head()
        assert said.status == 500, said
        assert "set-cookie" not in said.headers
        assert any("cannot be written" in one.getMessage() for one in logs.records)


@pytest.mark.parametrize("length", ["3", "30"])
async def test_pieces_of_another_length_than_was_said_break_off_and_harm_nobody(
    system: ActorSystem, length: str
) -> None:  # E10
    answer = HttpResponse([b"12345", b"67890"], headers={"content-length": length})
    routes = {"/": system.spawn(Answer, lambda asked: answer), "/ok": system.spawn(Answer, lambda asked: "ok")}
    stage = await serve(system, routes)
    with await connect(stage) as peer:
        with capture_logs() as logs:
            await peer.send(request())
            said = await peer.cut_off()
        assert len(said.partition(b"\r\n\r\n")[2]) <= int(length)
        assert any("broke off" in one.getMessage() for one in logs.records)
    assert (await fetch(stage, path="/ok")).text == "ok"


async def test_an_http_error_among_the_answers_is_a_response(system: ActorSystem) -> None:  # E10
    def answer(asked: HttpRequest) -> Any:
        raise HttpError(int(asked.params["status"]), asked.query.get("text", ""))

    actor = system.spawn(Answer, answer)
    stage = await serve(system, {"/{status}": actor})
    with await connect(stage) as peer:
        reply = await peer.ask(path="/404?text=no+such+book")
        assert (reply.status, reply.text.strip(), reply.headers["content-type"]) == (404, "no such book", TEXT)
        assert (await peer.ask(path="/403")).text.strip() == "Forbidden"
        assert (await peer.ask(path="/599?text=odd")).status == 599
        assert (await peer.ask(path="/503?text=busy")).status == 503
    assert actor.is_alive


async def test_an_http_error_that_an_async_actor_raises_is_a_response(system: ActorSystem) -> None:  # E10
    async def answer(asked: HttpRequest) -> Any:
        await asyncio.sleep(0)
        raise HttpError(409, "taken")

    actor = system.spawn(AsyncAnswer, answer)
    stage = await serve(system, {"/": actor})
    assert (await fetch(stage)).status == 409
    assert actor.is_alive


class Failing(Actor[HttpRequest, Any]):
    """Fails, and has nothing among its answers."""

    def receive(self, request: HttpRequest) -> Any:
        if request.path == "/error":
            raise HttpError(404, "secret")
        if request.path == "/fine":
            return "fine"
        raise ValueError("secret")


@pytest.mark.parametrize("path", ["/", "/error"])
async def test_an_actor_that_fails_is_a_500_that_gives_nothing_away(system: ActorSystem, path: str) -> None:  # E10
    actor = system.spawn(Failing)
    stage = await serve(system, {"/*": actor})
    with await connect(stage) as peer:
        reply = await peer.ask(path=path)
        # An HttpError may pass as the answer it is; anything else is nobody's business.
        assert reply.status == 500 or (path == "/error" and reply.status == 404)
        assert reply.status == 404 or "secret" not in reply.text
        await actor.terminated()
        assert (await peer.ask(path="/fine")).status == 503  # it is stopped, as its supervision has it


async def test_an_actor_that_is_started_again_answers_again(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Failing, supervision=Supervision())
    stage = await serve(system, {"/*": actor})
    with await connect(stage) as peer:
        assert (await peer.ask()).status == 500
        assert (await peer.ask(path="/fine")).text == "fine"


async def test_an_actor_that_has_ended_is_a_503(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Failing)
    stage = await serve(system, {"/": actor})
    actor.stop()
    await actor.terminated()
    with await connect(stage) as peer:
        for _ in range(2):
            reply = await peer.ask()
            assert reply.status == 503
            assert int(reply.headers["retry-after"]) > 0


async def test_an_actor_that_ends_while_it_is_asked_is_a_503(system: ActorSystem) -> None:  # E10
    entered = asyncio.Event()

    async def never(asked: HttpRequest) -> None:
        entered.set()
        await asyncio.Event().wait()

    actor = system.spawn(AsyncAnswer, never)
    stage = await serve(system, {"/": actor})
    with await connect(stage) as peer:
        await peer.send(request())
        await entered.wait()
        actor.kill()
        assert (await peer.reply()).status == 503


async def test_an_actor_with_a_full_mailbox_is_a_503(system: ActorSystem) -> None:  # E10
    entered, gate = asyncio.Event(), asyncio.Event()

    async def wait(asked: HttpRequest) -> str:
        entered.set()
        await gate.wait()
        return "done"

    actor = system.spawn(AsyncAnswer, wait, mailbox=MailboxConfig(capacity=1))
    stage = await serve(system, {"/": actor})
    first, second, third = [await connect(stage) for _ in range(3)]
    await first.send(request())
    await entered.wait()
    await second.send(request())
    await stage.until_shown("requests", 2)
    await second.taken()
    await system.spawn(Failing).ask(HttpRequest("GET", "/fine"))  # by now it is in the mailbox
    reply = await third.ask()
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    gate.set()
    for peer in (first, second):
        assert (await peer.reply()).text == "done"
    assert (await third.ask()).text == "done"
    for peer in (first, second, third):
        peer.sock.close()


async def test_an_actor_can_answer_later(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)
    stage = await serve(system, {"/{n}": probe.ref})
    first, second = await connect(stage), await connect(stage)
    with first, second:
        await first.send(request(path="/1"))
        assert (await probe.expect(HttpRequest)).path == "/1"
        await second.send(request(path="/2"))
        assert (await probe.expect(HttpRequest)).path == "/2"
        probe.reply("two")
        assert (await second.reply()).text == "two"  # one connection does not wait for the other
        first.reset()


def test_what_an_actor_may_answer_is_said_in_the_error() -> None:  # E10
    with pytest.raises(Exception, match="answer with an HttpResponse, a text, bytes, a dict, a list or None"):
        response_of(5)
