"""Service handles between threads: one way, to and fro, and control messages that overtake a flood."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from benchmarks.latencies import PAUSE, report, work
from benchmarks.program import Report, expect, main, settle
from greenroom import Actor, Lane
from greenroom.pods import Handles, Pod, ServiceHandle, Troupe

PATIENCE = 600.0


class Meter:
    """Where the actors leave what the measuring thread wants to know."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.late: list[float] = []


METER = Meter()


class Sink(Actor[int, None]):
    """Waits for the last of the numbers, 0."""

    def receive(self, message: int) -> None:
        if not message:
            METER.done.set()


class Watched(Actor[float, None]):
    """Works on data, and notes how late control messages are: each is the time when it was sent."""

    def receive(self, message: float) -> None:
        if self.ctx.lane is Lane.CONTROL:
            METER.late.append(time.perf_counter() - message)
        else:
            work()


class PingPeers(Handles):
    """To whom `Ping` sends."""

    pong: ServiceHandle[int]


class PongPeers(Handles):
    """To whom `Pong` sends."""

    ping: ServiceHandle[int]


class Ping(Actor[int, None]):
    """Sends each number back, less one."""

    peers: PingPeers

    def receive(self, message: int) -> None:
        if message:
            self.peers.pong.send(message - 1)
        else:
            METER.done.set()


class Pong(Actor[int, None]):
    """The same, from the other side."""

    peers: PongPeers

    def receive(self, message: int) -> None:
        if message:
            self.peers.ping.send(message - 1)
        else:
            METER.done.set()


class Flooded(Troupe):
    """One pod, which others send to."""

    sink = Pod(Sink, expose=True)


class Guarded(Troupe):
    """One pod, which has control messages among a flood."""

    watched = Pod(Watched, expose=True)


class Pair(Troupe):
    """Two pods on two threads."""

    ping = Pod(Ping, expose=True)
    pong = Pod(Pong)


def flood(n: int) -> Report:
    """``n`` messages from a plain thread, from the first send until the last is handled."""
    with Flooded.new() as troupe:
        send = troupe.exposed().sink.send
        settle()
        start = time.perf_counter()
        for number in reversed(range(n)):
            send(number)
        METER.done.wait(PATIENCE)
        seconds = time.perf_counter() - start
        expect("messages handled", troupe.system.ledger().handled, n)
    return Report(n / seconds)


def pingpong(n: int) -> Report:
    """A number that goes to and fro ``n`` times."""
    with Pair.new() as troupe:
        settle()
        start = time.perf_counter()
        troupe.exposed().ping.send(n)
        METER.done.wait(PATIENCE)
        seconds = time.perf_counter() - start
    return Report(n / seconds)


def control(share: float, n: int) -> Report:
    """``n`` control messages, one by one, while another thread floods the data lane: how late that share of them is."""
    over = threading.Event()
    with Guarded.new() as troupe:
        handle = troupe.exposed().watched
        data = handle.clone()

        def fill() -> None:
            while not over.is_set():
                data.send(0.0)

        filler = threading.Thread(target=fill, daemon=True)
        filler.start()
        for _ in range(n):
            time.sleep(PAUSE)
            handle.send(time.perf_counter(), lane=Lane.CONTROL)
        over.set()
        filler.join(PATIENCE)
        troupe.system.settle_sync()
        expect("control messages handled", len(METER.late), n)
    return report(METER.late, share)


WORKS: dict[str, Callable[[int], Report]] = {
    "flood": flood,
    "pingpong": pingpong,
    "control50": partial(control, 0.50),
    "control99": partial(control, 0.99),
}


if __name__ == "__main__":
    main(WORKS[sys.argv.pop(1)])
