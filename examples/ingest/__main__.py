"""Log lines from files and sockets to SQLite, while any part is killed at any moment: `python -m examples.ingest`.

With `--serve` it only ingests, until Ctrl-C: the files `*.log` of a folder, and what clients send to the port.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import socket
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.ingest.clients import Client, make_files, make_lines
from examples.ingest.store import Store
from examples.ingest.tree import OFTEN, SHARDS, database, tree
from examples.ingest.trouble import Trouble
from greenroom import ActorSystem, Supervision, Supervisor

DEADLINE = 300.0


async def serve(folder: Path, port: int) -> None:
    """Ingest until Ctrl-C."""
    async with ActorSystem("ingest", handle_signals=True) as system:
        print("Listening on port", await listen(system, folder, port), flush=True)
        await system.stopped()


async def listen(system: ActorSystem, folder: Path, port: int) -> int:
    """Start all of it. Returns the port, which stays the same over restarts."""
    if port == 0:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    again = Supervision(max_restarts=OFTEN)  # a supervisor fails when one of its children cannot even start
    system.spawn(Supervisor, tree(folder, port), name="ingest", supervision=again)
    return port


async def show(folder: Path, options: argparse.Namespace) -> None:
    """Ingest files and what some clients send, and make trouble."""
    chance = random.Random(options.seed)
    make_files(folder, options.files, options.lines, chance)
    clients = [Client(f"client-{number}", make_lines(options.lines // 4, chance)) for number in range(4)]
    began = time.perf_counter()
    async with ActorSystem("ingest") as system, asyncio.timeout(DEADLINE):
        port = await listen(system, folder, options.port)
        trouble = Trouble(system, chance)
        await asyncio.gather(
            trouble.make(options.kills, options.pause), *(client.run("127.0.0.1", port) for client in clients)
        )
        while not is_read(folder):
            await asyncio.sleep(0.02)
            trouble.look()
        seconds = time.perf_counter() - began
        await system.settle()
        print(system.tree())
    verify(folder, clients)
    report(folder, clients, trouble, seconds)


def is_read(folder: Path) -> bool:
    """Whether every file is in, to its end."""
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.log")}
    for shard in range(SHARDS):
        store = Store(database(folder, shard))
        positions = {name: store.position(name) for name in sizes}
        store.close()
        if positions != sizes:
            return False
    return True


def verify(folder: Path, clients: list[Client]) -> None:
    """Every line of the files, and every line that was acknowledged, is in the index; each once."""
    found: list[tuple[str, int]] = []
    counted = 0
    for shard in range(SHARDS):
        store = Store(database(folder, shard))
        found += store.keys()
        counted += sum(count for _, _, count in store.counts())
        store.close()
    expected = {(f"client {client.name}", number) for client in clients for number in client.acknowledged}
    for path in folder.glob("*.log"):
        position = 0
        for line in path.read_bytes().splitlines(keepends=True):
            expected.add((path.name, position))
            position += len(line)
    assert len(found) == len(set(found)) == counted, "each line once"
    assert set(found) >= expected, "none is missing"


def report(folder: Path, clients: list[Client], trouble: Trouble, seconds: float) -> None:
    """The figures."""
    stores = [Store(database(folder, shard)) for shard in range(SHARDS)]
    lines = sum(len(store.keys()) for store in stores)
    windows = len({window for store in stores for window, _, _ in store.counts()})
    for store in stores:
        store.close()
    struck = ", ".join(f"{kind} {count}" for kind, count in sorted(trouble.struck.items()))
    depths = ", ".join(f"{kind} {depth}" for kind, depth in sorted(trouble.deepest.items()) if depth)
    print(
        f"{lines:,} lines in {windows} windows, {lines / seconds:,.0f} lines/s. None is missing, none is there twice."
    )
    print(f"{sum(trouble.struck.values())} parts were struck: {struck}.")
    print(f"{sum(client.connections for client in clients)} connections of {len(clients)} clients.")
    print(f"Most messages that waited at an actor: {depths}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help="ingest until Ctrl-C, and make no trouble")
    parser.add_argument("--folder", type=Path, help="where the files are, and the databases; a fresh one by default")
    parser.add_argument("--port", type=int, default=0, help="where to listen; any free port by default")
    parser.add_argument("--files", type=int, default=3)
    parser.add_argument("--lines", type=int, default=10_000, help="lines of each file")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two kills, about")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, level=logging.CRITICAL)
    with TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        asyncio.run(serve(folder, options.port) if options.serve else show(folder, options))
