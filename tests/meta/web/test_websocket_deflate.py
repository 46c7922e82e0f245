"""permessage-deflate, in the spirit of sections 12 and 13 of the Autobahn test suite (E10, R7)."""

from __future__ import annotations

import zlib
from types import SimpleNamespace
from typing import Any

import pytest
from wsproto.frame_protocol import Opcode, RsvBits

from greenroom import ActorSystem
from greenroom.meta import Received, WebSocket, WebSocketConnected, Write
from greenroom.meta.web.websocket import BoundedDeflate
from tests.meta.owners import Echo
from tests.meta.web.browser import connect
from tests.meta.web.frames import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    Frame,
    WebSocketPeer,
    deflated,
    frame,
    handshake,
    open_socket,
    raw_server,
)
from tests.meta.web.stage import begin, serve

MOST = 200_000
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
