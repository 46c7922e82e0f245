"""A chat in the browser: `python -m examples.chat --serve --port 8000`, then open http://127.0.0.1:8000.

Without `--serve`, two clients of its own talk to one another, and what they hear is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys

from examples.chat.room import Chat
from greenroom import Actor, ActorSystem, handles
from greenroom.meta import Closed, Received, WebSocketClient, WebSocketConnected, Write


class Visitor(Actor[object]):
    """A client: says who it is and what it has to say, and shows what it hears."""

    def __init__(self, name: str, says: list[str], url: str, heard: asyncio.Queue[str]) -> None:
        self.name, self.says, self.url, self.heard = name, says, url, heard

    def pre_start(self) -> None:
        """Connect."""
        self.alias = self.ctx.spawn_meta(WebSocketClient(self.url))

    @handles(WebSocketConnected)
    def begin(self, message: WebSocketConnected) -> None:
        """Say it all."""
        for text in [f"/name {self.name}", *self.says]:
            self.alias.tell(Write(text))

    @handles(Received)
    def hear(self, message: Received) -> None:
        """Show what was said."""
        said = json.loads(message.data)
        if said["from"]:
            self.heard.put_nowait(f"{self.name} hears {said['from']}: {said['text']}")

    @handles(Closed)
    def end(self, message: Closed) -> None:
        """The server is gone."""


async def main(port: int, serve: bool) -> None:
    """Open the chat; serve until Ctrl-C, or have two visitors talk."""
    async with ActorSystem("chat", handle_signals=serve) as system:
        chat = system.spawn(Chat, port, name="chat")
        await chat.started()
        host, number = (await chat.inspect())["address"]
        print(f"The chat is at http://{host}:{number}.", flush=True)
        if serve:
            await system.stopped()
            return
        heard: asyncio.Queue[str] = asyncio.Queue()
        url = f"ws://{host}:{number}/chat"
        system.spawn(Visitor, "Ada", ["Is anybody here?"], url, heard)
        print(await heard.get())  # what she said herself
        system.spawn(Visitor, "Bob", ["I am!"], url, heard)
        print(*sorted([await heard.get() for _ in range(3)]), sep="\n")
        print(system.tree())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="where to listen; any free port by default")
    parser.add_argument("--serve", action="store_true", help="serve until Ctrl-C")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.CRITICAL)
    asyncio.run(main(options.port, options.serve))
