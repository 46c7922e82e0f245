"""`UnixServer` and `UnixClient`: the same as with TCP, at a path (E10)."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from greenroom import ActorSystem, Backoff, ManualClock
from greenroom.errors import ConfigError
from greenroom.meta import Close, Closed, Connected, Lines, Received, StopListening, UnixClient, UnixServer, Write
from tests.meta.owners import Echo, Ended, Scene, hear, hear_bytes
from tests.meta.peers import connect

if TYPE_CHECKING:
    from tests.conftest import Play


@pytest.fixture
def path() -> Iterator[Path]:
    """A short path: those of Unix sockets have at most a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="greenroom") as folder:
        yield Path(folder) / "sock"


def exists(path: Path) -> bool:
    return path.exists()


async def test_a_server_and_a_client_talk_over_a_path(system: ActorSystem, path: Path) -> None:  # E10
    scene = Scene(system)
    server = UnixServer(path, handler=Echo, framing=Lines(encoding="utf-8"))
    await scene.spawn(server)
    assert server.address == str(path)
    client = await scene.spawn(UnixClient(path, framing=Lines(encoding="utf-8")))
    assert (await hear(scene, Connected)).alias == client
    for text in ("hello", "wörld"):
        client.tell(Write(text))
        assert await hear(scene, Received) == Received(client, text)
    client.tell(Close())
    assert await hear(scene, Closed) == Closed(client, "closed")


async def test_plain_sockets_can_talk_to_it_too(system: ActorSystem, path: Path) -> None:  # E10
    scene = Scene(system)
    await scene.spawn(UnixServer(str(path)))
    with await connect(str(path)) as peer:
        up = await hear(scene, Connected)
        await peer.send(b"x" * 100_000)
        assert await hear_bytes(scene, 100_000) == b"x" * 100_000
        up.alias.tell(Write(b"yes"))
        up.alias.tell(Close())
        assert await peer.rest() == b"yes"


@pytest.mark.parametrize("how", ["stop", "kill", "parent", "stop listening"])
async def test_the_path_is_removed_at_the_end(system: ActorSystem, path: Path, how: str) -> None:  # E10
    scene = Scene(system)
    alias = await scene.spawn(UnixServer(path))
    assert exists(path)
    if how == "parent":
        scene.owner.kill()
    elif how == "stop listening":
        alias.tell(StopListening())
    else:
        getattr(alias, how)()
    await alias.terminated()
    assert not exists(path)


@pytest.mark.parametrize("mode", [0o600, 0o660])
async def test_the_path_is_for_those_whom_the_mode_says(system: ActorSystem, path: Path, mode: int) -> None:  # E10
    scene = Scene(system)
    await scene.spawn(UnixServer(path) if mode == 0o600 else UnixServer(path, mode=mode))
    assert stat.S_IMODE(os.stat(path).st_mode) == mode  # noqa: PTH116


async def test_the_path_of_a_server_that_is_gone_is_taken_over(system: ActorSystem, path: Path) -> None:  # E10
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
        gone.bind(str(path))
    scene = Scene(system)
    await scene.spawn(UnixServer(path))
    with await connect(str(path)):
        await hear(scene, Connected)


async def test_the_path_of_a_server_that_lives_is_not(system: ActorSystem, path: Path) -> None:  # E10
    scene = Scene(system)
    await scene.spawn(UnixServer(path, handler=Echo))
    with pytest.raises(OSError, match="in use"):
        await scene.do(lambda ctx: ctx.spawn_meta(UnixServer(path)))
    assert len(await scene.do(lambda ctx: ctx.metas)) == 1
    with await connect(str(path)) as peer:
        await peer.send(b"still here")
        assert await peer.read(10) == b"still here"


def test_a_file_that_is_no_socket_is_left_alone(play: Play, path: Path) -> None:  # E10
    path.write_text("precious")

    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        for bad in (path, path.parent / "no such folder" / "sock", Path("/tmp") / ("x" * 200)):
            with pytest.raises(OSError, match=r"."):
                await scene.do(lambda ctx, bad=bad: ctx.spawn_meta(UnixServer(bad)))  # type: ignore[misc]
        assert await scene.do(lambda ctx: ctx.metas) == []

    play(program)
    assert path.read_text() == "precious"


async def test_a_server_that_ends_leaves_the_path_of_its_successor_alone(
    system: ActorSystem, path: Path
) -> None:  # E10
    scene = Scene(system)
    old = await scene.spawn(UnixServer(path))
    os.unlink(path)  # noqa: PTH108 - as one does who starts the next before the last has ended
    await scene.spawn(UnixServer(path, handler=Echo))
    old.stop()
    await old.terminated()
    with await connect(str(path)) as peer:
        await peer.send(b"mine")
        assert await peer.read(4) == b"mine"


async def test_a_client_connects_when_there_is_a_server(
    system: ActorSystem, clock: ManualClock, path: Path
) -> None:  # E10
    scene = Scene(system)
    client = await scene.spawn(UnixClient(path, reconnect=Backoff(min=1.0, max=1.0)))
    client.tell(Write(b"early"))
    await clock.advance(3)
    await scene.spawn(UnixServer(path, handler=Echo))
    await clock.advance(1)
    assert (await hear(scene, Connected)).alias == client
    assert await hear_bytes(scene, 5) == b"early"


async def test_a_client_that_finds_nobody_says_so(system: ActorSystem, path: Path) -> None:  # E10
    scene = Scene(system)
    client = await scene.spawn(UnixClient(path))
    closed = await hear(scene, Closed)
    assert (closed.alias, closed.reason) == (client, "connect failed")
    assert isinstance(closed.error, FileNotFoundError)
    assert (await scene.probe.expect(Ended)).ref == client


def test_options_that_make_no_sense_are_named() -> None:  # E10
    with pytest.raises(ConfigError, match="idle_timeout"):
        UnixServer("/tmp/x", idle_timeout=-1)
    with pytest.raises(ConfigError, match="linger"):
        UnixClient("/tmp/x", linger=-1)
