"""Streams: whatever the kernel takes at once, frames arrive whole and in order; and one can wait for them."""

from __future__ import annotations

import asyncio
import socket
from time import monotonic
from typing import Any

import pytest

from greenroom.wire.streams import Stream
from greenroom.wire.transport import Side
from tests.wire.test_transport import PATIENCE, End, run


def attach(end: End, sock: socket.socket) -> Stream:
    stream = Stream(asyncio.get_running_loop(), sock, end.connection)
    stream.begin()
    return stream


async def connect() -> tuple[End, End, Stream, Stream]:
    left, right = socket.socketpair()
    here, there = End(Side.LISTENING), End(Side.CONNECTING)
    streams = attach(here, left), attach(there, right)
    await here.opened.wait()
    await there.opened.wait()
    return here, there, *streams


@pytest.mark.parametrize("sizes", [[0], [1, 0, 3], [100_000] * 5, [5_000_000, 0, 7]], ids=str)
def test_frames_arrive_whole_and_in_order(sizes: list[int]) -> None:
    async def main() -> None:
        here, there, *streams = await connect()
        for number in range(3):
            here.connection.send(number, [bytes([number + 1]) * size for size in sizes])
            there.connection.send(number, [b"back"])
        for number in range(3):
            kind, parts = await there.frames.get()
            assert (kind, [len(part) for part in parts]) == (number, sizes)
            assert all(set(part) <= {number + 1} for part in parts)
            assert await here.frames.get() == (number, [b"back"])
        for stream in streams:
            stream.abort()

    run(main)


def test_what_is_sent_before_the_end_arrives() -> None:
    async def main() -> None:
        here, there, stream, _ = await connect()
        large = bytes(10_000_000)
        here.connection.send(1, [large])
        stream.close()
        assert await there.frames.get() == (1, [large])
        assert await there.lost is None
        assert await here.lost is None
        here.connection.close()
        stream.write(b"too late")

    run(main)


def test_one_who_does_not_keep_up_is_known_to_and_catches_up() -> None:
    async def main() -> None:
        here, there, stream, other = await connect()
        drained = asyncio.Event()
        here.connection.on_drained(drained.set)
        asyncio.get_running_loop().remove_reader(other._sock)
        for _ in range(5):
            here.connection.send(1, [bytes(5_000_000)])
        assert here.connection.is_congested
        asyncio.get_running_loop().add_reader(other._sock, other._can_read)
        await drained.wait()
        assert not here.connection.is_congested
        for _ in range(5):
            await there.frames.get()
        stream.abort()
        await there.lost

    run(main)


def test_the_end_of_the_other_side_is_noticed() -> None:
    async def main() -> None:
        here, there, _, other = await connect()
        other.abort()
        await here.lost
        await there.lost
        assert not here.connection.is_open

    run(main)


def test_one_can_wait_for_a_frame_without_giving_asyncio_a_turn() -> None:
    async def main() -> None:
        here, there, stream, other = await connect()
        large = bytes(3_000_000)
        got: list[int] = []

        def answer(kind: int, parts: list[Any]) -> None:
            got.append(kind)

        here.connection._on_frame = answer
        there.connection.send(7, [b"small"])
        assert stream.pump(lambda: got == [7], monotonic() + PATIENCE)
        # Both ends in one thread: what one sends and the kernel does not take, the other has to read in between.
        here.connection.send(8, [large])
        while there.frames.empty():
            other.pump(lambda: not there.frames.empty(), monotonic() + 0.01)
            stream.pump(lambda: not there.frames.empty(), monotonic() + 0.01)
        assert await there.frames.get() == (8, [large])
        stream.abort()
        assert not stream.pump(lambda: False, monotonic() + PATIENCE)
        await there.lost

    run(main)


def test_somebody_without_the_secret_is_turned_away() -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        here = End(Side.LISTENING)
        stranger = End(Side.CONNECTING, b"a guess")
        attach(here, left)
        attach(stranger, right)
        assert "does not know the secret" in str(await here.lost)
        assert not here.opened.is_set()
        assert here.frames.empty()

    run(main)
