"""Pykka's side of the rows: ping-pong, flood, flood from four threads, ask.

Run as ``python -m benchmarks.peers.pykka_programs WORK --n N``.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from benchmarks.program import Report, main, require, settle

THREADS = 4


def pingpong(n: int) -> Report:
    """About ``n`` messages between two actors, each counting down and sending back."""
    pykka = require("pykka")
    actor: Any = pykka.ThreadingActor
    over = threading.Event()
    players: list[Player] = []

    class Player(actor):  # type: ignore[misc]
        use_daemon_thread = True
        peer: Any

        def __init__(self, returns: int) -> None:
            super().__init__()
            self.left = returns
            players.append(self)

        def on_receive(self, message: object) -> None:
            if self.left:
                self.left -= 1
                self.peer.tell(message)
            else:
                over.set()

    first, second = Player.start(n // 2), Player.start(n // 2)
    players[0].peer, players[1].peer = second, first
    settle()
    start = time.perf_counter()
    first.tell(1)
    over.wait()
    seconds = time.perf_counter() - start
    pykka.ActorRegistry.stop_all()
    return Report((2 * (n // 2) + 1) / seconds)


def flood(n: int) -> Report:
    """``n`` messages from the main thread into one actor, until the last is handled."""
    return _flood(n, threads=1)


def foreign_threads(n: int) -> Report:
    """``n`` messages from four threads into one actor, until the last is handled."""
    return _flood(n, threads=THREADS)


def _flood(n: int, threads: int) -> Report:
    pykka = require("pykka")
    actor: Any = pykka.ThreadingActor
    over = threading.Event()
    per_thread = n // threads

    class Sink(actor):  # type: ignore[misc]
        use_daemon_thread = True

        def __init__(self) -> None:
            super().__init__()
            self.left = per_thread * threads

        def on_receive(self, message: object) -> None:
            self.left -= 1
            if not self.left:
                over.set()

    sink = Sink.start()
    gate = threading.Event()
    senders = [threading.Thread(target=_send, args=(sink, per_thread, gate), daemon=True) for _ in range(threads)]
    for sender in senders:
        sender.start()
    settle()
    start = time.perf_counter()
    gate.set()
    over.wait()
    seconds = time.perf_counter() - start
    pykka.ActorRegistry.stop_all()
    return Report(per_thread * threads / seconds)


def _send(ref: Any, count: int, gate: threading.Event) -> None:
    gate.wait()
    for number in range(count):
        ref.tell(number)


def ask(n: int) -> Report:
    """``n`` asks one after another from the main thread."""
    pykka = require("pykka")
    actor: Any = pykka.ThreadingActor

    class Echo(actor):  # type: ignore[misc]
        use_daemon_thread = True

        def on_receive(self, message: object) -> object:
            return message

    echo = Echo.start()
    settle()
    start = time.perf_counter()
    for number in range(n):
        echo.ask(number)
    seconds = time.perf_counter() - start
    pykka.ActorRegistry.stop_all()
    return Report(n / seconds)


WORKS = {"pingpong": pingpong, "flood": flood, "foreign_threads": foreign_threads, "ask": ask}

if __name__ == "__main__":
    main(WORKS[sys.argv.pop(1)])
