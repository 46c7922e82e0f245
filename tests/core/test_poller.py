"""A loop inside asyncio: attached and detached, one tick at a time, and the descriptors that it watches."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler import poller as polling
from greenroom._core.scheduler.accounting import count_loop
from greenroom._core.scheduler.fdwatch import READ, WRITE
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.errors import AlreadyAttached, LoopStopped, WatchError, WrongThread
from tests.core.kit import ONE_AT_A_TIME, take_down

if TYPE_CHECKING:
    from tests.core.conftest import Run, Stage, Threads


# Attaching and detaching
def test_what_was_told_before_attaching_is_handled_after(run: Run) -> None:
    async def main() -> None:
        loop, said = Loop(), list[object]()
        loop.spawn(take_down, said).tell("early")
        poller = Poller(loop)
        await poller.idle()  # not attached: there is nothing to wait for
        assert said == []
        poller.attach()
        await poller.idle()
        poller.detach()
        assert said == ["early"]

    run.bare(main)


async def test_a_poller_is_attached_once(stage: Stage) -> None:
    with pytest.raises(AlreadyAttached, match="attached already"):
        stage.poller.attach()
    said: list[object] = []
    stage.spawn(take_down, said).tell("m")
    await stage.poller.idle()
    assert said == ["m"]


async def test_a_loop_is_attached_by_one_poller_at_a_time(stage: Stage) -> None:
    second = Poller(stage.loop)
    with pytest.raises(AlreadyAttached):
        second.attach()
    second.detach()  # it holds nothing, so it takes nothing away
    said: list[object] = []
    stage.spawn(take_down, said).tell("m")
    await stage.poller.idle()
    assert said == ["m"]


def test_a_closed_loop_cannot_be_attached(run: Run) -> None:
    async def main() -> None:
        loop = Loop()
        loop.close()
        poller = Poller(loop)
        with pytest.raises(LoopStopped, match="make a new one") as caught:
            poller.attach()
        assert caught.value.code == "loop_stopped"
        await poller.idle()

    run.bare(main)


def test_an_attempt_to_attach_outside_asyncio_changes_nothing(run: Run) -> None:
    loop, said = Loop(), list[object]()
    poller = Poller(loop)
    with pytest.raises(RuntimeError):
        poller.attach()
    loop.spawn(take_down, said).tell("m")
    loop.run_until_idle()

    async def main() -> None:
        poller.attach()
        await poller.idle()
        poller.detach()

    run.bare(main)
    assert said == ["m"]


def test_an_attempt_to_attach_in_the_middle_of_a_tick_changes_nothing(run: Run) -> None:
    async def main() -> None:
        loop, refusals = Loop(), list[object]()
        poller = Poller(loop)

        def rash(_: object, message: object) -> None:
            with pytest.raises(WrongThread) as caught:
                poller.attach()
            refusals.append(caught.value)

        loop.spawn(rash).tell("m")
        loop.run_until_idle()
        assert len(refusals) == 1
        poller.attach()
        await poller.idle()
        poller.detach()

    run.bare(main)


async def test_a_detached_loop_does_not_tick_and_keeps_what_is_queued(stage: Stage) -> None:
    said: list[object] = []
    cell = stage.spawn(take_down, said)
    cell.tell("one")
    stage.poller.detach()
    stage.poller.detach()  # a second time is harmless
    cell.tell("two")
    for _ in range(5):
        await asyncio.sleep(0)
    assert said == []
    assert stage.counts().queued == 2
    stage.loop.run_until_idle()
    assert said == ["one", "two"]


def test_a_poller_can_be_attached_again_on_another_event_loop(run: Run) -> None:
    loop, said = Loop(), list[object]()
    poller, cell = Poller(loop), loop.spawn(take_down, said)

    async def main() -> None:
        poller.attach()
        cell.tell(len(said))
        await poller.idle()
        poller.detach()

    for _ in range(3):
        run.bare(main)
    assert said == [0, 1, 2]


async def test_a_sync_handler_may_detach_the_poller(stage: Stage) -> None:
    said: list[object] = []

    def leaver(_: object, message: object) -> None:
        said.append(message)
        stage.poller.detach()

    cell = stage.spawn(leaver)
    cell.tell("one")
    await stage.poller.idle()
    cell.tell("two")
    await asyncio.sleep(0)
    assert said == ["one"]


def test_a_failing_tick_does_not_stop_the_ticks(run: Run) -> None:
    async def main(stage: Stage) -> None:
        said: list[object] = []

        def broken(cell: Any, message: object, cause: BaseException) -> None:
            raise OSError("the host itself fails")

        stage.script.failed = broken  # type: ignore[method-assign]
        stage.spawn(lambda _, message: 1 / 0).tell("m")
        stage.spawn(take_down, said).tell("after")
        await stage.settled()
        assert said == ["after"]
        assert [type(context["exception"]) for context in run.raised] == [OSError]
        run.raised.clear()

    run(main)


# The thread is shared with asyncio
def test_asyncio_has_its_turn_between_any_two_ticks(run: Run) -> None:
    async def main(stage: Stage) -> None:
        handled = 0

        def restless(_: object, message: object) -> None:
            nonlocal handled
            handled += 1
            cell.tell(message)

        cell = stage.spawn(restless)
        cell.tell("again")
        await asyncio.sleep(0)
        turns = []
        for _ in range(50):
            await asyncio.sleep(0)
            turns.append(handled)
        stage.loop.retire(cell)
        steps = [after - before for before, after in pairwise(turns)]
        assert max(steps) <= 1  # one tick is one message here
        assert sum(steps) > 10

    run(main, limits=ONE_AT_A_TIME)


async def test_sockets_are_served_under_a_flood_of_messages(
    stage: Stage, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair
    cells: list[Cell] = []

    def again(index: int, message: object) -> None:
        cells[index].tell(message)

    for _ in range(10):
        cells.append(stage.spawn(again, len(cells)))
        cells[-1].tell("again")
    theirs.send(b"through")
    assert await asyncio.get_running_loop().sock_recv(ours, 100) == b"through"
    for cell in cells:
        stage.loop.retire(cell)


# Threads
def test_the_loop_belongs_to_the_thread_that_attaches_it(run: Run, threads: Threads) -> None:
    loop, handled_by = Loop(), list[int]()
    cell = loop.spawn(lambda _, message: handled_by.append(threading.get_ident()))
    done: list[asyncio.Event] = []
    attached = threading.Event()
    aio: list[asyncio.AbstractEventLoop] = []

    async def elsewhere() -> None:
        poller = Poller(loop)
        poller.attach()
        done.append(asyncio.Event())
        aio.append(asyncio.get_running_loop())
        attached.set()
        async with asyncio.timeout(120.0):
            await done[0].wait()
        await poller.idle()
        poller.detach()

    thread = threads.start(lambda: run.bare(elsewhere))
    assert attached.wait(120)
    try:
        cell.tell("from the thread that made the loop")
        for forbidden in (loop.tick, loop.run_until_idle, loop.close, lambda: loop.spawn(print)):
            with pytest.raises(WrongThread):
                forbidden()
        with pytest.raises(WrongThread):
            loop.retire(cell)
        with pytest.raises(WrongThread):
            loop.start_timer(1.0, cell, "tick")
    finally:
        aio[0].call_soon_threadsafe(done[0].set)
    threads.join()
    assert handled_by == [thread.ident]
    loop.adopt()
    cell.tell("at home again")
    loop.run_until_idle()
    assert handled_by == [thread.ident, threading.get_ident()]


def test_a_tick_on_one_thread_hinders_none_on_another(run: Run, threads: Threads) -> None:
    in_hand, go_on = threading.Event(), threading.Event()

    def hold_the_tick(_: object, message: object) -> None:
        in_hand.set()
        assert go_on.wait(120)

    threads.start(lambda: run.bare(lambda: _handle_one_message(run, hold_the_tick)))
    assert in_hand.wait(120)
    try:
        run.bare(lambda: _handle_one_message(run, lambda _, message: None))
    finally:
        go_on.set()
    threads.join()


async def _handle_one_message(run: Run, handler: Any) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, context: run.raised.append(context))
    loop = Loop()
    poller = Poller(loop)
    poller.attach()
    loop.spawn(handler).tell("m")
    async with asyncio.timeout(120.0):
        await poller.idle()
    poller.detach()
    assert run.raised == []
    assert count_loop(loop).handled == 1


@pytest.mark.parametrize("ending", ["taken up again", "closed"])
async def test_nothing_that_threads_send_around_a_detach_is_lost(
    stage: Stage, threads: Threads, ending: str
) -> None:  # J15
    senders, each = 4, 500
    said: list[tuple[int, int]] = []
    enough = asyncio.Event()
    go = threading.Event()

    def actor(_: object, message: tuple[int, int]) -> None:
        said.append(message)
        if len(said) == each:
            enough.set()

    cell = stage.spawn(actor)

    def sender(number: int) -> None:
        go.wait(120)
        for n in range(each):
            cell.tell((number, n))

    for number in range(senders):
        threads.start(partial(sender, number))
    go.set()
    await enough.wait()
    stage.poller.detach()
    if ending == "closed":
        stage.loop.close()  # while some are sending still
    threads.join()
    stage.loop.run_until_idle()
    dead: list[Any] = [letter.message for letter in stage.script.dead_letters]
    assert len(said) + len(dead) == senders * each
    assert (dead == []) is (ending == "taken up again") or len(said) == senders * each
    for number in range(senders):
        heard = [n for who, n in said if who == number]
        # What the mailbox still held and what comes too late are dead letters on two threads, in either order.
        unheard = sorted(n for who, n in dead if who == number)
        assert heard + unheard == list(range(each))


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


STEP = 0.001
INTERVAL = 0.005
MESSAGES = 100
HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()


class HandClock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """The time."""
        return self.time


class Handed:
    """Counts how often the GIL was given up for long enough."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        monkeypatch.setattr(polling, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        """Called instead of `time.sleep`."""
        assert 0.0 < seconds < INTERVAL
        self.times += 1


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Handed]:
    """With the switch interval that interpreters start with."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(INTERVAL)
    yield Handed(monkeypatch)
    sys.setswitchinterval(before)


