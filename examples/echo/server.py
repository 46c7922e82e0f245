"""The actors of the echo server.

The tree, from the top:

    server                   a supervisor
    ├─ connections           a supervisor of its own, for one actor per connection
    │  └─ Connection ...     sends back what it gets
    └─ listener              owns the listening socket, and hands each connection to a new actor
       └─ TcpServer
          └─ TcpConnection ...

A connection whose actor fails is closed, and the others go on. If the listener fails, it is made again, and the
connections go on.
"""

from __future__ import annotations

from typing import Any

from greenroom import (
    Actor,
    ActorRef,
    ChildSpec,
    DynamicSupervisor,
    Restart,
    StartChild,
    Supervisor,
    SupervisorSpec,
    handles,
)
from greenroom.meta import Alias, Closed, Connected, Received, Register, TcpServer, Write


class Connection(Actor[object]):
    """One connection: sends back what it gets."""

    def __init__(self, alias: Alias) -> None:
        self.alias = alias

    def pre_start(self) -> None:
        """Watch the connection: it may be over before it has this owner."""
        self.ctx.watch(self.alias)

    @handles(Received)
    def echo(self, message: Received) -> None:
        """Send it back."""
        if message.data.startswith(b"fail"):
            raise ValueError("the other side said that this should fail")
        self.alias.tell(Write(message.data))

    @handles(Closed)
    def note_end(self, message: Closed) -> None:
        """The other side is gone."""

    def on_terminated(self, ref: ActorRef, cause: BaseException | None) -> None:
        """The connection is over."""
        self.ctx.stop()


class Listener(Actor[object]):
    """Takes connections, and has an actor made for each."""

    def __init__(self, port: int) -> None:
        self.server = TcpServer(port=port, register=True)

    def pre_start(self) -> None:
        """Listen."""
        self.alias = self.ctx.spawn_meta(self.server)

    @handles(Connected)
    async def hand_over(self, message: Connected) -> None:
        """Make a new actor the owner of the connection: nothing is read before."""
        connections: ActorRef[Any, Any] = self.ctx.system.actor("/server/connections")
        owner = await connections.ask(StartChild(message.alias))
        message.alias.tell(Register(owner))

    @handles(Closed)
    def forget(self, message: Closed) -> None:
        """The connection was closed before it had an owner."""

    def inspect(self, *items: str) -> dict[str, object]:
        """Where it listens."""
        return {"address": self.server.address}


def tree(port: int) -> SupervisorSpec:
    """The supervisor at the top, and those below it."""
    connection = ChildSpec("connection", Connection, restart=Restart.TEMPORARY)
    return Supervisor.spec(
        children=[
            ChildSpec("connections", DynamicSupervisor, args=(connection,)),
            ChildSpec("listener", Listener, args=(port,)),
        ]
    )
