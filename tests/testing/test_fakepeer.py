"""`FakePeer`: servers and clients in simulations, with delays, split pieces and cut-offs from the seed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Backoff, Context, Directive, Supervision
from greenroom.errors import BadArgument, ConfigError
from greenroom.meta import (
    Closed,
    Connected,
    Datagram,
    Fixed,
    HttpRequest,
    Lines,
    Received,
    SendTo,
    TcpClient,
    TcpServer,
    UdpServer,
    WebServer,
    Write,
)
from greenroom.meta.simulated.network import SimulatedListener, network_of
from greenroom.testing import FakeConnection, FakePeer, Simulation

SERVER = ("127.0.0.1", 7)
SEEDS = range(20)


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            message.alias.tell(Write(message.data))


class Owner(Actor[Any, Any]):
    """Has a meta-process, and keeps what it hears."""

    def __init__(self, make: Any, heard: list[Any] | None = None) -> None:
        self.meta = make()
        self.heard = [] if heard is None else heard

    def pre_start(self) -> None:
        self.alias = self.ctx.spawn_meta(self.meta)

    def receive(self, message: Any) -> Any:
        if message == "alias":
            return self.alias
        if isinstance(message, Write):
            self.alias.tell(message)
        else:
            self.heard.append(message)
        return None


async def serve(system: ActorSystem, **options: Any) -> Any:
    owner = system.spawn(Owner, lambda: TcpServer(port=7, handler=Echo, **options))
    return await owner.ask("alias")


async def talk_for_ever(connection: FakeConnection) -> None:
    while True:
        connection.send(b"x")
        await connection.read_exactly(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_split_and_delayed_on_the_way_arrives_whole_and_in_order(seed: int) -> None:  # B1
    lines = [b"%d %s\n" % (number, b"x" * number) for number in range(30)]

    async def program(system: ActorSystem) -> list[bytes]:
        await serve(system, framing=Lines())
        connection = await FakePeer(system, delay=(0.0, 0.5), split=True).connect(SERVER)
        for line in lines:
            connection.send(line)
        return [await connection.read_until(b"\n") for _ in lines]

    assert Simulation(seed=seed).run(program) == lines


def test_a_seed_replays_the_network_and_another_one_differs() -> None:  # B1
    async def program(system: ActorSystem) -> bytes:
        await serve(system, framing=Fixed(1))
        connection = await FakePeer(system, delay=(0.0, 1.0), split=True).connect(SERVER)
        connection.send(bytes(range(50)))
        return await connection.read_exactly(50)

    def digest(seed: int) -> str:
        simulation = Simulation(seed=seed)
        assert simulation.run(program) == bytes(range(50))
        return str(simulation.trace.digest)

    first = [digest(seed) for seed in range(4)]
    assert [digest(seed) for seed in range(4)] == first
    assert len(set(first)) > 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_connection_that_is_cut_is_lost_on_both_sides_and_leaves_no_actor(seed: int) -> None:  # B1
    async def program(system: ActorSystem) -> None:
        alias = await serve(system)
        connection = await FakePeer(system, delay=(0.0, 0.1), cut=0.2).connect(alias)
        with pytest.raises(ConnectionError):
            await talk_for_ever(connection)
        await connection.closed()
        await system.settle()
        assert await alias.inspect("connections") == {"connections": 0}
        assert len(system.actors()) == 2

    Simulation(seed=seed).run(program)


def test_a_client_connects_again_to_a_peer_that_comes_back() -> None:  # B1
    heard: list[Any] = []

    async def answer(connection: FakeConnection) -> None:
        connection.send(b"you said " + await connection.read_until(b"\n"))

    async def program(system: ActorSystem) -> None:
        peer = FakePeer(system)
        make = lambda: TcpClient("db", 5, framing=Lines(), reconnect=Backoff(min=1.0, max=1.0))  # noqa: E731
        owner = system.spawn(Owner, make, heard)
        owner.tell(Write(b"one"))
        await asyncio.sleep(5)  # of the simulation's own time
        assert heard == []
        peer.listen(("db", 5), answer)
        await asyncio.sleep(5)
        peer.stop_listening(("db", 5))

    Simulation(seed=3).run(program)
    kinds = [type(message) for message in heard]
    assert kinds[:3] == [Connected, Received, Closed]
    assert heard[1].data == b"you said one"
    assert kinds[3] is Connected  # and again, as long as it listens


def test_a_peer_that_closes_its_side_hears_the_rest() -> None:  # B1
    async def program(system: ActorSystem) -> tuple[bytes, bool]:
        await serve(system, half_open=True)
        connection = await FakePeer(system).connect(SERVER)
        connection.send(b"hello")
        connection.close_write()
        answer = await connection.read_exactly(5)
        connection.close()
        await system.settle()
        return answer, connection.is_closed

    assert Simulation(seed=1).run(program) == (b"hello", True)


def test_all_that_comes_while_nobody_reads_is_there_afterwards() -> None:  # B1
    class Slow(asyncio.Protocol):
        def __init__(self) -> None:
            self.received: list[bytes] = []

        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            transport.pause_reading()

        def data_received(self, data: bytes) -> None:
            self.received.append(data)

    async def program(system: ActorSystem) -> list[bytes]:
        slow = Slow()
        network = network_of(system._loop)
        assert network is not None
        SimulatedListener(network, SERVER).listen(lambda: slow)
        connection = await FakePeer(system, delay=1.0).connect(SERVER)
        for word in (b"one", b"two", b"three"):
            connection.send(word)
        await asyncio.sleep(5)
        assert slow.received == []
        slow.transport.resume_reading()
        connection.send(b"four")
        await asyncio.sleep(0.5)
        assert slow.received == [b"one", b"two", b"three"]
        await asyncio.sleep(0.5)
        return slow.received

    assert Simulation(seed=1).run(program) == [b"one", b"two", b"three", b"four"]


def test_packets_and_requests_pass_too() -> None:  # B1
    heard: list[Any] = []

    def hello(_: Context, request: HttpRequest) -> str:
        return f"hello {request.params['name']}"

    class Web(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.ctx.spawn_meta(WebServer(port=80, routes={"/{name}": self.ctx.spawn(hello)}))

        def receive(self, message: object) -> None: ...

    async def program(system: ActorSystem) -> bytes:
        peer = FakePeer(system)
        alias = await system.spawn(Owner, lambda: UdpServer(port=9), heard).ask("alias")
        await peer.send_packet(b"ping", ("127.0.0.1", 9), sender=("10.0.0.1", 1))
        assert await alias.ask(SendTo(b"to nobody", ("10.0.0.1", 1))) == 9
        await system.settle()
        assert [(one.data, one.peer) for one in heard if isinstance(one, Datagram)] == [(b"ping", ("10.0.0.1", 1))]
        system.spawn(Web)
        connection = await peer.connect(("127.0.0.1", 80))
        connection.send(b"GET /you HTTP/1.1\r\nhost: a\r\n\r\n")
        return await connection.read_until(b"hello you")

    assert Simulation(seed=1).run(program).startswith(b"HTTP/1.1 200 OK")


def test_two_servers_cannot_listen_on_one_address() -> None:
    async def program(system: ActorSystem) -> None:
        await serve(system)
        second = system.spawn(Owner, lambda: TcpServer(port=7, handler=Echo), supervision=Supervision(Directive.STOP))
        with pytest.raises(OSError, match="listens on"):
            await second.started()

    Simulation(seed=1).run(program)


def test_nobody_listens() -> None:
    async def program(system: ActorSystem) -> None:
        with pytest.raises(ConnectionRefusedError, match="nobody listens"):
            await FakePeer(system).connect(SERVER)

    Simulation(seed=1).run(program)


def test_a_system_that_had_a_peer_is_forgotten_when_its_simulation_is_over() -> None:
    systems: list[weakref.ref[ActorSystem]] = []

    async def program(system: ActorSystem) -> None:
        systems.append(weakref.ref(system))
        await serve(system)
        await FakePeer(system).connect(SERVER)

    Simulation(seed=1).run(program)
    gc.collect()
    assert [system() for system in systems] == [None]


def test_it_is_for_simulations_and_refuses_faults_that_make_no_sense() -> None:
    async def real() -> None:
        async with ActorSystem() as system:
            with pytest.raises(BadArgument, match="simulated"):
                FakePeer(system)

    async def simulated(system: ActorSystem) -> None:
        with pytest.raises(ConfigError, match="cut"):
            FakePeer(system, cut=1.5)
        with pytest.raises(ConfigError, match="delay"):
            FakePeer(system, delay=-1.0)

    asyncio.run(real())
    Simulation(seed=1).run(simulated)
