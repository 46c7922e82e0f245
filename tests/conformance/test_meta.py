"""Meta-processes: how they end, and with them all they have open; what they may not do."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Alias, ExitKind, ExitReason, Lane
from greenroom.errors import (
    MetaCannotAsk,
    MetaCannotCompress,
    MetaCannotLink,
    MetaCannotMonitor,
    MetaCannotReply,
    MetaCannotSetLane,
    MetaCannotSpawnActors,
    MetaCannotWatch,
    MetaEnded,
)
from greenroom.meta import Compression, LengthPrefixed, MetaProcess, Received, TcpClient, TcpServer, Write
from greenroom.testing import TestProbe
from tests.conftest import Play
from tests.gates import Event, turns
from tests.meta.owners import emptied
from tests.meta.peers import Peer, connect

Ref = ActorRef[Any, Any]
BAD = ValueError("bad")


class Parent(Actor[Any, Any]):
    """Has one meta-process, and takes down what it is told of it."""

    def __init__(self, meta: Any, told: list[Any]) -> None:
        self.meta = meta
        self.told = told

    def receive(self, message: Any) -> Any:
        if message == "spawn":
            return self.ctx.spawn_meta(self.meta)
        return message(self.ctx) if callable(message) else self.told.append(message)

    def on_child_terminated(self, ref: Ref, cause: BaseException | None) -> None:
        self.told.append((ref, cause))


async def spawn(system: ActorSystem, meta: Any, told: list[Any]) -> tuple[Ref, Alias]:
    parent: Ref = system.spawn(Parent, meta, told)
    alias: Alias = await parent.ask("spawn", timeout=None)
    await alias.started()
    return parent, alias


def reads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if " reads /" in thread.name]


class Reading(MetaProcess):
    """Reads until the end, or until something is amiss; then returns, or raises."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.begun = Event()
        self.reasons: list[ExitReason] = []

    def start(self) -> Any:
        self.begun.set()
        while data := self.sock.recv(100):
            self.judge(data)

    def judge(self, data: bytes) -> None:
        if data.endswith(b"bad"):
            raise BAD

    def handle_message(self, message: Any) -> Any:
        self.send(self.parent, ("handled", message))

    def terminate(self, reason: ExitReason) -> Any:
        self.reasons.append(reason)


class AsyncReading(Reading):
    def init(self) -> None:
        self.sock.setblocking(False)

    async def start(self) -> None:
        self.begun.set()
        while data := await asyncio.get_running_loop().sock_recv(self.sock, 100):
            self.judge(data)

    async def handle_message(self, message: Any) -> None:
        super().handle_message(message)

    async def terminate(self, reason: ExitReason) -> None:
        super().terminate(reason)


KINDS = pytest.mark.parametrize("kind", [Reading, AsyncReading])


@pytest.mark.real
@KINDS
@pytest.mark.parametrize("fails", [False, True])
async def test_when_start_is_over_the_handler_ends_and_the_parent_is_told(
    system: ActorSystem, kind: type[Reading], fails: bool
) -> None:  # case 66, E2, E5, E6
    ours, theirs = socket.socketpair()
    with ours, theirs:
        told: list[Any] = []
        meta = kind(ours)
        parent, alias = await spawn(system, meta, told)
        alias.tell(1)
        await system.settle()
        assert told == [("handled", 1)]
        theirs.sendall(b"good")
        theirs.sendall(b"bad") if fails else theirs.shutdown(socket.SHUT_WR)
        reason = await alias.terminated()
        assert reason == (ExitReason(ExitKind.FAIL, BAD) if fails else ExitReason(ExitKind.NORMAL))
        await system.settle()
        assert told == [("handled", 1), (alias, BAD if fails else None)]
        assert meta.reasons == [reason]
        assert parent.is_alive
        assert await parent.ask(lambda ctx: ctx.metas, timeout=None) == []
        alias.tell(2)
        await system.settle()
        assert told[2:] == []
        assert reads() == []
        assert ours.fileno() == -1


ENDS: dict[str, tuple[Callable[[Ref], None], ExitReason]] = {
    "stop": (ActorRef.stop, ExitReason(ExitKind.NORMAL)),
    "kill": (ActorRef.kill, ExitReason(ExitKind.KILLED)),
    "fail": (lambda ref: ref.fail(BAD), ExitReason(ExitKind.FAIL, BAD)),
}


