"""WebSocket, frame by frame, in the spirit of the Autobahn test suite (E10, R7): its sections are named below."""

from __future__ import annotations

import struct
import zlib
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from wsproto.frame_protocol import Opcode, RsvBits

from greenroom import ActorSystem
from greenroom.meta import Received, WebSocket, WebSocketConnected, Write
from greenroom.meta.web.websocket import BoundedDeflate
from tests.meta.owners import Echo
from tests.meta.web.client import connect
from tests.meta.web.frames import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    Frame,
    WebSocketPeer,
    close_frame,
    deflated,
    frame,
    handshake,
    open_socket,
    raw_server,
)
from tests.meta.web.stage import begin, serve

MOST = 200_000


class Case(NamedTuple):
    """What is sent, what must come then, what is sent then, and the codes that the socket may be closed with."""

    name: str
    sent: list[bytes]
    came: list[Frame]
    then: list[bytes]
    codes: tuple[int | None, ...] = (1000,)


def echo(*data: str | bytes) -> list[Frame]:
    return [Frame(TEXT, one.encode()) if isinstance(one, str) else Frame(BINARY, one) for one in data]


def fine(name: str, sent: list[bytes], *came: Frame) -> Case:
    """A case after which the socket is open: it is closed then."""
    return Case(name, sent, list(came), [close_frame()])


def broken(name: str, bad: list[bytes], *came: Frame, after: bytes = b"", code: int = 1002) -> Case:
    """A case in which the server closes the socket because of what is `bad`."""
    return Case(name, [after], list(came), bad, (code,))


def farewell(name: str, sent: bytes, *codes: int | None) -> Case:
    """A case in which the socket is closed."""
    return Case(name, [], [], [sent], codes or (1000,))


