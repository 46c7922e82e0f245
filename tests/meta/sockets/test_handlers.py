"""One actor for each connection: made by the server, or found for one that waits in a `Register` (E10)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Backoff, Behaviors, Context, Supervision
from greenroom.actor.api.props import props
from greenroom.meta import Close, Closed, Connected, Fixed, Lines, Received, Register, StopListening, Write
from greenroom.testing import TestProbe, capture_logs
from tests.meta.owners import Echo, Ended, Reporter, Scene, emptied, hear, serve
from tests.meta.peers import connect

RESTARTS = Supervision(backoff=None, max_restarts=None)


async def test_each_connection_has_an_actor_of_its_own(system: ActorSystem) -> None:  # E12, E10, J13
    scene, witness = Scene(system), TestProbe(system)
    server, alias = await serve(scene, handler=props(Reporter, witness.ref), framing="lines")
    handlers: set[Any] = set()
    for number in range(3):
        with await connect(server.address) as peer:
            handler, up = await witness.receive()
            assert isinstance(up, Connected)
            assert up.peer == peer.sock.getsockname()
            assert handler.parent == alias
            await peer.send(b"%d\n" % number)
            await witness.expect((handler, Received(up.alias, b"%d" % number)))
            handlers.add(handler)
        await witness.expect((handler, Closed(up.alias, "eof")))
        await handler.terminated()
        await up.alias.terminated()
    assert len(handlers) == 3
    assert scene.probe.messages == []


def echo(ctx: Context, message: Any) -> None:
    if isinstance(message, Received):
        message.alias.tell(Write(message.data))


class AsyncEcho(Actor[Any, Any]):
    async def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            await asyncio.sleep(0)
            await message.alias.ask(Write(message.data))


@pytest.mark.parametrize("handler", [Echo, props(Echo), echo, AsyncEcho, Behaviors.receive(echo)])
async def test_a_handler_is_whatever_can_be_spawned(system: ActorSystem, handler: Any) -> None:  # E12, E10, J13
    scene = Scene(system)
    server, _ = await serve(scene, handler=handler)
    with await connect(server.address) as peer:
        for data in (b"one", b"two"):
            await peer.send(data)
            assert await peer.read(3) == data


async def test_a_handler_that_fails_has_its_connection_closed_and_others_go_on(system: ActorSystem) -> None:  # E12, E10
    scene, witness = Scene(system), TestProbe(system)
    server, alias = await serve(scene, handler=props(Reporter, witness.ref), framing="lines")
    with await connect(server.address) as bad, await connect(server.address) as good:
        (one, up), (two, other) = await witness.receive(), await witness.receive()
        first = up.peer == bad.sock.getsockname()
        failing, failing_up, living, living_up = (one, up, two, other) if first else (two, other, one, up)
        await bad.send(b"fail\n")
        assert await bad.cut_off() == b""
        reason = await failing.terminated()
        assert isinstance(reason.cause, ValueError)
        await failing_up.alias.terminated()
        await good.send(b"still here\n")
        await witness.expect((living, Received(living_up.alias, b"still here")))
        assert alias.is_alive
        assert await alias.inspect("connections") == {"connections": 1}


async def test_a_handler_that_is_restarted_goes_on_with_its_connection(system: ActorSystem) -> None:  # E12, E10
    scene, witness = Scene(system), TestProbe(system)
    options: dict[str, Any] = {"framing": "lines", "supervision": RESTARTS}
    server, _ = await serve(scene, handler=props(Reporter, witness.ref), **options)
    with await connect(server.address) as peer:
        handler, up = await witness.receive()
        for number in range(5):
            await peer.send(b"fail\n%d\n" % number)
            await witness.expect((handler, Received(up.alias, b"%d" % number)))
        up.alias.tell(Write(b"yes"))
        assert await peer.read(4) == b"yes\n"
    await witness.expect((handler, Closed(up.alias, "eof")))
    await handler.terminated()


async def test_a_handler_that_is_restarted_too_often_is_stopped_with_its_connection(
    system: ActorSystem,
) -> None:  # E12, E10
    scene, witness = Scene(system), TestProbe(system)
    limited = Supervision(max_restarts=2, within=1000.0, backoff=Backoff(min=0.0, max=0.0))
    server, alias = await serve(scene, handler=props(Reporter, witness.ref), framing="lines", supervision=limited)
    with await connect(server.address) as peer:
        handler, _ = await witness.receive()
        await peer.send(b"fail\n" * 3)
        assert await peer.cut_off() == b""
    await handler.terminated()
    with await connect(server.address):
        assert isinstance((await witness.receive())[1], Connected)
    assert alias.is_alive


class BadStart(Actor[Any, Any]):
    def pre_start(self) -> None:
        raise ValueError("a bad start")

    def receive(self, message: Any) -> None: ...


class BadMaking(BadStart):
    def __init__(self) -> None:
        raise ValueError("cannot even be made")


@pytest.mark.parametrize("handler", [BadStart, BadMaking])
async def test_a_handler_that_cannot_start_has_its_connection_closed(
    system: ActorSystem, handler: Any
) -> None:  # E12, E10
    scene = Scene(system)
    server, alias = await serve(scene, handler=handler)
    for _ in range(3):
        with await connect(server.address) as peer:
            assert await peer.cut_off() == b""
    await emptied(alias)
    await system.settle()
    assert system.actors() == [scene.probe.ref, scene.owner, alias]


async def test_a_connection_ends_with_its_handler_and_what_that_wrote_is_sent(system: ActorSystem) -> None:  # E12, E10
    class Brief(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            if isinstance(message, Received):
                for number in range(50):
                    message.alias.tell(Write(b"%02d" % number))
                self.ctx.stop()

    scene = Scene(system)
    server, _ = await serve(scene, handler=Brief)
    with await connect(server.address) as peer:
        await peer.send(b"go")
        assert await peer.rest() == b"".join(b"%02d" % number for number in range(50))


async def test_a_handler_that_fails_after_it_wrote_has_written(system: ActorSystem) -> None:  # E12, E10
    class LastWords(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            if isinstance(message, Received):
                message.alias.tell(Write(b"an error occurred"))
                raise ValueError("told to fail")

    scene = Scene(system)
    server, _ = await serve(scene, handler=LastWords)
    with await connect(server.address) as peer:
        await peer.send(b"go")
        assert await peer.rest() == b"an error occurred"


async def test_a_handler_handles_what_came_before_the_end(system: ActorSystem) -> None:  # E12, E10
    scene, witness = Scene(system), TestProbe(system)
    server, _ = await serve(scene, handler=props(Reporter, witness.ref), framing=Lines())
    with await connect(server.address) as peer:
        await peer.send(b"".join(b"%d\n" % number for number in range(500)))
    handler, up = await witness.receive()
    for number in range(500):
        await witness.expect((handler, Received(up.alias, b"%d" % number)))
    await witness.expect((handler, Closed(up.alias, "eof")))
    await handler.terminated()
    assert system.dead_letters.count == 0


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_handler_ends_with_its_connection_however_that_ends(system: ActorSystem, how: str) -> None:  # E12, E10
    scene, witness = Scene(system), TestProbe(system)
    server, _ = await serve(scene, handler=props(Reporter, witness.ref))
    with await connect(server.address) as peer:
        handler, up = await witness.receive()
        getattr(up.alias, how)()
        await up.alias.terminated()
        assert await peer.cut_off() == b""
        await handler.terminated()


async def test_a_handler_closes_its_connection_and_ends(system: ActorSystem) -> None:  # E12, E10
    scene, witness = Scene(system), TestProbe(system)
    server, alias = await serve(scene, handler=props(Reporter, witness.ref))
    with await connect(server.address) as peer:
        handler, up = await witness.receive()
        up.alias.tell(Write(b"bye"))
        up.alias.tell(Close())
        assert await peer.rest() == b"bye"
        await witness.expect((handler, Closed(up.alias, "closed")))
        await handler.terminated()
        alias.tell(StopListening())
        assert (await scene.probe.expect(Ended)).ref == alias


async def test_a_server_that_ends_ends_its_handlers(system: ActorSystem) -> None:  # E10, E12
    scene, witness = Scene(system), TestProbe(system)
    server, alias = await serve(scene, handler=props(Reporter, witness.ref))
    peers = [await connect(server.address) for _ in range(5)]
    told: list[tuple[ActorRef[Any, Any], Connected]] = [await witness.receive() for _ in peers]
    alias.stop()
    for peer in peers:
        with peer:
            assert await peer.cut_off() == b""
    await alias.terminated()
    assert not any(handler.is_alive or up.alias.is_alive for handler, up in told)


async def test_a_handler_that_fails_is_logged_once(system: ActorSystem) -> None:  # E12, E10
    scene, witness = Scene(system), TestProbe(system)
    server, _ = await serve(scene, handler=props(Reporter, witness.ref))
    with capture_logs() as logs, await connect(server.address) as peer:
        handler, _ = await witness.receive()
        await peer.send(b"fail")
        assert await peer.cut_off() == b""
        await handler.terminated()
        await system.settle()
    assert len([record for record in logs.records if record.levelno >= 30]) == 1


async def test_connections_that_are_idle_take_no_thread(system: ActorSystem) -> None:  # E12
    server, _ = await serve(Scene(system), handler=Echo)
    peers: list[Any] = []
    threads = set()
    try:
        for number in range(150):
            peers.append(await connect(server.address))
            await peers[-1].send(b"%3d" % number)
            assert await peers[-1].read(3) == b"%3d" % number
            threads.add(threading.active_count())
    finally:
        for peer in peers:
            peer.sock.close()
    assert len(threads) == 1


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