@pytest.mark.real
@KINDS
@pytest.mark.parametrize("how", ENDS)
def test_when_the_parent_ends_a_blocked_read_is_broken_off(play: Play, kind: type[Reading], how: str) -> None:
    # case 66, E2, E5, E6
    ours, theirs = socket.socketpair()

    async def program(system: ActorSystem) -> None:
        meta = kind(ours)
        parent, alias = await spawn(system, meta, [])
        await meta.begun.wait()
        act, reason = ENDS[how]
        act(parent)
        assert await parent.terminated() == reason
        assert await alias.terminated() == reason
        assert meta.reasons == [reason]
        assert reads() == []
        assert ours.fileno() == -1

    with theirs:
        play(program)
        theirs.setblocking(False)
        assert theirs.recv(1) == b""  # the other side sees that it is closed


@pytest.mark.real
def test_when_the_parent_ends_the_read_of_a_pipe_is_broken_off(play: Play) -> None:  # case 66, E2, E5, E6
    reading, writing = os.pipe()

    class Pipe(MetaProcess):
        def __init__(self) -> None:
            self.begun = Event()
            self.file = os.fdopen(reading, "rb", buffering=0)

        def start(self) -> None:
            self.begun.set()
            self.wait_readable(self.file)

    async def program(system: ActorSystem) -> None:
        meta = Pipe()
        parent, alias = await spawn(system, meta, [])
        await meta.begun.wait()
        parent.stop()
        await parent.terminated()
        assert not alias.is_alive
        assert reads() == []
        assert meta.file.closed

    try:
        play(program)
        with pytest.raises(BrokenPipeError):
            os.write(writing, b"x")  # nobody has it open any more
    finally:
        os.close(writing)


@pytest.mark.real
@KINDS
async def test_when_the_system_ends_a_blocked_read_is_broken_off(system: ActorSystem, kind: type[Reading]) -> None:
    # case 66, E2, E5, E6
    ours, theirs = socket.socketpair()
    metas: list[Reading] = []
    with theirs:
        metas.append(kind(ours))
        await spawn(system, metas[0], [])
        await metas[0].begun.wait()
        await system.shutdown()
    assert metas[0].reasons == [ExitReason(ExitKind.SHUTDOWN)]
    assert reads() == []
    assert ours.fileno() == -1


# -- what it may not do


