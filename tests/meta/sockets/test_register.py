"""`Register`: connections that wait for an owner, and are handed from one to another (E10)."""

from __future__ import annotations

import pytest

from greenroom import ActorSystem
from greenroom.meta import (
    Close,
    Closed,
    Connected,
    Fixed,
    Received,
    Register,
)
from greenroom.testing import TestProbe
from tests.meta.owners import Scene, hear, serve
from tests.meta.peers import connect


async def test_a_connection_waits_to_be_registered_before_it_reads(system: ActorSystem) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    server, _ = await serve(scene, register=True, framing=Fixed(1))
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        await peer.send(b"abc")
        await scene.probe.expect_no(within=0.02)
        up.alias.tell(Register(other.ref))
        assert [(await other.expect(Received)).data for _ in range(3)] == [b"a", b"b", b"c"]
    await other.expect(Closed(up.alias, "eof"))
    await up.alias.terminated()
    assert scene.probe.messages == []


@pytest.mark.parametrize("register", [True, False])
async def test_a_connection_ends_with_the_owner_it_was_handed_to(system: ActorSystem, register: bool) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    server, _ = await serve(scene, register=register)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        await up.alias.ask(Register(other.ref))
        await peer.send(b"x")
        await other.expect(Received(up.alias, b"x"))
        other.ref.stop()
        assert await peer.cut_off() == b""
        await up.alias.terminated()


async def test_a_connection_can_be_handed_on_and_back(system: ActorSystem) -> None:  # E10
    scene, one, two = Scene(system), TestProbe(system), TestProbe(system)
    server, _ = await serve(scene, framing=Fixed(1))
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        for data, probe in [(b"1", one), (b"2", two), (b"3", one)]:
            await up.alias.ask(Register(probe.ref))
            await peer.send(data)
            await probe.expect(Received(up.alias, data))
        two.ref.stop()  # it is none of its business any more
        await two.ref.terminated()
        await up.alias.ask(Register(scene.owner))
        one.ref.stop()
        await one.ref.terminated()
        await peer.send(b"4")
        assert await hear(scene, Received) == Received(up.alias, b"4")
    await hear(scene, Closed)


async def test_a_connection_that_is_registered_with_one_who_has_ended_is_closed(system: ActorSystem) -> None:  # E10
    scene, other = Scene(system), TestProbe(system)
    other.ref.stop()
    await other.ref.terminated()
    server, _ = await serve(scene, register=True)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        up.alias.tell(Register(other.ref))
        assert await peer.cut_off() == b""
        await up.alias.terminated()


@pytest.mark.parametrize("abort", [True, False])
async def test_a_connection_that_waits_to_be_registered_can_be_closed(system: ActorSystem, abort: bool) -> None:  # E10
    scene = Scene(system)
    server, alias = await serve(scene, register=True)
    with await connect(server.address) as peer:
        up = await hear(scene, Connected)
        up.alias.tell(Close(abort=abort))
        assert await peer.cut_off() == b""
        assert await hear(scene, Closed) == Closed(up.alias, "closed")
        await up.alias.terminated()
        assert await alias.inspect("connections") == {"connections": 0}
