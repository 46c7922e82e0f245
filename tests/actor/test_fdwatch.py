"""`ctx.watch_fd`: the readiness of a descriptor as messages, one at a time (J12)."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from greenroom import (
    READ,
    WRITE,
    ActorSystem,
    FdWatch,
    IoReady,
    Supervision,
)
from greenroom.testing import TestProbe
from tests.actor.fdwatchers import DISPATCHERS, AsyncWatcher, Pair, Watcher, do, reading
from tests.gates import Event


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


@DISPATCHERS
async def test_readiness_comes_as_messages_until_it_is_unwatched(
    system: ActorSystem, pair: Pair, dispatcher: Any
) -> None:  # J12
    ours, theirs = pair
    probe = TestProbe(system)
    ref = system.spawn(Watcher, probe.ref, reading(ours), dispatcher=dispatcher)
    watch = await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    assert isinstance(watch, FdWatch)
    assert (watch.fd, watch.once, watch.active) == (ours.fileno(), False, True)
    for _ in range(3):
        theirs.send(b"x")
        ready = await probe.expect(IoReady)
        assert (ready.fd, ready.events) == (ours.fileno(), READ)
    assert await do(ref, lambda ctx: ctx.unwatch_fd(ours)) is True
    assert await do(ref, lambda ctx: ctx.unwatch_fd(ours)) is False
    assert not watch.active
    theirs.send(b"y")
    await probe.expect_no()
    assert await do(ref, lambda ctx: ctx.watch_fd(ours.fileno(), READ)) is not watch
    await probe.expect(IoReady)


async def test_both_ways_are_told_apart(system: ActorSystem, pair: Pair) -> None:  # J12
    ours, theirs = pair
    probe = TestProbe(system)
    ref = system.spawn(Watcher, probe.ref)
    await do(ref, lambda ctx: ctx.watch_fd(ours, WRITE, once=True))
    assert (await probe.expect(IoReady)).events == WRITE
    await probe.expect_no()
    theirs.send(b"x")
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ | WRITE, once=True))
    assert (await probe.expect(IoReady)).events == READ | WRITE


async def test_one_that_does_not_read_has_one_message_at_a_time(system: ActorSystem, pair: Pair) -> None:  # J12
    ours, theirs = pair
    entered, go_on = Event(), Event()

    async def hold(ctx: Any, message: IoReady) -> None:
        entered.set()
        await go_on.wait()
        ours.recv(100)

    probe = TestProbe(system)
    ref = system.spawn(AsyncWatcher, probe.ref, hold)
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    theirs.send(b"x")
    await entered.wait()
    for _ in range(100):
        theirs.send(b"x")
        await asyncio.sleep(0)
    assert system.ledger(ref).queued == 0  # one is in hand, and there is no other
    assert len(probe.messages) == 1
    go_on.set()
    await probe.expect(IoReady)


async def test_a_queued_one_is_the_only_one(system: ActorSystem, pair: Pair) -> None:  # J12
    ours, theirs = pair
    gate, entered = Event(), Event()

    async def wait(ctx: Any) -> None:
        entered.set()
        await gate.wait()

    class Busy(AsyncWatcher):
        async def receive(self, message: Any) -> Any:
            return await wait(self.ctx) if message == "busy" else await super().receive(message)

    probe = TestProbe(system)
    ref = system.spawn(Busy, probe.ref, reading(ours))
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    ref.tell("busy")
    await entered.wait()
    theirs.send(b"x")
    while system.ledger(ref).queued == 0:  # noqa: ASYNC110 - until the loop has looked at its descriptors
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    assert system.ledger(ref).queued == 1
    gate.set()
    await probe.expect(IoReady)
    await probe.expect_no()


@pytest.mark.parametrize("how", ["unwatch_fd", "cancel", "stop", "restart"])
async def test_a_queued_one_is_withdrawn(system: ActorSystem, pair: Pair, how: str) -> None:  # J12
    ours, theirs = pair
    gate, entered = Event(), Event()

    class Busy(AsyncWatcher):
        async def receive(self, message: Any) -> Any:
            if message != "busy":
                return await super().receive(message)
            entered.set()
            await gate.wait()
            match how:
                case "unwatch_fd":
                    assert self.ctx.unwatch_fd(ours)
                case "cancel":
                    assert watches[0].cancel()
                    assert not watches[0].cancel()
                case "stop":
                    self.ctx.stop()
                case _:
                    raise ValueError("again")
            return None

    watches: list[FdWatch] = []
    probe = TestProbe(system)
    ref = system.spawn(Busy, probe.ref, supervision=Supervision(backoff=None))
    watches.append(await do(ref, lambda ctx: ctx.watch_fd(ours, READ)))
    ref.tell("busy")
    await entered.wait()
    theirs.send(b"x")
    while system.ledger(ref).queued == 0:  # noqa: ASYNC110 - until the loop has looked at its descriptors
        await asyncio.sleep(0)
    gate.set()
    await probe.expect_no()
    assert not watches[0].active
    assert ref.is_alive == (how != "stop")
    if how != "stop":
        assert await do(ref, lambda ctx: ctx.unwatch_fd(ours)) is False
    # It is free for another.
    other = system.spawn(Watcher, probe.ref)
    await do(other, lambda ctx: ctx.watch_fd(ours, READ, once=True))
    await probe.expect(IoReady)


@DISPATCHERS
async def test_one_shot_watches_are_over_after_one_message(
    system: ActorSystem, pair: Pair, dispatcher: Any
) -> None:  # J12
    ours, theirs = pair
    probe = TestProbe(system)
    ref = system.spawn(Watcher, probe.ref, dispatcher=dispatcher)
    theirs.send(b"x")
    for _ in range(3):
        watch = await do(ref, lambda ctx: ctx.watch_fd(ours, READ, once=True))
        await probe.expect(IoReady)
        await system.settle()
        assert not watch.active
        assert await do(ref, lambda ctx: ctx.unwatch_fd(ours)) is False


async def test_a_handler_may_watch_again_what_it_watched_once(system: ActorSystem, pair: Pair) -> None:  # J12
    ours, theirs = pair

    def again(ctx: Any, message: IoReady) -> None:
        if ours.recv(1) != b"!":
            ctx.unwatch_fd(ours)
            ctx.watch_fd(ours, READ, once=True)

    probe = TestProbe(system)
    ref = system.spawn(Watcher, probe.ref, again)
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ, once=True))
    theirs.send(b"abc!")
    for _ in range(4):
        await probe.expect(IoReady)
    await probe.expect_no()


@pytest.mark.parametrize("how", ["stop", "kill", "fail", "restart"])
@pytest.mark.config(max_io_watches=1)
async def test_the_end_of_the_actor_unwatches(system: ActorSystem, pair: Pair, how: str) -> None:  # J12
    ours, theirs = pair
    probe = TestProbe(system)
    ref: Any = system.spawn(Watcher, probe.ref)
    watch = await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    getattr(ref, how)(*([ValueError("bad")] if how == "fail" else []))
    if how != "restart":
        await ref.terminated()
    await system.settle()
    theirs.send(b"x")
    await probe.expect_no()
    assert (watch.active, watch.cancel()) == (False, False)
    assert "over" in repr(watch)
    other = system.spawn(Watcher, probe.ref)
    await do(other, lambda ctx: ctx.watch_fd(ours, READ, once=True))
    await probe.expect(IoReady)


async def test_a_handler_that_raises_goes_on_to_be_told_after_a_resume(system: ActorSystem, pair: Pair) -> None:  # J12
    from greenroom import Directive

    ours, theirs = pair

    def fail(ctx: Any, message: IoReady) -> None:
        ours.recv(1)
        raise ValueError("bad")

    probe = TestProbe(system)
    ref = system.spawn(Watcher, probe.ref, fail, supervision=Supervision(Directive.RESUME))
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    for _ in range(3):
        theirs.send(b"x")
        await probe.expect(IoReady)


async def test_what_a_peer_has_left_is_readable(system: ActorSystem, pair: Pair) -> None:  # J12
    ours, theirs = pair
    probe = TestProbe(system)
    ref = system.spawn(Watcher, probe.ref)
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ, once=True))
    theirs.close()
    assert (await probe.expect(IoReady)).events == READ
    assert ours.recv(1) == b""


async def test_a_pipe_without_a_reader_is_told_to_who_writes(system: ActorSystem) -> None:  # J12
    probe = TestProbe(system)
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        os.write(writing, b"x" * 65536)
        ref = system.spawn(Watcher, probe.ref)
        await do(ref, lambda ctx: ctx.watch_fd(writing, WRITE, once=True))
        os.close(reading)
        ready = await probe.expect(IoReady)
        assert ready.events & WRITE
    finally:
        os.close(writing)


@pytest.mark.config(max_io_watches=1)
async def test_it_is_watched_from_the_start_hook_as_well(system: ActorSystem, pair: Pair) -> None:  # J12
    ours, theirs = pair
    probe = TestProbe(system)
    supervision = Supervision(backoff=None)
    ref = system.spawn(Watcher, probe.ref, reading(ours), lambda ctx: ctx.watch_fd(ours, READ), supervision=supervision)
    for _ in range(3):
        theirs.send(b"x")
        await probe.expect(IoReady)
        ref.restart()
        await system.settle()


def test_messages_of_readiness_are_values() -> None:  # J12
    ready = IoReady(3, READ)
    assert ready == IoReady(3, READ)
    assert ready != IoReady(3, WRITE)
    assert ready != IoReady(4, READ)
    assert len({ready, IoReady(3, READ)}) == 1
    assert pickle.loads(pickle.dumps(ready)) == ready
    match ready:
        case IoReady(fd, events):
            assert (fd, events) == (3, READ)
    assert ready.readiness == READ
    assert "3" in repr(ready)
