"""`Register`: connections that wait for an owner, and are handed from one to another (E10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from tests.meta.cast import Scene
from tests.meta.sockets.peers import connect, hear, serve

if TYPE_CHECKING:
    from tests.conftest import Play


def test_a_connection_waits_to_be_registered_before_it_reads(play: Play) -> None:  # E10
    async def program(system: ActorSystem) -> None:
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

    play(program)


@pytest.mark.parametrize("register", [True, False])
def test_a_connection_ends_with_the_owner_it_was_handed_to(play: Play, register: bool) -> None:  # E10
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_a_connection_can_be_handed_on_and_back(play: Play) -> None:  # E10
    async def program(system: ActorSystem) -> None:
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

    play(program)


def test_a_connection_that_is_registered_with_one_who_has_ended_is_closed(play: Play) -> None:  # E10
    async def program(system: ActorSystem) -> None:
        scene, other = Scene(system), TestProbe(system)
        other.ref.stop()
        await other.ref.terminated()
        server, _ = await serve(scene, register=True)
        with await connect(server.address) as peer:
            up = await hear(scene, Connected)
            up.alias.tell(Register(other.ref))
            assert await peer.cut_off() == b""
            await up.alias.terminated()

    play(program)


@pytest.mark.parametrize("abort", [True, False])
def test_a_connection_that_waits_to_be_registered_can_be_closed(play: Play, abort: bool) -> None:  # E10
    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        server, alias = await serve(scene, register=True)
        with await connect(server.address) as peer:
            up = await hear(scene, Connected)
            up.alias.tell(Close(abort=abort))
            assert await peer.cut_off() == b""
            assert await hear(scene, Closed) == Closed(up.alias, "closed")
            await up.alias.terminated()
            assert await alias.inspect("connections") == {"connections": 0}

    play(program)
