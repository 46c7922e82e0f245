"""Frames travel in order, and only between ends that know the same secret."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.errors import FrameTooLarge, HandshakeFailed, WireError
from greenroom.wire import transport
from greenroom.wire.transport import Connection, Side

SECRET = b"a secret"
PATIENCE = 120.0


class End:
    """One end of a connection, and what became of it."""

    def __init__(
        self, side: bytes, secret: bytes = SECRET, limit: int = transport.DEFAULT_LIMIT, patience: float = PATIENCE
    ) -> None:
        self.frames: asyncio.Queue[tuple[int, list[bytes]]] = asyncio.Queue()
        self.opened = asyncio.Event()
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self.options: Any = (side, secret, lambda _: self.opened.set(), self._take, self._lose, limit, patience)

    def _take(self, kind: int, parts: list[Any]) -> None:
        self.frames.put_nowait((kind, [bytes(part) for part in parts]))

    def _lose(self, cause: BaseException | None) -> None:
        self.lost.set_result(cause)

    def attach(self, sock: socket.socket) -> End:
        self.connection = Connection(asyncio.get_running_loop(), sock, *self.options)
        self.connection.begin()
        return self


async def connect(**options: Any) -> tuple[End, End]:
    left, right = socket.socketpair()
    here = End(Side.LISTENING, **options).attach(left)
    there = End(Side.CONNECTING).attach(right)
    return here, there


def run(main: Any) -> None:
    async def limited() -> None:
        async with asyncio.timeout(PATIENCE):
            await main()

    asyncio.run(limited())


async def open_both() -> tuple[End, End]:
    here, there = await connect()
    await here.opened.wait()
    await there.opened.wait()
    return here, there


async def close_both(*ends: End) -> None:
    for end in ends:
        end.connection.close()
        await end.lost


frames = st.lists(
    st.tuples(
        st.integers(0, 0xFFEF),
        st.lists(st.binary(max_size=300) | st.integers(60_000, 200_000).map(lambda size: os.urandom(size)), max_size=4),
    ),
    max_size=6,
)


@settings(max_examples=30, deadline=None)
@given(frames)
def test_frames_arrive_as_they_were_sent_and_in_order(sent: list[tuple[int, list[bytes]]]) -> None:
    async def main() -> None:
        here, there = await open_both()
        for sender, receiver in ((here, there), (there, here)):
            for kind, parts in sent:
                sender.connection.send(kind, parts)
            for frame in sent:
                assert await receiver.frames.get() == frame
        await close_both(here, there)

    run(main)


def test_frames_may_arrive_in_pieces_of_any_size() -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        here = End(Side.LISTENING).attach(left)
        right.setblocking(False)
        aio = asyncio.get_running_loop()
        hello = await aio.sock_recv(right, 1000)
        challenge = hello[-32:]
        proof = Connection(aio, right, Side.CONNECTING, SECRET, print, print, print)._digest(Side.CONNECTING, challenge)
        speech = (
            struct.pack("<HHQQ", 0xFFF0, 2, 12, 32)
            + b"greenroom 1\n"
            + bytes(32)
            + struct.pack("<HHQ", 0xFFF1, 1, 32)
            + proof
            + struct.pack("<HHQQ", 7, 2, 3, 0)
            + b"abc"
            + struct.pack("<HH", 8, 0)
        )
        for byte in speech:
            await aio.sock_sendall(right, bytes([byte]))
            await asyncio.sleep(0)
        assert await here.frames.get() == (7, [b"abc", b""])
        assert await here.frames.get() == (8, [])
        right.close()
        await here.lost

    run(main)


def test_an_end_with_another_secret_is_refused_and_nothing_it_says_is_heard() -> None:  # R8
    async def main() -> None:
        here, there = await connect(secret=b"another")
        assert isinstance(await here.lost, HandshakeFailed)
        await there.lost
        assert here.frames.empty()
        assert not here.opened.is_set()
        with pytest.raises(WireError, match="not open"):
            here.connection.send(1, [])

    run(main)


def test_an_end_cannot_be_answered_with_its_own_words() -> None:  # R8
    async def main() -> None:
        left, right = socket.socketpair()
        here = End(Side.LISTENING).attach(left)
        right.setblocking(False)
        aio = asyncio.get_running_loop()
        said = await aio.sock_recv(right, 1000)
        await aio.sock_sendall(right, said)  # its own challenge
        said = await aio.sock_recv(right, 1000)
        await aio.sock_sendall(right, said)  # its own proof
        assert isinstance(await here.lost, HandshakeFailed)
        right.close()

    run(main)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 10,
        bytes(100),
        b"\xff" * 5000,
        struct.pack("<HHQ", 5, 1, 1 << 60),
        struct.pack("<HHQ", 0xFFF1, 1, 32) + bytes(32),
        struct.pack("<HHQ", 0xFFF0, 1, 3) + b"abc",
    ],
    ids=["http", "zeros", "ones", "huge", "wrong proof", "wrong hello"],
)
def test_garbage_ends_the_connection_and_nothing_else(garbage: bytes) -> None:  # R8
    async def main() -> None:
        left, right = socket.socketpair()
        here = End(Side.LISTENING).attach(left)
        right.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(right, garbage)
        assert isinstance(await here.lost, WireError)
        assert here.frames.empty()
        right.close()

    run(main)


def test_an_end_that_says_nothing_has_a_deadline() -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        here = End(Side.LISTENING, patience=0.01).attach(left)
        assert "did not prove itself" in str(await here.lost)
        right.close()

    run(main)


def test_a_frame_above_the_limit_is_refused_at_the_sender_and_the_connection_lives() -> None:
    async def main() -> None:
        here, there = await connect(limit=10_000)
        await here.opened.wait()
        await there.opened.wait()
        with pytest.raises(FrameTooLarge, match="larger than the limit of 10,000") as caught:
            here.connection.send(1, [bytes(10_001)])
        assert (caught.value.size, caught.value.limit) == (10_001, 10_000)
        here.connection.send(2, [b"fine"])
        assert await there.frames.get() == (2, [b"fine"])
        there.connection.send(3, [bytes(10_001)])  # whose own limit is another
        assert isinstance(await here.lost, FrameTooLarge)
        await there.lost

    run(main)


@pytest.mark.parametrize("sizes", [[0], [1, 0, 3], [100_000, 0], [100_000] * 5, [5_000_000, 0, 7]], ids=str)
def test_parts_of_any_size_arrive_whole_and_in_order(sizes: list[int]) -> None:
    async def main() -> None:
        here, there = await open_both()
        sent = [[bytes([number]) * size for size in sizes] for number in range(3)]
        for number, parts in enumerate(sent):
            here.connection.send(number, parts)
            there.connection.send(number, [b"back"])
        for number, parts in enumerate(sent):
            assert await there.frames.get() == (number, parts)
            assert await here.frames.get() == (number, [b"back"])
        await close_both(here, there)

    run(main)


def test_an_end_that_does_not_keep_up_is_seen_and_catches_up() -> None:
    async def main() -> None:
        here, there = await open_both()
        aio = asyncio.get_running_loop()
        aio.remove_reader(there.connection._sock)
        for _ in range(5):
            here.connection.send(1, [bytes(5_000_000)])
        assert here.connection.is_congested
        aio.add_reader(there.connection._sock, there.connection._can_read)
        for _ in range(5):
            await there.frames.get()
        assert not here.connection.is_congested
        await close_both(here, there)

    run(main)


def test_large_frames_are_sent_before_the_end() -> None:
    async def main() -> None:
        here, there = await open_both()
        large = bytes(10_000_000)
        here.connection.send(1, [large])
        here.connection.close()
        assert await there.frames.get() == (1, [large])
        assert await there.lost is None
        assert await here.lost is None
        here.connection.close()

    run(main)


def test_a_frame_can_be_waited_for_without_giving_asyncio_a_turn() -> None:
    async def main() -> None:
        here, there = await open_both()
        large = bytes(3_000_000)
        got: list[int] = []
        here.connection._on_frame = lambda kind, parts: got.append(kind)
        there.connection.send(7, [b"small"])
        assert here.connection.pump(lambda: got == [7], monotonic() + PATIENCE)
        # Both ends in one thread: what one sends and the kernel does not take, the other has to read in between.
        here.connection.send(8, [large])
        while there.frames.empty():
            there.connection.pump(lambda: not there.frames.empty(), monotonic() + 0.01)
            here.connection.pump(lambda: not there.frames.empty(), monotonic() + 0.01)
        assert await there.frames.get() == (8, [large])
        here.connection.abort()
        assert not here.connection.pump(lambda: False, monotonic() + PATIENCE)
        await there.lost

    run(main)


def test_what_takes_a_frame_can_wait_for_one_that_came_with_it() -> None:
    async def main() -> None:
        here, there = await open_both()
        got: list[object] = []

        def take(kind: int, parts: list[bytearray]) -> None:
            got.append(kind)
            if kind == 1:
                got.append(here.connection.pump(lambda: 2 in got, monotonic() + 1.0))

        here.connection._on_frame = take
        for kind in (1, 2, 3):
            there.connection.send(kind, [b"small"])
        here.connection.pump(lambda: 3 in got, monotonic() + PATIENCE)
        assert got == [1, 2, 3, True]
        await close_both(here, there)

    run(main)


def test_both_ends_hear_of_the_end() -> None:
    async def main() -> None:
        here, there = await open_both()
        here.connection.send(1, [b"last"])
        here.connection.close()
        assert await here.lost is None
        assert await there.lost is None
        assert await there.frames.get() == (1, [b"last"])
        with pytest.raises(WireError):
            there.connection.send(2, [])

    run(main)
