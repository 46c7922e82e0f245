"""One direction of a connection closed: the other goes on (E10)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import ActorSystem
from greenroom.meta import (
    Close,
    Closed,
    CloseWrite,
    Connected,
    PeerClosed,
    Received,
    Write,
)
from greenroom.testing import capture_logs
from tests.meta.owners import Scene, emptied, hear, hear_bytes, serve
from tests.meta.peers import connect

LARGE = b"0123456789abcdef" * 1_000_000


async def test_a_peer_that_writes_no_more_can_still_be_answered(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, half_open=True)
    with await connect(server.address, receive_buffer=131_072) as peer:
        alias = (await hear(scene, Connected)).alias
        await peer.send(b"question")
        peer.end()
        assert await hear_bytes(scene, 8) == b"question"
        assert await hear(scene, PeerClosed) == PeerClosed(alias)
        assert alias.is_alive
        alias.tell(Write(LARGE[:300_000]))
        alias.tell(Close())
        assert await peer.rest() == LARGE[:300_000]
    assert await hear(scene, Closed) == Closed(alias, "closed")


async def test_without_half_open_a_peer_that_writes_no_more_is_gone(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        await alias.ask(Write(b"written"))
        peer.end()
        assert await peer.rest() == b"written"
    assert await hear(scene, Closed) == Closed(alias, "eof")


@pytest.mark.parametrize("half_open", [True, False])
async def test_an_owner_that_writes_no_more_still_receives(system: ActorSystem, half_open: bool) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, half_open=half_open)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        alias.tell(Write(b"last words"))
        alias.tell(CloseWrite())
        assert await peer.rest() == b"last words"
        await peer.send(b"answer")
        assert await hear_bytes(scene, 6) == b"answer"
        assert alias.is_alive
    if half_open:
        await hear(scene, PeerClosed)
    assert (await hear(scene, Closed)).reason == "eof"
    await alias.terminated()


async def test_a_connection_whose_both_directions_are_closed_is_over(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene, half_open=True)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        peer.end()
        await hear(scene, PeerClosed)
        alias.tell(Write(b"bye"))
        alias.tell(CloseWrite())
        assert await peer.rest() == b"bye"
        await hear(scene, Closed)
        await alias.terminated()


async def test_what_is_written_after_the_end_of_writing_is_a_dead_letter(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    server, _ = await serve(scene)
    with await connect(server.address) as peer:
        alias = (await hear(scene, Connected)).alias
        alias.tell(CloseWrite())
        alias.tell(Write(b"too late"))
        assert await peer.rest() == b""
        await peer.send(b"still there?")
        assert await hear_bytes(scene, 12) == b"still there?"
    assert await hear(scene, Closed) == Closed(alias, "eof")
    assert [letter.message for letter in system.dead_letters.recent()] == [Write(b"too late")]


@pytest.mark.parametrize("message", [Close(), CloseWrite()])
async def test_a_connection_that_is_reset_as_it_is_closed_does_not_fail(
    system: ActorSystem, message: Any
) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, half_open=True)
    peer = await connect(server.address)
    connection = (await hear(scene, Connected)).alias
    with capture_logs() as logs:
        peer.send_some(b"unread")
        peer.reset()  # and the connection has had no turn yet to see any of this
        connection.tell(message)
        while isinstance(heard := await scene.heard(), Received):
            pass
        assert isinstance(heard, Closed)
        await emptied(alias)
    assert [line for line in logs.records if line.levelname == "ERROR"] == []
