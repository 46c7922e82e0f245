"""Clients that others have written: curl, http.client, urllib and websockets (E10)."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as websocket
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.typing import Subprotocol

from greenroom import ActorSystem
from greenroom.meta import HttpRequest, HttpResponse, Route, WebLimits, WebSocket, tls_server
from tests.meta.owners import Echo
from tests.meta.sockets.certificates import Certificates
from tests.meta.web.stage import Answer, AsyncAnswer, Stage, serve


async def curl(*arguments: str, data: bytes | None = None) -> str:
    """What curl prints."""
    command = ["curl", "--silent", "--show-error", "--max-time", "100", "--noproxy", "*", *arguments]
    done = await asyncio.to_thread(subprocess.run, command, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


async def pieces() -> AsyncIterator[str]:
    for number in range(5):
        await asyncio.sleep(0)
        yield f"{number},"


async def size(asked: HttpRequest) -> str:
    return str(sum([len(piece) async for piece in asked.body]))


async def serve_all(system: ActorSystem, **settings: Any) -> Stage:
    def describe(asked: HttpRequest) -> dict[str, Any]:
        return {"method": asked.method, "n": asked.params["n"], "q": asked.query, "scheme": asked.scheme}

    routes = {
        "/n/{n}": system.spawn(Answer, describe),
        "POST /body": system.spawn(Answer, lambda asked: asked.body),
        "POST /size": Route(system.spawn(AsyncAnswer, size), stream=True),
        "GET /pieces": system.spawn(Answer, lambda asked: HttpResponse(pieces())),
        "/ws": WebSocket(Echo, subprotocols=["a"], max_message=100_000),
        "/private": WebSocket(Echo, authorize=lambda asked: asked.headers.get("x-key") == "k"),
    }
    return await serve(system, routes, **settings)


async def test_curl_asks_several_times_on_one_connection(system: ActorSystem) -> None:  # E10
    stage = await serve_all(system)
    urls = [f"http://127.0.0.1:{stage.port}/n/{number}?a=b" for number in range(5)]
    said = await curl("--write-out", "\n%{http_code} %{num_connects}\n", *urls)
    lines = said.splitlines()
    assert [json.loads(line)["n"] for line in lines[::2]] == list("01234")
    assert lines[1::2] == ["200 1", *["200 0"] * 4]
    assert await stage.alias.inspect("taken", "requests") == {"taken": 1, "requests": 5}


async def test_curl_uploads_and_downloads(system: ActorSystem, tmp_path: Path) -> None:  # E10
    stage = await serve_all(system)
    base = f"http://127.0.0.1:{stage.port}"
    data = b"line\n" * 400_000
    file = tmp_path / "data"
    file.write_bytes(data)
    chunked = ("--header", "transfer-encoding: chunked")
    assert await curl("--data-binary", f"@{file}", f"{base}/size") == str(len(data))  # with Expect
    assert await curl(*chunked, "--data-binary", f"@{file}", f"{base}/size") == str(len(data))
    assert await curl(*chunked, "--data-binary", "@-", f"{base}/body", data=data) == data.decode()
    assert await curl(f"{base}/pieces") == "0,1,2,3,4,"
    assert await curl("--http1.0", f"{base}/pieces") == "0,1,2,3,4,"
    assert await curl("--http2", f"{base}/pieces") == "0,1,2,3,4,"
    assert "HTTP/1.1 200" in await curl("--head", f"{base}/n/1")
    assert "405" in await curl("--write-out", "%{http_code}", f"{base}/body")


@pytest.mark.parametrize("chunked", [False, True])
async def test_curl_is_told_that_its_body_is_too_large(
    system: ActorSystem, tmp_path: Path, chunked: bool
) -> None:  # E10, R7
    stage = await serve_all(system, limits=WebLimits(max_body=1000))
    file = tmp_path / "data"
    file.write_bytes(bytes(20_000_000))
    headers = ["--header", "expect:", *(["--header", "transfer-encoding: chunked"] if chunked else [])]
    url = f"http://127.0.0.1:{stage.port}/body"
    for _ in range(5):
        said = await curl(*headers, "--write-out", "%{http_code}", "--output", "-", "--data-binary", f"@{file}", url)
        assert said.endswith("413")


async def test_curl_over_tls(system: ActorSystem, certificates: Certificates) -> None:  # E10
    stage = await serve_all(system, tls=tls_server(certificates.server, certificates.server_key))
    base = f"https://localhost:{stage.port}"
    trust = ("--cacert", str(certificates.ca), "--resolve", f"localhost:{stage.port}:127.0.0.1")
    said = await curl(*trust, "--write-out", "\n%{num_connects}\n", f"{base}/n/1", f"{base}/n/2")
    assert json.loads(said.splitlines()[0])["scheme"] == "https"
    assert said.splitlines()[1::2] == ["1", "0"]
    assert await curl(*trust, "--data-binary", "@-", f"{base}/size", data=bytes(1_000_000)) == "1000000"
    with pytest.raises(AssertionError, match="certificate"):
        await curl("--resolve", f"localhost:{stage.port}:127.0.0.1", f"{base}/n/1")
    with pytest.raises(AssertionError):
        await curl(f"http://127.0.0.1:{stage.port}/n/1")  # no TLS where there is TLS
    assert await curl(*trust, f"{base}/pieces") == "0,1,2,3,4,"


async def test_pythons_own_clients(system: ActorSystem, certificates: Certificates) -> None:  # E10
    def plain(port: int) -> None:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
        for number in range(3):
            client.request("GET", f"/n/{number}")
            assert json.load(client.getresponse())["n"] == str(number)
        client.request("POST", "/size", iter([b"a" * 10, b"b" * 20]), encode_chunked=True)
        assert client.getresponse().read() == b"30"
        client.request("HEAD", "/pieces")
        assert client.getresponse().read() == b""
        client.request("GET", "/pieces")
        response = client.getresponse()
        assert (response.headers["transfer-encoding"], response.read()) == ("chunked", b"0,1,2,3,4,")
        client.request("GET", "/nowhere")
        assert client.getresponse().status == 404
        client.close()

    def opened(port: int, context: ssl.SSLContext | None) -> None:
        base = f"http://127.0.0.1:{port}" if context is None else f"https://localhost:{port}"
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(f"{base}/n/x?a=%C3%A4", timeout=100) as response:
            assert json.load(response)["q"] == {"a": "ä"}
        with opener.open(f"{base}/body", b"posted", timeout=100) as response:
            assert response.read() == b"posted"
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(f"{base}/body", timeout=100)
        caught.value.close()
        assert (caught.value.code, "POST" in caught.value.headers["allow"]) == (405, True)

    stage = await serve_all(system)
    await asyncio.to_thread(plain, stage.port)
    await asyncio.to_thread(opened, stage.port, None)
    secure = await serve_all(system, tls=tls_server(certificates.server, certificates.server_key))
    context = ssl.create_default_context(cafile=str(certificates.ca))
    await asyncio.to_thread(opened, secure.port, context)


@pytest.mark.parametrize("compression", ["deflate", None])
@pytest.mark.parametrize("secure", [False, True])
async def test_pythons_websockets(
    system: ActorSystem, certificates: Certificates, secure: bool, compression: Any
) -> None:  # E10
    tls = tls_server(certificates.server, certificates.server_key) if secure else None
    stage = await serve_all(system, tls=tls)
    context = ssl.create_default_context(cafile=str(certificates.ca)) if secure else None
    url = f"{'wss' if secure else 'ws'}://localhost:{stage.port}"
    options: Any = {"ssl": context, "compression": compression, "proxy": None}
    async with websocket(f"{url}/ws", subprotocols=[Subprotocol("b"), Subprotocol("a")], **options) as client:
        assert client.subprotocol == "a"
        for data in ("ü", b"\xff", "", "lorem ipsum " * 5000, bytes(100_000)):
            await client.send(data)
            assert await client.recv() == data
        await client.send(["frag", "men", "ted"])
        assert await client.recv() == "fragmented"
        await (await client.ping())
        await client.close(4001)
        assert client.close_code == 4001
    async with websocket(f"{url}/ws", **options) as client:
        await client.send("x" * 100_001)
        with pytest.raises(ConnectionClosedError):
            await client.recv()
        assert client.close_code == 1009
    with pytest.raises(InvalidStatus) as caught:
        await websocket(f"{url}/private", **options)
    assert caught.value.response.status_code == 403
    async with websocket(f"{url}/private", additional_headers={"x-key": "k"}, **options) as client:
        await client.send("in")
        assert await client.recv() == "in"
