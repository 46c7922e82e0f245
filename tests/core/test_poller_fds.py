"""File descriptors whose readiness becomes messages, and those that cannot be watched."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from greenroom._core.limits import Limits
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.fdwatch import READ, WRITE
from greenroom.errors import LoopStopped, TooManyWatches, WatchError
from tests.core.props import take_down

if TYPE_CHECKING:
    from tests.core.conftest import Run, Stage


async def test_readiness_becomes_messages_until_unwatched(
    stage: Stage, pair: tuple[socket.socket, socket.socket]
) -> None:  # J12
    ours, theirs = pair
    got: asyncio.Queue[object] = asyncio.Queue()
    cell = stage.spawn(lambda _, message: got.put_nowait(message))
    fd = ours.fileno()
    stage.poller.watch(fd, READ, lambda events: cell.tell(ours.recv(100)))
    for data in (b"one", b"two"):
        theirs.send(data)
        assert await got.get() == data
    assert stage.poller.unwatch(fd) is True
    assert stage.poller.unwatch(fd) is False
    theirs.send(b"three")

    def on_writable(events: int) -> None:
        assert events == WRITE
        stage.poller.unwatch(fd)
        cell.tell("writable")

    stage.poller.watch(fd, WRITE, on_writable)
    assert await got.get() == "writable"
    assert got.empty()
    assert ours.recv(100) == b"three"


async def test_one_fd_can_be_watched_both_ways_but_only_once(
    stage: Stage, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    readable, writable = asyncio.Event(), asyncio.Event()

    def ready(events: int) -> None:
        if events & READ:
            readable.set()
        if events & WRITE:
            writable.set()

    stage.poller.watch(ours.fileno(), READ | WRITE, ready)
    with pytest.raises(WatchError, match="unwatch it first") as caught:
        stage.poller.watch(ours.fileno(), READ, print)
    assert (caught.value.fd, caught.value.code) == (ours.fileno(), "watch")
    await writable.wait()
    assert not readable.is_set()
    theirs.send(b"x")
    await readable.wait()
    stage.poller.unwatch(ours.fileno())


@pytest.mark.config(limits=Limits(max_io_watches=1))
async def test_no_more_fds_are_watched_than_the_limit_allows(
    stage: Stage, pair: tuple[socket.socket, socket.socket]
) -> None:  # J1
    ours, theirs = (end.fileno() for end in pair)
    with pytest.raises(WatchError):
        stage.poller.watch(-1, READ, print)  # a refused one takes up no room
    stage.poller.watch(ours, READ, print)
    with pytest.raises(TooManyWatches) as caught:
        stage.poller.watch(theirs, READ, print)
    assert (caught.value.limit, caught.value.code) == (1, "too_many_watches")
    stage.poller.unwatch(ours)
    stage.poller.watch(theirs, READ, print)


@pytest.mark.parametrize("kind", ["negative", "closed", "a file"])
@pytest.mark.parametrize("way", ["readable", "writable", "both"])
def test_an_fd_that_cannot_be_watched_is_an_error_to_the_caller_alone(
    run: Run, tmp_path: Path, kind: str, way: str
) -> None:  # J12
    (tmp_path / "file").touch()
    file = os.open(tmp_path / "file", os.O_RDONLY)

    async def main(stage: Stage) -> None:
        closed = os.dup(file)  # only now, or the event loop itself would get the number again
        os.close(closed)
        fd = {"negative": -1, "closed": closed, "a file": file}[kind]
        events = {"readable": READ, "writable": WRITE, "both": READ | WRITE}[way]
        for _ in range(2):  # the second time as well: nothing of the first is left
            with pytest.raises(WatchError) as caught:
                stage.poller.watch(fd, events, print)
            assert caught.value.fd == fd
        assert stage.poller.unwatch(fd) is False
        said: list[object] = []
        stage.spawn(take_down, said).tell("the loop goes on")
        await stage.poller.idle()
        assert said == ["the loop goes on"]

    try:
        run(main)
    finally:
        os.close(file)


async def test_a_watched_fd_may_be_closed_and_its_number_watched_again(stage: Stage) -> None:
    woken = asyncio.Event()
    ours, theirs = socket.socketpair()
    fd = ours.fileno()
    stage.poller.watch(fd, WRITE, lambda events: woken.set())
    await woken.wait()
    woken.clear()
    ours.close()
    theirs.close()
    await stage.settled()
    assert stage.poller.unwatch(fd) is True
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert fd in (ours.fileno(), theirs.fileno())
        reader, writer = (ours, theirs) if ours.fileno() == fd else (theirs, ours)
        stage.poller.watch(fd, READ, lambda events: woken.set())
        writer.send(b"x")
        await woken.wait()
        stage.poller.unwatch(reader.fileno())


async def test_a_paused_fd_is_not_heard_of_until_it_is_resumed(
    stage: Stage, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    fd = ours.fileno()
    heard: asyncio.Queue[int] = asyncio.Queue()

    def ready(events: int) -> None:
        stage.poller.pause(fd)
        heard.put_nowait(events)

    stage.poller.watch(fd, READ, ready)
    theirs.send(b"x")
    assert await heard.get() == READ
    await stage.settled()
    assert heard.empty()
    with pytest.raises(WatchError, match="unwatch it first"):
        stage.poller.watch(fd, READ, print)  # paused is watched
    assert stage.poller.resume(fd) is True
    assert await heard.get() == READ
    assert stage.poller.unwatch(fd) is True
    assert stage.poller.resume(fd) is False


async def test_a_paused_fd_that_was_closed_is_not_resumed_even_if_its_number_is_back(stage: Stage) -> None:
    ours, theirs = socket.socketpair()
    fd = ours.fileno()
    stage.poller.watch(fd, READ, print)
    stage.poller.pause(fd)
    ours.close()
    again, other = socket.socketpair()
    with theirs, again, other:
        assert again.fileno() == fd
        assert stage.poller.resume(fd) is False
        stage.poller.watch(fd, READ, print)
        # And of one that is not paused, the number is free as well.
        again.close()
        third, fourth = socket.socketpair()
        with third, fourth:
            assert third.fileno() == fd
            stage.poller.watch(fd, READ, print)
            assert stage.poller.unwatch(fd) is True


CLOSES_AT_ONCE = """
import asyncio, os, socket, sys
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller

