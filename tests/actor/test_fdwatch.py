"""`ctx.watch_fd`: the readiness of a descriptor as messages, one at a time, and what cannot be watched (J12)."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from greenroom import READ, WRITE, Actor, ActorRef, ActorSystem, FdWatch, IoReady, MailboxConfig, Overflow, Supervision
from greenroom.errors import BadArgument, TooManyWatches, WatchError
from greenroom.testing import TestProbe
from tests.gates import Event

Ref = ActorRef[Any, Any]
DISPATCHERS = pytest.mark.parametrize("dispatcher", [None, "parallel", "pinned"])


class Watcher(Actor[Any, Any]):
    """Does with its context what a message says; tells a witness of each `IoReady`, then does what it is for."""

    def __init__(self, witness: Ref, on_ready: Any = None, first: Any = None) -> None:
        self.witness = witness
        self.on_ready = on_ready
        self.first = first

    def pre_start(self) -> None:
        if self.first is not None:
            self.first(self.ctx)

    def receive(self, message: Any) -> Any:
        if isinstance(message, IoReady):
            self.witness.tell(message)
            return None if self.on_ready is None else self.on_ready(self.ctx, message)
        if callable(message):
            try:
                return message(self.ctx), None
            except Exception as exc:
                return None, exc
        self.witness.tell(message)
        return None


class AsyncWatcher(Watcher):
    async def receive(self, message: Any) -> Any:
        done = super().receive(message)
        return await done if asyncio.iscoroutine(done) else done


async def do(ref: Ref, action: Any) -> Any:
    result, error = await ref.ask(action, timeout=None)
    if error is not None:
        raise error
    return result


Pair = tuple[socket.socket, socket.socket]


def reading(sock: socket.socket) -> Any:
    """What a watcher does to take in what has come: one byte, for the next may be there before this one is taken."""
    return lambda ctx, message: sock.recv(1)


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


@DISPATCHERS
@pytest.mark.parametrize("kind", ["negative", "closed", "a file", "a closed socket"])
@pytest.mark.config(max_io_watches=1)
async def test_what_cannot_be_watched_is_an_error_to_the_caller_alone(
    system: ActorSystem, tmp_path: Path, pair: Pair, kind: str, dispatcher: Any
) -> None:  # J12
    ours, theirs = pair
    (tmp_path / "file").touch()
    probe = TestProbe(system)
    ref = system.spawn(Watcher, probe.ref, reading(ours), dispatcher=dispatcher)
    await do(ref, id)  # or its thread, which opens something too, would get the number that is closed
    with (tmp_path / "file").open() as file, socket.socket() as gone:
        closed = os.dup(file.fileno())
        os.close(closed)
        gone.close()
        what: Any = {"negative": -1, "closed": closed, "a file": file, "a closed socket": gone}[kind]
        for _ in range(2):
            with pytest.raises(WatchError):
                await do(ref, lambda ctx: ctx.watch_fd(what, READ))
            assert await do(ref, lambda ctx: ctx.unwatch_fd(what)) is False
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    theirs.send(b"x")
    await probe.expect(IoReady)


@pytest.mark.parametrize("fd", ["1", None, 1.5, object(), True])
async def test_what_is_no_descriptor_is_refused(system: ActorSystem, fd: Any) -> None:  # J12
    ref = system.spawn(Watcher, TestProbe(system).ref)
    with pytest.raises(BadArgument, match="descriptor"):
        await do(ref, lambda ctx: ctx.watch_fd(fd, READ))


@pytest.mark.parametrize("interest", [0, 4, 8, -1, True, "r", None, READ | WRITE | 4])
async def test_an_interest_is_to_read_or_to_write(system: ActorSystem, pair: Pair, interest: Any) -> None:  # J12
    ref = system.spawn(Watcher, TestProbe(system).ref)
    with pytest.raises(BadArgument, match="READ"):
        await do(ref, lambda ctx: ctx.watch_fd(pair[0], interest))


@pytest.mark.config(max_io_watches=3)
async def test_no_more_are_watched_than_the_limit_allows(system: ActorSystem) -> None:  # J1, J12
    probe = TestProbe(system)
    ref = system.spawn(Watcher, probe.ref)
    with ExitStack() as stack:
        socks = [stack.enter_context(one) for _ in range(2) for one in socket.socketpair()]
        for sock in socks[:3]:
            await do(ref, lambda ctx, sock=sock: ctx.watch_fd(sock, READ))
        with pytest.raises(TooManyWatches) as caught:
            await do(ref, lambda ctx: ctx.watch_fd(socks[3], READ))
        assert caught.value.limit == 3
        assert await do(ref, lambda ctx: ctx.unwatch_fd(socks[3])) is False
        await do(ref, lambda ctx: ctx.unwatch_fd(socks[0]))
        await do(ref, lambda ctx: ctx.watch_fd(socks[3], READ))
        for sock in socks:
            await do(ref, lambda ctx, sock=sock: ctx.unwatch_fd(sock))


async def test_a_descriptor_is_watched_by_one_actor_at_a_time(system: ActorSystem, pair: Pair) -> None:  # J12
    ours, theirs = pair
    probes = [TestProbe(system), TestProbe(system)]
    one, two = (system.spawn(Watcher, probe.ref, reading(ours)) for probe in probes)
    await do(one, lambda ctx: ctx.watch_fd(ours, READ))
    for ref in (one, two):
        with pytest.raises(WatchError, match="unwatch it first"):
            await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    assert await do(two, lambda ctx: ctx.unwatch_fd(ours)) is False  # it is not its own
    theirs.send(b"x")
    await probes[0].expect(IoReady)
    # By another number, it is watched by both.
    with socket.socket(fileno=os.dup(ours.fileno())) as copy:
        await do(two, lambda ctx: ctx.watch_fd(copy, READ, once=True))
        await do(one, lambda ctx: ctx.unwatch_fd(ours))
        theirs.send(b"x")
        await probes[1].expect(IoReady)


@pytest.mark.parametrize("overflow", list(Overflow))
async def test_a_full_mailbox_loses_nothing(system: ActorSystem, pair: Pair, overflow: Overflow) -> None:  # J12, J7
    ours, theirs = pair
    gate, entered = Event(), Event()

    class Busy(AsyncWatcher):
        async def receive(self, message: Any) -> Any:
            if message == "busy":
                entered.set()
                return await gate.wait()
            return await super().receive(message)

    probe = TestProbe(system)
    box = MailboxConfig(capacity=2, overflow=overflow)
    ref = system.spawn(Busy, probe.ref, reading(ours), mailbox=box)
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    ref.tell("busy")
    await entered.wait()
    ref.tell("one")
    ref.tell("two")
    theirs.send(b"x")
    for _ in range(50):
        await asyncio.sleep(0)
    gate.set()
    await probe.expect("one")
    await probe.expect("two")
    await probe.expect(IoReady)
    theirs.send(b"x")
    await probe.expect(IoReady)


async def test_a_full_mailbox_of_one_that_ends_is_no_trouble(system: ActorSystem, pair: Pair) -> None:  # J12
    ours, theirs = pair
    gate, entered = Event(), Event()

    class Busy(AsyncWatcher):
        async def receive(self, message: Any) -> Any:
            if message == "busy":
                entered.set()
                await gate.wait()
                self.ctx.stop()
                return None
            return await super().receive(message)

    probe = TestProbe(system)
    ref = system.spawn(Busy, probe.ref, mailbox=MailboxConfig(capacity=1))
    await do(ref, lambda ctx: ctx.watch_fd(ours, READ))
    ref.tell("busy")
    await entered.wait()
    ref.tell("one")
    theirs.send(b"x")
    for _ in range(50):
        await asyncio.sleep(0)
    gate.set()
    await ref.terminated()
    await probe.expect_no()


# -- descriptors that are closed behind its back
@pytest.mark.parametrize("watched", ["armed", "in hand"])
async def test_one_that_is_closed_while_it_is_watched_never_crashes(system: ActorSystem, watched: str) -> None:  # J12
    probe = TestProbe(system)
    for _ in range(3):
        ours, theirs = socket.socketpair()
        fd = ours.fileno()
        ref = system.spawn(Watcher, probe.ref, lambda ctx, message, sock=ours: sock.close())
        watch = await do(ref, lambda ctx, sock=ours: ctx.watch_fd(sock, READ))
        if watched == "armed":
            ours.close()
        else:
            theirs.send(b"x")
            await probe.expect(IoReady)
        theirs.close()
        await system.settle()
        if watched == "in hand":
            assert not watch.active  # it was found to be gone
        # Its number is another's now, who has nothing to do with it.
        again, other = socket.socketpair()
        with again, other:
            assert fd in (again.fileno(), other.fileno())
            mine, far = (again, other) if again.fileno() == fd else (other, again)
            second = system.spawn(Watcher, probe.ref, reading(mine))
            await do(second, lambda ctx, sock=mine: ctx.watch_fd(sock, READ))
            await do(ref, lambda ctx, fd=fd: ctx.unwatch_fd(fd))
            far.send(b"x")
            assert (await probe.expect(IoReady)).fd == fd
            second.stop()
            await second.terminated()
        ref.stop()
        await ref.terminated()
    await probe.expect_no()


async def test_the_end_of_one_whose_number_is_anothers_leaves_the_other_alone(system: ActorSystem) -> None:  # J12
    probe = TestProbe(system)
    ours, theirs = socket.socketpair()
    fd = ours.fileno()
    stale = system.spawn(Watcher, probe.ref)
    await do(stale, lambda ctx: ctx.watch_fd(ours, READ))
    ours.close()
    theirs.close()
    again, other = socket.socketpair()
    with again, other:
        mine, far = (again, other) if again.fileno() == fd else (other, again)
        assert mine.fileno() == fd
        ref = system.spawn(Watcher, probe.ref, reading(mine))
        await do(ref, lambda ctx: ctx.watch_fd(mine, READ))
        stale.stop()
        await stale.terminated()
        far.send(b"x")
        assert (await probe.expect(IoReady)).fd == fd
        ref.stop()
        await ref.terminated()
