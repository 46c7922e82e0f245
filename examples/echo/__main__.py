"""A TCP echo server: `python -m examples.echo --serve --port 7777`, then `nc 127.0.0.1 7777`.

Without `--serve` it talks to itself for a moment, and shows its tree.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time

from examples.echo.server import tree
from greenroom import ActorSystem, Supervisor


async def talk(address: tuple[str, int], rounds: int) -> int:
    """A client: send lines, and count those that come back."""
    reader, writer = await asyncio.open_connection(*address)
    for number in range(rounds):
        line = b"line %d\n" % number
        writer.write(line)
        assert await reader.readline() == line
    writer.close()
    await writer.wait_closed()
    return rounds


async def crash(address: tuple[str, int]) -> None:
    """A client that makes its own connection fail: no other notices."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"fail\n")
    assert await reader.read() == b""
    writer.close()


async def main(port: int, serve: bool, clients: int, rounds: int) -> None:
    """Start the server; serve until Ctrl-C, or talk to it."""
    async with ActorSystem("echo", handle_signals=serve) as system:
        system.spawn(Supervisor, tree(port), name="server")
        await system.settle()
        listener = system.actor("/server/listener")
        assert listener is not None
        address = (await listener.inspect())["address"]
        print(f"Listening on {address[0]}, port {address[1]}.")
        if serve:
            await system.stopped()
            return
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection(*address)  # one that stays, to be seen in the tree
        writer.write(b"hello\n")
        await reader.readline()
        echoed = await asyncio.gather(*(talk(address, rounds) for _ in range(clients)), crash(address))
        total = sum(one for one in echoed if one is not None)
        print(f"{clients} clients had {total:,} lines echoed in {time.perf_counter() - began:.2f} s; one crashed.")
        await system.settle()
        print(system.tree())
        writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="where to listen; any free port by default")
    parser.add_argument("--serve", action="store_true", help="serve until Ctrl-C")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20, help="lines that each client sends")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.CRITICAL)
    asyncio.run(main(options.port, options.serve, options.clients, options.rounds))
