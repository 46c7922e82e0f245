"""`WebSocketClient` against the server of Python's `websockets` (E10)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.server import Server, ServerConnection
from websockets.asyncio.server import serve as serve_websockets
from websockets.exceptions import ConnectionClosed as PeerClosed

from greenroom import ActorSystem
from greenroom.meta import (
    Close,
    Closed,
    Received,
    WebSocketConnected,
    Write,
)
from tests.meta.web.stage import begin


@contextlib.asynccontextmanager
async def python_server(handler: Any, **options: Any) -> AsyncIterator[tuple[Server, str]]:
    async with serve_websockets(handler, "127.0.0.1", 0, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield server, f"ws://127.0.0.1:{port}/x"


@pytest.mark.parametrize("compression", ["deflate", None])
async def test_a_client_speaks_with_pythons_websockets(system: ActorSystem, compression: Any) -> None:  # E10
    codes: list[Any] = []

    async def handler(peer: ServerConnection) -> None:
        await peer.send(["fra", "gmen", "ted"])  # at once: it may come with the handshake
        try:
            async for message in peer:
                await peer.send(message)
        except PeerClosed as exc:
            codes.append(exc.rcvd and exc.rcvd.code)

    async with python_server(handler, compression=compression, subprotocols=["a"]) as (_, url):
        client = await begin(system, url, subprotocols=["a"])
        await client.probe.expect(WebSocketConnected)
        assert (await client.probe.expect(Received)).data == "fragmented"
        for data in ("ü", b"\x00", "lorem ipsum " * 20_000):
            client.alias.tell(Write(data))
            assert (await client.probe.expect(Received)).data == data
        client.alias.tell(Close(code=4444))
        assert (await client.probe.expect(Closed)).reason == "closed"
    assert codes in ([4444], [])


async def test_pythons_server_refuses_and_goes_away(system: ActorSystem) -> None:  # E10
    def process(peer: ServerConnection, asked: Any) -> Any:
        return peer.respond(403, "no") if asked.headers.get("x-key") != "k" else None

    async def handler(peer: ServerConnection) -> None:
        await peer.wait_closed()

    async with python_server(handler, process_request=process) as (server, url):
        refused = await begin(system, url)
        assert "403" in str((await refused.probe.expect(Closed)).error)
        client = await begin(system, url, headers={"x-key": "k"})
        await client.probe.expect(WebSocketConnected)
        server.close()
        assert (await client.probe.expect(Closed)).reason == "eof"
