"""Bodies of requests and responses, whole and in pieces (E10)."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from greenroom import ActorSystem, ManualClock
from greenroom.errors import HttpError
from greenroom.meta import HttpRequest, Route, WebLimits
from greenroom.testing import TestProbe
from tests.meta.web.browser import connect, fetch, request
from tests.meta.web.stage import Answer, AsyncAnswer, serve

CHUNKED = {"transfer-encoding": "chunked"}


def chunks(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A body in pieces."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + end


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