SIZES = [0, 1, 125, 126, 127, 128, 65_535, 65_536, 100_000]
FRAMING = [
    *(fine(f"1.1 text of {size}", [frame(TEXT, "*" * size)], *echo("*" * size)) for size in SIZES),
    *(fine(f"1.2 bytes of {size}", [frame(BINARY, b"\xfe" * size)], *echo(b"\xfe" * size)) for size in SIZES),
    fine("1.3 many at once", [b"".join(frame(TEXT, str(n)) for n in range(100))], *echo(*map(str, range(100)))),
]
PINGS = [
    fine("2.1 a ping without anything", [frame(PING)], Frame(PONG)),
    fine("2.2 a ping with a text", [frame(PING, "hello")], Frame(PONG, b"hello")),
    fine("2.3 a ping with bytes", [frame(PING, b"\x00\xff\xfe")], Frame(PONG, b"\x00\xff\xfe")),
    fine("2.4 a ping as large as may be", [frame(PING, b"x" * 125)], Frame(PONG, b"x" * 125)),
    broken("2.5 a ping that is too large", [frame(PING, b"x" * 126)]),
    fine("2.7 a pong that nobody asked for", [frame(PONG)]),
    fine("2.8 a pong with something", [frame(PONG, "unasked")]),
    fine("2.9 a pong, then a ping", [frame(PONG, "a"), frame(PING, "b")], Frame(PONG, b"b")),
    fine(
        "2.10 ten pings", [frame(PING, str(n)) for n in range(10)], *(Frame(PONG, str(n).encode()) for n in range(10))
    ),
]
RESERVED = [
    *(broken(f"3.{rsv} reserved bits {rsv}", [frame(TEXT, "x", rsv=rsv)]) for rsv in range(1, 8)),
    broken("3.8 after a good one", [frame(TEXT, "x", rsv=1)], *echo("good"), after=frame(TEXT, "good")),
    broken("3.9 of a ping", [frame(PING, "x", rsv=2)]),
    broken("3.10 of a farewell", [frame(CLOSE, struct.pack("!H", 1000), rsv=1)]),
]
OPCODES = [
    *(broken(f"4.1 opcode {code}", [frame(code, "x")]) for code in (3, 4, 5, 6, 7)),
    *(broken(f"4.2 opcode {code}", [frame(code, "x")]) for code in (11, 12, 13, 14, 15)),
    broken("4.3 after a good one", [frame(5)], *echo("good"), after=frame(TEXT, "good")),
]
FRAGMENTS = [
    broken("5.1 a ping in two", [frame(PING, "a", fin=False), frame(CONT, "b")]),
    broken("5.2 a pong in two", [frame(PONG, "a", fin=False), frame(CONT, "b")]),
    fine("5.3 a text in two", [frame(TEXT, "a", fin=False), frame(CONT, "b")], *echo("ab")),
    fine("5.4 at once", [frame(TEXT, "a", fin=False) + frame(CONT, "b")], *echo("ab")),
    fine(
        "5.6 a ping between",
        [frame(TEXT, "a", fin=False), frame(PING, "p"), frame(CONT, "b")],
        Frame(PONG, b"p"),
        *echo("ab"),
    ),
    broken("5.9 a rest without a beginning", [frame(CONT, "x")]),
    broken("5.10 and not the last one", [frame(CONT, "x", fin=False)]),
    broken("5.12 after a whole one", [frame(CONT, "b")], *echo("a"), after=frame(TEXT, "a")),
    broken(
        "5.15 after one in two", [frame(CONT, "c")], *echo("ab"), after=frame(TEXT, "a", fin=False) + frame(CONT, "b")
    ),
    broken("5.18 a beginning after a beginning", [frame(TEXT, "a", fin=False), frame(TEXT, "b")]),
    broken("5.18 of another kind", [frame(TEXT, "a", fin=False), frame(BINARY, b"b")]),
    fine(
        "5.19 in five, with pings",
        [
            frame(TEXT, "1", fin=False),
            frame(CONT, "2", fin=False),
            frame(PING, "p"),
            *(frame(CONT, part, fin=False) for part in ("3", "4")),
            frame(PING, "q"),
            frame(CONT, "5"),
        ],
        Frame(PONG, b"p"),
        Frame(PONG, b"q"),
        *echo("12345"),
    ),
    fine("5.20 empty parts", [frame(BINARY, b"", fin=False), frame(CONT, b"", fin=False), frame(CONT)], *echo(b"")),
    fine(
        "5.21 a thousand parts",
        [frame(BINARY, b"x", fin=False) + frame(CONT, b"x", fin=False) * 998 + frame(CONT, b"x")],
        *echo(b"x" * 1000),
    ),
]
GOOD_TEXT = "κόσμε \N{GRINNING FACE} \U0010ffff \ufeff \x00"
RAW = GOOD_TEXT.encode()
BAD_TEXTS = {
    "6.3 a surrogate": b"\xce\xba\xed\xa0\x80edited",
    "6.4 too large": b"\xf4\x90\x80\x80",
    "6.6 a part of a sign": b"\xce\xba\xe1\xbd",
    "6.8 a byte alone": b"\xff",
    "6.10 a rest alone": b"\x80",
    "6.12 five bytes": b"\xf8\x88\x80\x80\x80",
    "6.14 longer than it must be": b"\xc0\xaf",
}
UTF8 = [
    fine("6.1 nothing", [frame(TEXT)], *echo("")),
    fine("6.2 signs", [frame(TEXT, GOOD_TEXT)], *echo(GOOD_TEXT)),
    fine(
        "6.2 cut within signs",
        [
            frame(TEXT, RAW[:1], fin=False),
            *(frame(CONT, RAW[i : i + 1], fin=False) for i in range(1, len(RAW))),
            frame(CONT),
        ],
        *echo(GOOD_TEXT),
    ),
    *(broken(name, [frame(TEXT, bad)], code=1007) for name, bad in BAD_TEXTS.items()),
    broken("6.3 in the second part", [frame(TEXT, "good", fin=False), frame(CONT, b"\xff")], code=1007),
    broken("6.4 before the last part", [frame(TEXT, b"\xff\xff", fin=False)], code=1007),
    broken(
        "6.6 a last part that ends within a sign", [frame(TEXT, "x", fin=False), frame(CONT, b"\xe1\xbd")], code=1007
    ),
    fine("6.23 bytes need not be text", [frame(BINARY, b"\xff\xfe")], *echo(b"\xff\xfe")),
]
GOOD_CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]
BAD_CODES = [0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535]
CLOSING = [
    Case("7.1 a message, then a farewell", [frame(TEXT, "a")], echo("a"), [close_frame()]),
    farewell("7.1 nothing after a farewell", close_frame() + frame(TEXT, "late")),
    farewell("7.1 no ping after a farewell", close_frame() + frame(PING, "late")),
    farewell("7.1 no second farewell", close_frame() + close_frame()),
    farewell("7.1 a farewell within a message", frame(TEXT, "a", fin=False) + close_frame()),
    farewell("7.3 an empty farewell", close_frame(None), None, 1000),
    broken("7.3 half a code", [frame(CLOSE, b"\x03")]),
    farewell("7.3 with a reason", close_frame(1000, "so long")),
    farewell("7.3 with a long reason", close_frame(1000, "x" * 123)),
    broken("7.3 with a reason that is too long", [close_frame(1000, "x" * 124)]),
    broken("7.5 with a reason that is no text", [close_frame(1000, b"\xff\xff")], code=1007),
    *(farewell(f"7.7 code {code}", close_frame(code), code) for code in GOOD_CODES),
    *(broken(f"7.9 code {code}", [close_frame(code)]) for code in BAD_CODES),
]
LIMITS = [
    fine("9.1 as large as may be", [frame(BINARY, b"x" * MOST)], *echo(b"x" * MOST)),
    fine("9.1 in parts", [frame(TEXT, "x" * 100_000, fin=False), frame(CONT, "x" * 100_000)], *echo("x" * MOST)),
    broken("9.2 one too many", [frame(BINARY, b"x" * (MOST + 1))], code=1009),
    broken("9.2 in parts", [frame(BINARY, b"x" * MOST, fin=False), frame(CONT, b"x")], code=1009),
    broken(
        "9.2 never ending",
        [frame(TEXT, "x" * 70_000, fin=False), *[frame(CONT, "x" * 70_000, fin=False)] * 2],
        code=1009,
    ),
    broken("9.2 of signs of many bytes", [frame(TEXT, "€" * (MOST // 3 + 1))], code=1009),
    fine("9.3 many, each as large as may be", [frame(BINARY, b"x" * MOST)] * 3, *echo(*[b"x" * MOST] * 3)),
]
FORM = [
    broken("no mask", [frame(TEXT, "x", mask=False)]),
    broken("no mask on a ping", [frame(PING, mask=False)]),
    broken("a length in more bits than needed", [frame(TEXT, "abc", width=16)]),
    broken("a length in many more bits", [frame(TEXT, "abc", width=64)]),
    broken("a length with its first bit set", [frame(TEXT, "abc", width=64, length=1 << 63)]),
]
CASES = [*FRAMING, *PINGS, *RESERVED, *OPCODES, *FRAGMENTS, *UTF8, *CLOSING, *LIMITS, *FORM]


def joined(frames: list[Frame]) -> list[Frame]:
    """Messages, however many frames they came in."""
    whole: list[Frame] = []
    for one in frames:
        if one.opcode == CONT:
            last = whole.pop()
            whole.append(Frame(last.opcode, last.payload + one.payload, one.fin, last.rsv))
        else:
            whole.append(one)
    return whole


async def send(peer: WebSocketPeer, pieces: list[bytes], byte_by_byte: bool) -> None:
    for piece in pieces:
        for part in [bytes([byte]) for byte in piece] if byte_by_byte else [piece]:
            await peer.push(part)


async def check(system: ActorSystem, case: Case, byte_by_byte: bool) -> None:
    stage = await serve(system, {"/ws": WebSocket(Echo, max_message=MOST)})
    with await open_socket(stage) as peer:
        await send(peer, case.sent, byte_by_byte)
        came = [await peer.frame() for _ in case.came]
        await send(peer, case.then, byte_by_byte)
        *late, last = [*came, *await peer.all_frames()]
        came = joined(late)
        assert [(one.opcode, one.payload) for one in came] == [(one.opcode, one.payload) for one in case.came]
        assert not any(one.masked or one.rsv for one in came)
        assert last.opcode == CLOSE
        assert last.code in case.codes
    await stage.until_shown("websockets", 0)
    with await open_socket(stage) as peer:  # others can go on
        assert await peer.say("still there") == "still there"


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_a_socket_answers_frames_as_it_must(system: ActorSystem, case: Case) -> None:  # E10, R7
    await check(system, case, byte_by_byte=False)


SMALL = [case for case in CASES if sum(map(len, [*case.sent, *case.then])) < 500]


@pytest.mark.parametrize("case", SMALL[::3], ids=[case.name for case in SMALL[::3]])
async def test_a_socket_answers_frames_that_come_byte_by_byte(system: ActorSystem, case: Case) -> None:  # E10, R7
    await check(system, case, byte_by_byte=True)


# Section 10: many frames, cut anyhow. Sections 12 and 13, compression, have a file of their own.
@pytest.mark.parametrize("cut", [1, 2, 3, 7, 997])
async def test_frames_may_be_cut_anywhere(system: ActorSystem, cut: int) -> None:  # E10: Autobahn 10
    stage = await serve(system, {"/ws": WebSocket(Echo)})
    with await open_socket(stage) as peer:
        texts = ["", "a", "ü" * 100, "x" * 1000]
        sent = b"".join(frame(TEXT, text) for text in texts)
        for start in range(0, len(sent), cut):
            await peer.send(sent[start : start + cut])
        assert [await peer.message() for _ in texts] == texts
        await peer.farewell()


TEXTS = ["lorem ipsum " * 100, "lorem ipsum " * 100, "", "x", "dolor sit amet " * 500]


class Packer:
    """The other side's compression, which may remember what it has sent and received."""

    def __init__(self, sends: int = 15, receives: int = 15, forgets: bool = False) -> None:
        self.bits = sends, receives
        self.forgets = forgets
        self.begin()

    def begin(self) -> None:
        sends, receives = self.bits
        self.packer = zlib.compressobj(wbits=-sends)
        self.unpacker = zlib.decompressobj(wbits=-receives)

    def pack(self, data: bytes) -> bytes:
        if self.forgets:
            self.begin()
        packed = self.packer.compress(data) + self.packer.flush(zlib.Z_SYNC_FLUSH)
        return packed.removesuffix(b"\x00\x00\xff\xff")

    def unpack(self, data: bytes) -> bytes:
        return self.unpacker.decompress(data + b"\x00\x00\xff\xff")


OFFERS: list[tuple[str, set[str] | None, dict[str, Any]]] = [
    ("permessage-deflate", set(), {}),
    ("permessage-deflate; client_max_window_bits", {"client_max_window_bits=15"}, {}),
    ("permessage-deflate; client_max_window_bits=9", {"client_max_window_bits=9"}, {"sends": 9}),
    ("permessage-deflate; server_max_window_bits=9", {"server_max_window_bits=9"}, {"receives": 9}),
    (
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
        {"server_no_context_takeover", "client_no_context_takeover"},
        {"forgets": True},
    ),
    # The first that will do, and nothing of the others.
    ("permessage-deflate; client_max_window_bits=10, permessage-deflate", {"client_max_window_bits=10"}, {"sends": 10}),
    ("permessage-deflate; client_max_window_bits=8, permessage-deflate", set(), {}),
    ("permessage-deflate; server_no_context_takeover; what=ever, permessage-deflate", set(), {}),
    ("x-other, permessage-deflate", set(), {}),
    # None will do.
    ("permessage-deflate; what=ever", None, {}),
    ("permessage-deflate; client_max_window_bits=x", None, {}),
    ("permessage-deflate; client_max_window_bits=16", None, {}),
    ("permessage-deflate; server_max_window_bits", None, {}),
    ("permessage-deflate; server_no_context_takeover=1", None, {}),
    ("permessage-deflate; client_no_context_takeover; client_no_context_takeover", None, {}),
    ("x-webkit-deflate-frame", None, {}),
    ("permessage-deflate;", None, {}),
]


@pytest.mark.parametrize(("offer", "agreed", "packing"), OFFERS, ids=[offer for offer, _, _ in OFFERS])
async def test_compression_is_agreed_on_or_not(
    system: ActorSystem, offer: str, agreed: set[str] | None, packing: dict[str, Any]
) -> None:  # E10: Autobahn 13
    stage = await serve(system, {"/ws": WebSocket(Echo)})
    with await connect(stage) as plain:
        peer = WebSocketPeer(plain.sock)
        await peer.send(handshake(sec_websocket_extensions=offer))
        answer = (await peer.head()).headers.get("sec-websocket-extensions")
        if agreed is None:
            assert answer is None
            assert await peer.say("plain") == "plain"
            return
        assert answer is not None
        name, *parameters = [part.strip() for part in answer.split(";")]
        assert (name, {one for one in parameters if one}) == ("permessage-deflate", agreed)
        packer = Packer(**packing)
        for text in TEXTS:
            await peer.send(frame(TEXT, packer.pack(text.encode()), rsv=4))
            came = await peer.frame()
            assert (came.opcode, came.rsv, came.fin) == (TEXT, 4, True)
            if packer.forgets:
                packer.begin()
            assert packer.unpack(came.payload) == text.encode()


ANSWERS: list[tuple[str, dict[str, Any] | None]] = [
    ("permessage-deflate", {}),
    ("permessage-deflate; server_max_window_bits=10; client_max_window_bits=9", {"sends": 10, "receives": 9}),
    ("permessage-deflate; server_no_context_takeover; client_no_context_takeover", {"forgets": True}),
    ("permessage-deflate; client_max_window_bits=x", None),
    ("x-other", None),
]


@pytest.mark.parametrize(("answer", "packing"), ANSWERS, ids=[answer for answer, _ in ANSWERS])
async def test_a_client_packs_as_the_server_answers(
    system: ActorSystem, answer: str, packing: Any
) -> None:  # E10: Autobahn 13
    async with raw_server() as (accept, url):
        client = await begin(system, url)
        with await accept(extensions=answer) as peer:
            if packing is None:
                assert await peer.cut_off() == b""
                return
            await client.probe.expect(WebSocketConnected)
            packer = Packer(**packing)
            for text in TEXTS:
                client.alias.tell(Write(text))
                came = await peer.frame()
                assert came.rsv == 4
                if packer.forgets:
                    packer.begin()
                assert packer.unpack(came.payload) == text.encode()
                await peer.send(frame(TEXT, packer.pack(text.encode()), rsv=4, mask=False))
                assert (await client.probe.expect(Received)).data == text
            client.alias.kill()
            await client.alias.terminated()


async def test_a_packed_message_may_end_its_stream(system: ActorSystem) -> None:  # E10: RFC 7692, 7.2.3.4
    stage = await serve(system, {"/ws": WebSocket(Echo)})
    with await open_socket(stage, deflate=True) as peer:
        unpacker = zlib.decompressobj(wbits=-15)
        for text in ("Hello", "World", "again"):
            packer = zlib.compressobj(wbits=-15)
            await peer.send(frame(TEXT, packer.compress(text.encode()) + packer.flush() + b"\x00", rsv=4))
            came = await peer.frame()
            assert unpacker.decompress(came.payload + b"\x00\x00\xff\xff") == text.encode()


@pytest.mark.parametrize(("opcode", "size"), [(TEXT, 0), (TEXT, 5000), (BINARY, 1), (BINARY, 150_000)])
async def test_messages_may_be_compressed(system: ActorSystem, opcode: int, size: int) -> None:  # E10: Autobahn 12
    stage = await serve(system, {"/ws": WebSocket(Echo, max_message=MOST)})
    headers: dict[str, Any] = {
        "sec_websocket_extensions": "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
    }
    with await open_socket(stage, deflate=True, **headers) as peer:
        text = ("lorem ipsum ü " * (size // 14 + 1))[:size]
        data = text.encode()[:MOST]
        for _ in range(3):
            packed = deflated(data)
            await peer.send(frame(opcode, packed, rsv=4))
            came = await peer.message()
            assert came == (data.decode() if opcode == TEXT else data)
        await peer.send(frame(opcode, data))  # and need not be
        await peer.message()
        await peer.farewell()


@pytest.mark.parametrize("between", [b"", frame(PING, "p")], ids=["", "ping"])
async def test_a_compressed_message_may_come_in_parts(system: ActorSystem, between: bytes) -> None:  # E10: Autobahn 12
    stage = await serve(system, {"/ws": WebSocket(Echo)})
    with await open_socket(stage, deflate=True) as peer:
        packed = deflated(b"hello " * 100)
        await peer.send(frame(TEXT, packed[:3], rsv=4, fin=False) + between)
        if between:
            assert await peer.frame() == Frame(PONG, b"p")
        await peer.send(frame(CONT, packed[3:]))
        assert await peer.message() == "hello " * 100


BAD_PACKED = [
    ("no such data", [frame(TEXT, b"\xff\xff\xff\xff", rsv=4)], (1002, 1007)),
    ("compressed bad text", [frame(TEXT, deflated(b"\xff\xff"), rsv=4)], (1007,)),
    ("the mark on a later part", [frame(TEXT, "a", fin=False), frame(CONT, "b", rsv=4)], (1002,)),
    ("the mark on a ping", [frame(PING, "a", rsv=4)], (1002,)),
    ("far too large when unpacked", [frame(BINARY, deflated(bytes(MOST * 10)), rsv=4)], (1009,)),
]


@pytest.mark.parametrize(("sent", "codes"), [row[1:] for row in BAD_PACKED], ids=[row[0] for row in BAD_PACKED])
async def test_bad_compression_closes_the_socket(
    system: ActorSystem, sent: list[bytes], codes: tuple[int, ...]
) -> None:  # R7
    stage = await serve(system, {"/ws": WebSocket(Echo, max_message=MOST)})
    with await open_socket(stage, deflate=True) as peer:
        for one in sent:
            await peer.push(one)
        (last,) = await peer.all_frames()
        assert (last.opcode, last.code in codes) == (CLOSE, True), last
    with await open_socket(stage) as peer:
        assert await peer.say("still there") == "still there"


def test_what_follows_the_end_of_a_packed_stream_is_not_kept() -> None:  # R7
    """zlib keeps it, however much it is, and no limit counts what never comes out."""
    bounded = BoundedDeflate(1 << 20)
    assert bounded.accept("permessage-deflate") is not None
    packer = zlib.compressobj(wbits=-15)
    ends = packer.compress(b"x") + packer.flush(zlib.Z_FINISH)
    proto = SimpleNamespace(client=False)
    bounded.frame_inbound_header(proto, Opcode.BINARY, RsvBits(True, False, False), len(ends))
    assert bounded.frame_inbound_payload_data(proto, ends) == b"x"
    for _ in range(20):
        assert bounded.frame_inbound_payload_data(proto, b"y" * 100_000) == b""
    assert len(bounded._inflater.unused_data) < 100_000
