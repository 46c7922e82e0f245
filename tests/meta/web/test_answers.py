"""What actors answer, whole and piece by piece, the bodies of both sides, and actors that do not answer (E10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

from greenroom import Actor, ActorSystem, MailboxConfig, ManualClock, Supervision
from greenroom.errors import HttpError
from greenroom.meta import HttpRequest, HttpResponse, Route, WebLimits
from greenroom.meta.web.messages import response_of
from greenroom.testing import TestProbe, capture_logs
from tests.gates import Event, turns
from tests.meta.web.client import connect, fetch, request
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


CHUNKED = {"transfer-encoding": "chunked"}


def chunks(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A body in pieces."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


async def slowly(*pieces: Any) -> AsyncIterator[Any]:
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


def plainly(*pieces: Any) -> Iterator[Any]:
    yield from pieces


@pytest.mark.parametrize("kind", [slowly, plainly, lambda *pieces: list(pieces)])
async def test_a_response_is_sent_piece_by_piece(system: ActorSystem, kind: Any) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: HttpResponse(kind(b"one", "zwö", b"", bytearray(b"three"))))
    stage = await serve(system, {"/": actor})
    with await connect(stage) as peer:
        for _ in range(2):
            reply = await peer.ask()
            assert reply.headers["transfer-encoding"] == "chunked"
            assert reply.pieces == [b"one", "zwö".encode(), b"three"]
        head = await peer.ask("HEAD")
        assert (head.status, head.body) == (200, b"")
        assert (await peer.ask()).body == "onezwöthree".encode()


async def test_pieces_go_out_as_they_are_made(system: ActorSystem) -> None:  # E10
    pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def live() -> AsyncIterator[bytes]:
        while (piece := await pieces.get()) is not None:
            yield piece

    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(live()))})
    with await connect(stage) as peer:
        await peer.send(request())
        assert (await peer.head()).status == 200
        for piece in (b"first", b"second"):
            pieces.put_nowait(piece)
            assert await peer.chunk() == piece
        pieces.put_nowait(None)
        assert await peer.chunk() == b""
        pieces.put_nowait(None)
        assert (await peer.ask()).body == b""


async def test_pieces_with_a_known_length_are_not_chunked(system: ActorSystem) -> None:  # E10
    def answer(asked: HttpRequest) -> HttpResponse:
        return HttpResponse(slowly(b"12", b"345"), headers={"Content-Length": "5"})

    stage = await serve(system, {"/": system.spawn(Answer, answer)})
    with await connect(stage) as peer:
        reply = await peer.ask()
        assert "transfer-encoding" not in reply.headers
        assert reply.body == b"12345"
        assert (await peer.ask()).body == b"12345"


async def test_an_old_client_gets_pieces_until_the_end_of_the_connection(system: ActorSystem) -> None:  # E10: HTTP/1.0
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(slowly(b"a", b"b")))})
    with await connect(stage) as peer:
        await peer.send(request(version="1.0"))
        reply = await peer.reply()
        assert "transfer-encoding" not in reply.headers
        assert reply.body == b"ab"


async def test_a_response_that_breaks_off_is_not_ended_as_if_it_were_whole(system: ActorSystem) -> None:  # E10
    async def broken() -> AsyncIterator[bytes]:
        yield b"part"
        raise ValueError("no more")

    routes = {
        "/": system.spawn(Answer, lambda asked: HttpResponse(broken())),
        "/ok": system.spawn(Answer, lambda asked: "fine"),
    }
    stage = await serve(system, routes)
    with await connect(stage) as peer:
        await peer.send(request())
        assert not (await peer.cut_off()).endswith(b"0\r\n\r\n")
    assert (await fetch(stage, path="/ok")).text == "fine"


@pytest.mark.parametrize("bad", [5, None, ["x"]])
async def test_what_is_no_piece_breaks_a_response_off(system: ActorSystem, bad: Any) -> None:  # E10
    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(plainly(b"part", bad)))})
    with await connect(stage) as peer:
        with capture_logs() as logs:
            await peer.send(request())
            assert (await peer.cut_off()).endswith(b"4\r\npart\r\n")
        assert any("broke off" in one.getMessage() for one in logs.records)


async def test_what_makes_the_pieces_is_closed_when_the_client_goes_away(system: ActorSystem) -> None:  # E10
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 10_000
        finally:
            closed.set()

    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(endless()))})
    with await connect(stage) as peer:
        await peer.send(request())
        await peer.chunk() if (await peer.head()).status == 200 else None
        peer.reset()
    await closed.wait()
    await stage.until_shown("connections", 0)


async def test_a_client_that_does_not_read_holds_the_pieces_up(system: ActorSystem) -> None:  # E10
    made = 0

    async def many() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            yield bytes(100_000)

    stage = await serve(system, {"/": system.spawn(Answer, lambda asked: HttpResponse(many()))})
    with await connect(stage, receive_buffer=4096) as peer:
        await peer.send(request())
        await peer.head()
        before = -1
        while made != before:  # it stands still when the buffers are full
            before = made
            await turns(100)
        assert made < 500
        peer.reset()


async def test_both_ways_at_once(system: ActorSystem) -> None:  # E10
    async def shout(body: Any) -> AsyncIterator[bytes]:
        async for piece in body:
            yield bytes(piece).upper()

    actor = system.spawn(Answer, lambda asked: HttpResponse(shout(asked.body)))
    stage = await serve(system, {"POST /": Route(actor, stream=True)})
    with await connect(stage) as peer:
        await peer.send(request("POST", headers=CHUNKED))
        assert (await peer.head()).status == 200
        for word in (b"one", b"two", b"three"):
            await peer.send(chunks(word, end=b""))
            assert await peer.chunk() == word.upper()
        await peer.send(chunks())
        assert await peer.chunk() == b""
        await peer.send(request("POST", "/", b"again"))
        assert (await peer.reply()).body == b"AGAIN"


async def test_a_response_without_further_pieces_ends_when_the_client_has_gone_away(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10, R7
    ended = Event()

    async def silent() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await Event().wait()
        finally:
            ended.set()

    actor = system.spawn(Answer, lambda asked: HttpResponse(silent()))
    stage = await serve(system, {"/": actor}, limits=WebLimits(write_timeout=50.0))
    with await connect(stage) as peer:
        await peer.send(request())
        await peer.head()
        assert await peer.chunk() == b"first"
        await clock.advance(200.0)  # who is there may wait for as long as it likes
        assert await stage.shown("connections") == 1
    while not ended.is_set():  # when the end of the stream is seen, nothing tells
        await clock.advance(50.0)
        await turns()
    await stage.until_shown("connections", 0)


async def test_a_client_that_has_closed_its_side_gets_all_pieces_however_long_they_take(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def live() -> AsyncIterator[bytes]:
        while (piece := await pieces.get()) is not None:
            yield piece

    actor = system.spawn(Answer, lambda asked: HttpResponse(live()))
    stage = await serve(system, {"/": actor}, limits=WebLimits(write_timeout=50.0))
    with await connect(stage) as peer:
        await peer.send(request())
        peer.end()
        await peer.head()
        for _ in range(5):
            await clock.advance(49.0)
            pieces.put_nowait(b"piece")
            assert await peer.chunk() == b"piece"
        pieces.put_nowait(None)
        assert await peer.chunk() == b""
        assert await peer.rest() == b""


async def length(asked: HttpRequest) -> str:
    """How many bytes a streamed body has."""
    return str(sum([len(piece) async for piece in asked.body]))


async def joined(asked: HttpRequest) -> bytes:
    return b"".join([piece async for piece in asked.body])


@pytest.mark.parametrize("size", [0, 1, 65_535, 300_000, 3_000_000])
async def test_a_body_comes_whole(system: ActorSystem, size: int) -> None:  # E10
    stage = await serve(system, {"POST /": system.spawn(Answer, lambda asked: asked.body)})
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    with await connect(stage) as peer:
        for _ in range(2):
            sending = asyncio.ensure_future(peer.send(request("POST", "/", body)))
            assert (await peer.reply()).body == body
            await sending


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (chunks(b"hello ", b"world"), b"hello world"),
        (chunks(), b""),
        (b"5;name=value\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\n0\r\nx-trailer: yes\r\n\r\n", b"hello"),
        (b"A\r\n0123456789\r\n00000a\r\n0123456789\r\n0\r\n\r\n", b"01234567890123456789"),
        (chunks(*[b"x"] * 1000), b"x" * 1000),
    ],
)
async def test_a_body_in_chunks_comes_whole(system: ActorSystem, sent: bytes, body: bytes) -> None:  # E10
    stage = await serve(system, {"POST /": system.spawn(Answer, lambda asked: asked.body)})
    with await connect(stage) as peer:
        await peer.send(request("POST", headers=CHUNKED) + sent)
        assert (await peer.reply()).body == body
        await peer.send(request("POST", headers=CHUNKED))
        for byte in sent:
            await peer.send(bytes([byte]))
        assert (await peer.reply()).body == body


@pytest.mark.parametrize("sent", [b"xyz\r\n", b"-1\r\n\r\n", b"5\r\nhelloX\r\n", b"\r\n\r\n", b"5 5\r\nhello\r\n"])
async def test_a_body_in_bad_chunks_is_a_bad_request(system: ActorSystem, sent: bytes) -> None:  # E10, R7
    probe = TestProbe(system)
    stage = await serve(system, {"POST /": probe.ref, "GET /": system.spawn(Answer, lambda asked: "fine")})
    with await connect(stage) as peer:
        await peer.send(request("POST", headers=CHUNKED) + sent)
        assert (await peer.reply()).status == 400
        assert await peer.cut_off() == b""
    assert (await fetch(stage)).text == "fine"
    await probe.expect_no()


async def test_a_body_with_a_length_and_in_chunks_hides_no_request(system: ActorSystem) -> None:  # E10, R7: smuggling
    probe = TestProbe(system)
    stage = await serve(system, {"POST /": system.spawn(Answer, lambda asked: asked.body), "/hidden": probe.ref})
    with await connect(stage) as peer:
        hidden = request(path="/hidden")
        sent = request("POST", headers={**CHUNKED, "content-length": "3"}) + chunks(hidden)
        await peer.send(sent)
        reply = await peer.reply()
        assert reply.status == 400 or reply.body == hidden
    await probe.expect_no()


async def test_a_streamed_request_is_asked_before_its_body_has_come(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)

    async def read(asked: HttpRequest) -> str:
        probe.ref.tell(asked.headers["content-length"])
        async for piece in asked.body:
            probe.ref.tell(piece)
        return "done"

    stage = await serve(system, {"POST /": Route(system.spawn(AsyncAnswer, read), stream=True)})
    with await connect(stage) as peer:
        await peer.send(request("POST", headers={"content-length": "6"}))
        await probe.expect("6")
        for piece in (b"one", b"two"):
            await peer.send(piece)
            await probe.expect(piece)
        assert (await peer.reply()).text == "done"
        assert (await peer.ask("POST", "/", b"")).text == "done"


async def test_a_streamed_body_that_is_not_read_holds_the_client_up(system: ActorSystem) -> None:  # E10
    entered, gate = asyncio.Event(), asyncio.Event()

    async def read(asked: HttpRequest) -> str:
        entered.set()
        await gate.wait()
        return await length(asked)

    limits = WebLimits(max_body=1 << 27)
    stage = await serve(system, {"POST /": Route(system.spawn(AsyncAnswer, read), stream=True)}, limits=limits)
    size = 48 << 20
    with await connect(stage) as peer:
        await peer.send(request("POST", headers={"content-length": str(size)}))
        await entered.wait()
        sending = asyncio.ensure_future(peer.send(bytes(size)))
        await peer.stuck()
        assert not sending.done()
        gate.set()
        assert (await peer.reply()).text == str(size)
        await sending


async def test_the_time_for_a_body_does_not_run_while_it_is_the_actor_that_waits(
    system: ActorSystem, clock: ManualClock
) -> None:  # E10
    entered, gate = asyncio.Event(), asyncio.Event()

    async def read(asked: HttpRequest) -> str:
        entered.set()
        await gate.wait()
        return await length(asked)

    limits = WebLimits(body_timeout=5.0, request_timeout=None)
    stage = await serve(system, {"POST /": Route(system.spawn(AsyncAnswer, read), stream=True)}, limits=limits)
    size = 8 << 20
    with await connect(stage) as peer:
        await peer.send(request("POST", headers={"content-length": str(size)}))
        await entered.wait()
        sending = asyncio.ensure_future(peer.send(bytes(size)))
        await peer.stuck()
        assert not sending.done()
        await clock.advance(60.0)
        gate.set()
        reply = await peer.reply()
        await asyncio.wait([sending])
        assert (reply.status, reply.text) == (200, str(size))
        assert sending.exception() is None


async def test_an_actor_may_answer_without_reading_the_body(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: "not read")
    stage = await serve(system, {"POST /": Route(actor, stream=True)})
    with await connect(stage) as peer:
        for _ in range(3):
            assert (await peer.ask("POST", "/", b"x" * 1000)).text == "not read"
        await peer.send(request("POST", headers={"content-length": "4"}))
        assert (await peer.reply()).text == "not read"
        await peer.send(b"rest" + request("POST", "/", b""))  # it was on its way
        assert (await peer.reply()).text == "not read"


async def test_a_streamed_body_that_breaks_off_is_an_error_for_its_reader(system: ActorSystem) -> None:  # E10
    probe = TestProbe(system)

    async def read(asked: HttpRequest) -> None:
        try:
            await length(asked)
        except Exception as exc:
            probe.ref.tell(exc)
            raise

    actor = system.spawn(AsyncAnswer, read)
    stage = await serve(system, {"POST /": Route(actor, stream=True)})
    with await connect(stage) as peer:
        await peer.send(request("POST", headers={"content-length": "10"}) + b"half")
        await peer.taken()
    error = await probe.receive()
    assert isinstance(error, ConnectionError), repr(error)


class Patient(AsyncAnswer):
    """One that does not mind when a client goes away."""

    answers: ClassVar[tuple[type[Exception], ...]] = (HttpError, ConnectionError)


async def test_a_client_that_goes_away_need_not_harm_who_reads_its_body(system: ActorSystem) -> None:  # E10
    actor = system.spawn(Patient, length)
    stage = await serve(system, {"POST /": Route(actor, stream=True)})
    with await connect(stage) as peer:
        await peer.send(request("POST", headers={"content-length": "10"}) + b"half")
        await peer.taken()
    await stage.until_shown("connections", 0)
    assert (await fetch(stage, "POST", "/", b"12345")).text == "5"


@pytest.mark.parametrize("how", ["bad chunk", "too large"])
async def test_a_streamed_body_that_is_wrong_is_an_http_error_for_its_reader(
    system: ActorSystem, how: str
) -> None:  # E10
    actor = system.spawn(AsyncAnswer, length)
    route = Route(actor, stream=True, max_body=100)
    stage = await serve(system, {"POST /": route})
    with await connect(stage) as peer:
        bad = b"nonsense\r\n" if how == "bad chunk" else chunks(b"x" * 60, b"x" * 60)
        await peer.send(request("POST", headers=CHUNKED) + chunks(b"good", end=b"") + bad)
        assert (await peer.reply()).status == (400 if how == "bad chunk" else 413)
    assert actor.is_alive
    assert (await fetch(stage, "POST", "/", b"12345")).text == "5"


# Expect: 100-continue
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_waits_is_told_to_go_on(system: ActorSystem, stream: bool) -> None:  # E10
    read = joined if stream else None
    actor = system.spawn(AsyncAnswer, read) if read else system.spawn(Answer, lambda asked: asked.body)
    stage = await serve(system, {"POST /": Route(actor, stream=stream)})
    with await connect(stage) as peer:
        for _ in range(2):
            await peer.send(request("POST", headers={"content-length": "5", "expect": "100-continue"}))
            assert (await peer.reply()).status == 100
            await peer.send(b"hello")
            assert (await peer.reply()).text == "hello"


@pytest.mark.parametrize(("path", "size", "status"), [("/nowhere", 5, 404), ("/get", 5, 405), ("/", 5000, 413)])
async def test_a_client_that_waits_in_vain_is_told_so_at_once(
    system: ActorSystem, path: str, size: int, status: int
) -> None:  # E10
    actor = system.spawn(Answer, lambda asked: asked.body)
    stage = await serve(system, {"POST /": actor, "GET /get": actor}, limits=WebLimits(max_body=100))
    with await connect(stage) as peer:
        await peer.send(request("POST", path, headers={"content-length": str(size), "expect": "100-continue"}))
        assert (await peer.reply()).status == status  # and not 100


async def test_json_is_read_or_refused(system: ActorSystem) -> None:  # E10
    stage = await serve(system, {"POST /": system.spawn(Answer, lambda asked: {"got": asked.json()})})
    assert (await fetch(stage, "POST", "/", b'{"a": [1, "\xc3\xa4"]}')).json() == {"got": {"a": [1, "ä"]}}
    for bad in (b"{", b"", b"\xff\xfe"):
        assert (await fetch(stage, "POST", "/", bad)).status == 400
    with pytest.raises(HttpError):
        HttpRequest("POST", "/", body=b"nonsense").json()
