"""An actor whose port runs a script, in a simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from greenroom import Actor, ActorRef, ActorSystem, Alias, MailboxConfig
from greenroom.meta import (
    Close,
    CloseWrite,
    Exited,
    MetaOptions,
    Output,
    Port,
    SendSignal,
    Write,
)
from greenroom.testing import FakePeer, FakeProgram

__all__ = ["SEEDS", "Owner", "Stage", "rest"]

SEEDS = range(20)


class Owner(Actor[Any, Any]):
    """Has a port, and keeps what it hears, when its gate is open; what is for the port, it passes on."""

    def __init__(
        self,
        make: Callable[[], Port],
        heard: list[Any],
        options: MetaOptions | None = None,
        gate: asyncio.Event | None = None,
    ) -> None:
        self.make, self.heard, self.options, self.gate = make, heard, options, gate

    def pre_start(self) -> None:
        self.alias = self.ctx.spawn_meta(self.make, self.options)

    async def receive(self, message: Any) -> Any:
        if message == "alias":
            return self.alias
        if isinstance(message, Write | CloseWrite | Close | SendSignal):
            self.alias.tell(message)
        else:
            if self.gate is not None:
                await self.gate.wait()
            self.heard.append(message)
        return None

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.heard.append(cause)


class Stage:
    """A system with an owner whose port runs a script."""

    def __init__(self, system: ActorSystem, script: Any, **faults: Any) -> None:
        self.system = system
        self.heard: list[Any] = []
        self.peer = FakePeer(system, **faults)
        self.peer.program("prog", script)

    async def begin(
        self,
        *arguments: str,
        meta: MetaOptions | None = None,
        mailbox: MailboxConfig | None = None,
        gate: asyncio.Event | None = None,
        **options: Any,
    ) -> Alias:
        """Have the owner run it."""
        make = lambda: Port(["prog", *arguments], **options)  # noqa: E731
        self.owner = self.system.spawn(Owner, make, self.heard, meta, gate, mailbox=mailbox)
        alias: Alias = await self.owner.ask("alias")
        return alias

    async def end(self, alias: Alias) -> Exited:
        """When all is over: the last message of the port."""
        await alias.terminated()
        await self.system.settle()
        messages = [one for one in self.heard if isinstance(one, Output | Exited)]
        assert [type(one) for one in messages[:-1]] == [Output] * (len(messages) - 1)
        assert isinstance(messages[-1], Exited)
        return messages[-1]

    def lines(self, stream: str = "stdout") -> list[Any]:
        """What was written to one of the streams."""
        return [one.data for one in self.heard if isinstance(one, Output) and one.stream == stream]


async def rest(program: FakeProgram) -> None:
    await asyncio.Event().wait()