async def main():
    poller = Poller(Loop())
    poller.attach()
    ours, theirs = socket.socketpair()
    fd = ours.fileno()
    poller.watch(fd, 1, print)
    ours.close()
    theirs.close()
    await asyncio.to_thread(int)  # the loop looks at its fds
    assert poller.unwatch(fd)
    poller.detach()
    print("alive")

if sys.argv[1] == "uvloop":
    from uvloop import new_event_loop
else:
    from asyncio import new_event_loop
with asyncio.Runner(loop_factory=new_event_loop) as runner:
    runner.run(main())
"""


def test_an_fd_closed_right_after_it_was_watched_does_not_crash_the_loop(run: Run) -> None:  # J12
    # In a process of its own, as it is the process that a crash ends.
    done = subprocess.run(
        [sys.executable, "-c", CLOSES_AT_ONCE, run.backend], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_detaching_unwatches_everything(run: Run, pair: tuple[socket.socket, socket.socket]) -> None:
    async def main(stage: Stage) -> None:
        fds = [end.fileno() for end in pair]
        for fd in fds:
            stage.poller.watch(fd, READ, lambda events: run.raised.append({"message": "watched still"}))
        stage.poller.detach()
        for end in pair:
            end.send(b"x")
        for _ in range(5):
            await asyncio.sleep(0)
        with pytest.raises(LoopStopped):
            stage.poller.watch(fds[0], READ, print)

    run(main)


async def test_readiness_reported_to_a_cell_that_has_ended_is_a_dead_letter(
    stage: Stage, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    woken = asyncio.Event()
    cell = stage.spawn(take_down, [])

    def on_readable(events: int) -> None:
        cell.tell(ours.recv(100))
        woken.set()

    stage.poller.watch(ours.fileno(), READ, on_readable)
    stage.loop.retire(cell)
    theirs.send(b"late")
    await woken.wait()
    assert [letter.message for letter in stage.script.dead_letters] == [b"late"]
    assert count_loop(stage.loop).dead_lettered == 1
