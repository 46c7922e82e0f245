"""The ingestion pipeline: no line that was acknowledged is lost, whatever is killed (J17)."""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import socket
import sqlite3
import sys
from pathlib import Path

import pytest

from examples.ingest.__main__ import is_read, show, verify
from examples.ingest.clients import Client, make_files, make_lines
from examples.ingest.indexer import Indexer
from examples.ingest.merger import Merger
from examples.ingest.messages import Batch, Join, Passed, Record, Stored
from examples.ingest.store import Store
from examples.ingest.tree import SHARDS, database
from greenroom import ActorSystem
from greenroom.testing import TestProbe

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 120.0


def stored(folder: Path) -> list[tuple[str, int, float, int]]:
    """Source, number, time and window of all lines."""
    found = []
    for shard in range(SHARDS):
        connection = sqlite3.connect(database(folder, shard))
        found += connection.execute("SELECT source, number, time, window FROM lines").fetchall()
        connection.close()
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_line_is_lost_whatever_is_killed(tmp_path: Path, seed: int) -> None:  # J17
    options = argparse.Namespace(seed=seed, files=2, lines=1200, kills=25, pause=0.03, port=0)
    asyncio.run(show(tmp_path, options))
    found = stored(tmp_path)
    assert len(found) == 2 * 1200 + 4 * 300
    assert {window for *_, window in found} == {int(time // 10.0) for _, _, time, _ in found}


def test_a_verification_that_misses_a_line_says_so(tmp_path: Path) -> None:
    make_files(tmp_path, 1, 10, random.Random(1))
    for shard in range(SHARDS):
        Store(database(tmp_path, shard)).close()
    with pytest.raises(AssertionError, match="none is missing"):
        verify(tmp_path, [])


def test_a_window_that_is_written_twice_is_counted_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "index.sqlite")
    batch = Batch(
        1, 7, [Record("a.log", 0, 71.0, "web-1", "GET /"), Record("a.log", 25, 72.0, "web-2", "GET /")], {"a.log": 50}
    )
    assert [store.write(batch), store.write(batch)] == [2, 0]
    assert store.counts() == [(7, "web-1", 1), (7, "web-2", 1)]
    assert (store.position("a.log"), store.position("b.log")) == (50, 0)
    store.close()


@pytest.mark.anyio
async def test_a_line_that_two_heads_pass_on_is_acknowledged_to_both(tmp_path: Path) -> None:  # J17
    """The client has sent it again, and the head of its last connection is still at work."""
    async with ActorSystem() as system, asyncio.timeout(PATIENCE):
        indexer = system.spawn(Indexer, tmp_path / "index.sqlite", name="indexer", dispatcher="pinned")
        merger = system.spawn(Merger, indexer.path, 10.0)
        epoch = await merger.ask(Join(), timeout=None)
        heads = [TestProbe(system), TestProbe(system)]
        for head in heads:
            merger.tell(Passed(epoch, Record("client a", 7, 71.0, "web-1", "GET /", head.ref)))
        for head in heads:
            assert await head.receive() == Stored([7])
        assert (await indexer.inspect())["lines"] == 1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


async def serve(folder: Path, port: int) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "examples.ingest", "--serve", "--folder", str(folder), "--port", str(port)),
        stdout=asyncio.subprocess.PIPE,
        cwd=REPOSITORY,
    )
    assert process.stdout is not None
    assert (await process.stdout.readline()).startswith(b"Listening")
    return process


def test_no_acknowledged_line_is_lost_when_the_whole_process_is_killed(tmp_path: Path) -> None:  # J17
    chance = random.Random(7)
    make_files(tmp_path, 2, 3000, chance)
    clients = [Client(f"client-{number}", make_lines(3000, chance)) for number in range(2)]

    async def program() -> None:
        port = free_port()
        feeding = asyncio.gather(*(client.run("127.0.0.1", port) for client in clients))
        for part in range(1, 4):
            process = await serve(tmp_path, port)
            while not all(len(client.acknowledged) > part * 500 for client in clients):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            process.send_signal(signal.SIGKILL)
            await process.wait()
            verify_acknowledged(tmp_path, clients)
        process = await serve(tmp_path, port)
        await feeding
        while not is_read(tmp_path):  # noqa: ASYNC110 - another process reads them
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        verify(tmp_path, clients)

    asyncio.run(asyncio.wait_for(program(), PATIENCE))


def verify_acknowledged(folder: Path, clients: list[Client]) -> None:
    """What a client was told is safe is in the files of the databases of a process that is gone."""
    found = {(source, number) for source, number, _, _ in stored(folder)}
    assert found >= {(f"client {client.name}", number) for client in clients for number in client.acknowledged}