class Other(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


def set_lane(meta: Any, other: Ref) -> None:
    meta.send_lane = Lane.LOG


def set_compression(meta: Any, other: Ref) -> None:
    meta.compression = Compression(enabled=True)


FORBIDDEN: dict[str, tuple[Callable[[Any, Ref], Any], type[Exception], str]] = {
    "ask": (lambda meta, other: meta.ask(other, 1), MetaCannotAsk, "handle_message"),
    "ask by a ref": (lambda meta, other: other.ask_sync(1), MetaCannotAsk, "handle_message"),
    "link": (lambda meta, other: meta.link(other), MetaCannotLink, "handle_message"),
    "monitor": (lambda meta, other: meta.monitor(other), MetaCannotMonitor, "handle_message"),
    "watch": (lambda meta, other: meta.watch(other), MetaCannotWatch, "handle_message"),
    "spawn an actor": (lambda meta, other: meta.spawn(Other), MetaCannotSpawnActors, "handle_message"),
    "defer a reply while asleep": (lambda meta, other: meta.defer_reply(), MetaCannotReply, "start"),
    "set the lane while asleep": (set_lane, MetaCannotSetLane, "start"),
    "set the compression while asleep": (set_compression, MetaCannotCompress, "start"),
    "spawn after the end": (lambda meta, other: meta.spawn(Trying(other, id, "")), MetaEnded, "terminate"),
}


class Trying(MetaProcess):
    """Tries something in one of its callbacks, and keeps what was raised."""

    def __init__(self, other: Ref, attempt: Callable[..., Any], where: str) -> None:
        self.other = other
        self.attempt = attempt
        self.where = where
        self.raised: list[BaseException] = []
        self.tried = Event()

    def attempt_in(self, where: str) -> None:
        if where == self.where:
            try:
                self.attempt(self, self.other)
            except Exception as exc:
                self.raised.append(exc)
            self.tried.set()

    def start(self) -> None:
        self.attempt_in("start")
        self.wait()

    def handle_message(self, message: Any) -> None:
        self.attempt_in("handle_message")

    def terminate(self, reason: ExitReason) -> None:
        self.attempt_in("terminate")


@pytest.mark.real
@pytest.mark.parametrize("what", FORBIDDEN)
async def test_each_forbidden_operation_raises_an_error_of_its_own(system: ActorSystem, what: str) -> None:
    # case 67, E2, E5, E6
    attempt, error, where = FORBIDDEN[what]
    other = system.spawn(Other)
    meta = Trying(other, attempt, where)
    _, alias = await spawn(system, meta, [])
    if where == "handle_message":
        alias.tell("now")
    elif where == "terminate":
        alias.stop()
    await meta.tried.wait()
    assert [type(one) for one in meta.raised] == [error]
    assert meta.raised[0].ref == alias  # type: ignore[attr-defined]
    assert system.ledger(other).sent == 0
    if where != "terminate":
        alias.tell("again")
        await system.settle()
        assert alias.is_alive  # what it may not do has not ended it


@pytest.mark.real
def test_the_errors_of_forbidden_operations_differ() -> None:  # case 67, E2, E5, E6
    errors = {error for _, error, _ in FORBIDDEN.values()}
    assert len(errors) == 9
    assert len({error.code for error in errors}) == 9  # type: ignore[attr-defined]


CONNECTIONS = 1000
FRAMED = LengthPrefixed(2)


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            message.alias.tell(Write(message.data))


class Front(Actor[Any, Any]):
    """Has a server, and knows where."""

    def __init__(self, **options: Any) -> None:
        self.server = TcpServer(**options)

    def pre_start(self) -> None:
        self.alias = self.ctx.spawn_meta(self.server)

    def receive(self, message: Any) -> Any:
        return self.alias, self.server.address


def open_now() -> tuple[int, set[threading.Thread]]:
    """How many descriptors are open, and which threads there are."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())), set(threading.enumerate())


async def talk(peer: Peer, seed: int) -> int:
    """Say something and hear it again, some times; or stop in the midst of it. How often it was heard."""
    chance = random.Random(seed)
    heard = 0
    for _ in range(chance.randrange(1, 5)):
        frame = FRAMED.encode(chance.randbytes(chance.randrange(0, 2000)))
        cut_off = chance.random()
        if cut_off < 0.1:
            await peer.send(frame[: chance.randrange(len(frame))])  # within a frame
            break
        await peer.send(frame)
        if cut_off < 0.2:
            break  # within its answer
        assert await peer.read(len(frame)) == frame
        heard += 1
    if chance.random() < 0.5:
        peer.reset()
    else:
        peer.sock.close()
    return heard


@pytest.mark.real
@pytest.mark.at_home
@pytest.mark.parametrize("framing", [None, FRAMED], ids=["raw", "framed"])
async def test_a_thousand_connections_are_answered_and_cut_off_and_nothing_is_left(
    system: ActorSystem, framing: Any
) -> None:  # case 68, E10, J13
    async def once(system: ActorSystem, connections: int) -> int:
        front = system.spawn(Front, handler=Echo, framing=framing)
        alias, address = await front.ask("where?", timeout=None)
        peers = [await connect(address) for _ in range(connections)]
        heard = await asyncio.gather(*(talk(peer, seed) for seed, peer in enumerate(peers)))
        await emptied(alias)
        assert await alias.inspect("taken", timeout=None) == {"taken": connections}
        front.stop()
        await front.terminated()
        assert system.actors() == []
        return sum(heard)

    await once(system, 1)  # what is opened once, and kept, is open now
    before = open_now()
    assert await once(system, CONNECTIONS) > CONNECTIONS
    while open_now() != before:  # asyncio closes sockets some turns later; the deadline of `play` bounds this
        await turns(1)


class Caller(Actor[Any, Any]):
    """Has a client that says something; tells what it hears, until that is all."""

    def __init__(self, address: Any, done: Any, data: bytes) -> None:
        self.address = address
        self.done = done
        self.data = data
        self.heard = b""

    def pre_start(self) -> None:
        client = self.ctx.spawn_meta(TcpClient(*self.address))
        client.tell(Write(self.data))

    def receive(self, message: Any) -> None:
        if isinstance(message, Received):
            self.heard += message.data
            if len(self.heard) >= len(self.data):
                self.done.tell(self.heard == self.data)
                self.ctx.stop()


@pytest.mark.real
async def test_clients_and_servers_of_one_system_talk_to_each_other(system: ActorSystem) -> None:  # case 68, E10, J13
    probe = TestProbe(system)
    front = system.spawn(Front, handler=Echo)
    _, address = await front.ask("where?", timeout=None)
    chance = random.Random(68)
    callers = [
        system.spawn(Caller, address, probe.ref, chance.randbytes(chance.randrange(1, 30_000))) for _ in range(50)
    ]
    for _ in callers:
        await probe.expect(True)
    for caller in callers:
        await caller.terminated()
