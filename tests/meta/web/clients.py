"""Clients of WebSockets, and their owners."""

from __future__ import annotations

from typing import Any

from greenroom import ActorSystem, Alias
from greenroom.meta import WebSocketClient
from greenroom.testing import TestProbe
from tests.meta.web.stage import Owner, Ref, do

__all__ = ["Client", "begin"]


class Client:
    """A client, and a probe that hears what its owner hears."""

    def __init__(self, system: ActorSystem) -> None:
        self.probe = TestProbe(system)
        self.owner: Ref = system.spawn(Owner, self.probe.ref)
        self.alias: Alias

    async def begin(self, url: str, **options: Any) -> Client:
        client = WebSocketClient(url, **options)
        self.alias = await do(self.owner, lambda ctx: ctx.spawn_meta(client))
        return self

    async def stop(self) -> None:
        self.alias.stop()
        await self.alias.terminated()


async def begin(system: ActorSystem, url: str, **options: Any) -> Client:
    return await Client(system).begin(url, **options)