@pytest.fixture
def other() -> Iterator[threading.Thread]:
    """Another thread."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    yield thread
    end.set()
    thread.join()


async def play(clock: HandClock, rests: bool) -> None:
    """A hundred messages; with a sleep after each, or none."""
    loop = Loop(clock=clock)
    poller = Poller(loop)
    poller.attach()

    def handle(left: list[int], message: Any) -> None:
        clock.time += STEP
        left[0] -= 1
        if left[0] and not rests:
            cell.tell(message)

    left = [MESSAGES]
    cell = loop.spawn(handle, left)
    cell.tell("go on")
    await poller.idle()
    while left[0]:
        cell.tell("go on")
        await poller.idle()
    poller.detach()


@pytest.mark.skipif(not HAS_GIL, reason="there is no GIL")
@pytest.mark.usefixtures("other")
def test_a_busy_loop_gives_it_up_once_in_each_switch_interval(run: Run, handed: Handed) -> None:
    run.bare(lambda: play(HandClock(), rests=False))
    assert 10 <= handed.times <= 20  # ticks of two or three milliseconds, so once in six or seven


@pytest.mark.usefixtures("other")
def test_one_that_sleeps_again_and_again_need_not(run: Run, handed: Handed) -> None:
    run.bare(lambda: play(HandClock(), rests=True))
    assert handed.times == 0


def test_nor_does_one_without_other_threads(run: Run, handed: Handed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "active_count", lambda: 1)  # the test runner has some
    run.bare(lambda: play(HandClock(), rests=False))
    assert handed.times == 0


@pytest.mark.skipif(HAS_GIL, reason="there is a GIL")
@pytest.mark.usefixtures("other")
def test_nor_does_any_where_there_is_no_gil(run: Run, handed: Handed) -> None:
    run.bare(lambda: play(HandClock(), rests=False))
    assert handed.times == 0
