"""The listener: takes connections, and has a head made for each."""

from __future__ import annotations

from typing import Any

from greenroom import Actor, ActorRef, StartChild, handles
from greenroom.meta import Closed, Connected, Lines, Register, TcpServer


class Listener(Actor[object]):
    """Takes connections, and has a head made for each."""

    def __init__(self, port: int, connections: str) -> None:
        self.server = TcpServer(port=port, framing=Lines(), register=True)
        self.connections = connections

    def pre_start(self) -> None:
        """Listen."""
        self.alias = self.ctx.spawn_meta(self.server)
        self.ctx.watch(self.alias)

    @handles(Connected)
    async def hand_over(self, message: Connected) -> None:
        """Make a new head the owner."""
        message.alias.tell(Register(await self.ctx.system.actor(self.connections).ask(StartChild(message.alias))))

    @handles(Closed)
    def forget(self, message: Closed) -> None:
        """The connection was closed before it had an owner."""

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        """The server has ended (or that of the life before): a new life is to have a new one."""
        if ref == self.alias:
            raise ConnectionError("nobody listens any more")
