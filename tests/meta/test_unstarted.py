"""Meta-processes that end before they have started: they hold sockets and files from their `init` on (E2)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenroom import ActorSystem, ChildSpec, Shutdown, Supervisor, WhichChildren
from greenroom.meta import Alias, TcpServer
from greenroom.testing import TestProbe
from tests.gates import turns
from tests.meta.blocked import Props, blocked, wait, wait_async
from tests.meta.owners import BAD, Owner, Ref
from tests.meta.peers import Peer


@pytest.fixture
def props(tmp_path: Path) -> Iterator[Props]:
    made = Props(tmp_path)
    yield made
    made.close()


async def owner_without_time(system: ActorSystem) -> Ref:
    """An actor that its supervisor kills at once when it is to end."""
    child = ChildSpec("owner", Owner, (TestProbe(system).ref,), shutdown=Shutdown.KILL)
    boss = system.spawn(Supervisor, Supervisor.spec(children=[child], intensity=None))
    owner: Ref | None = (await boss.ask(WhichChildren()))[0].ref
    assert owner is not None
    return owner


def end(ref: Ref, how: str) -> None:
    if how == "fail":
        ref.fail(BAD)
    else:
        getattr(ref, how)()


@pytest.mark.parametrize("how", ["kill", "stop", "fail"])
@pytest.mark.parametrize("whose", ["its own", "its parent's"])
@pytest.mark.parametrize("block", [wait, wait_async])
async def test_it_terminates_all_the_same(
    system: ActorSystem, props: Props, block: Any, whose: str, how: str
) -> None:  # E2
    meta = blocked(props, block)
    spawned: list[Alias] = []

    def at_once(ctx: Any) -> None:
        spawned.append(ctx.spawn_meta(meta))
        end(spawned[0] if whose == "its own" else ctx.self, how)

    owner = await owner_without_time(system)
    owner.tell(at_once)
    while not spawned:  # noqa: ASYNC110
        await asyncio.sleep(0)
    await spawned[0].terminated()
    assert len(meta.reasons) == 1


@pytest.mark.parametrize("how", ["kill", "stop", "fail"])
@pytest.mark.parametrize("later", range(5))
async def test_a_connection_that_arrives_just_then_is_closed(system: ActorSystem, later: int, how: str) -> None:  # E10
    """The operating system makes connections before anybody has accepted them."""
    owner = await owner_without_time(system)
    server = TcpServer(register=True)
    alias: Alias = await owner.ask(lambda ctx: ctx.spawn_meta(server))
    await alias.started()
    peers = [Peer(socket.create_connection(server.address)) for _ in range(5)]
    await turns(later)
    end(owner, how)
    for peer in peers:
        await peer.cut_off()
        peer.sock.close()
    await alias.terminated()
