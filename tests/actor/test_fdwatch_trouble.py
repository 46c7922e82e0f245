"""`ctx.watch_fd`: what cannot be watched, limits, full mailboxes, and descriptors that are closed (J12)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from greenroom import (
    READ,
    WRITE,
    ActorSystem,
    IoReady,
    MailboxConfig,
    Overflow,
)
from greenroom.errors import BadArgument, TooManyWatches, WatchError
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
            assert (await probe.expect(IoReady, timeout=20.0)).fd == fd
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
        assert (await probe.expect(IoReady, timeout=20.0)).fd == fd
        ref.stop()
        await ref.terminated()
