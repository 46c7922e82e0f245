"""Actors that a process of a pod's own can import."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

from greenroom import Actor
from greenroom.errors import GreenroomError, NotSendable
from greenroom.pods import ConnectTimeout, Handles, Mates, PodGone, ServiceHandle


class WorkerPeers(Handles):
    sink: ServiceHandle[Any]


class Settings(Actor[Any, None]):
    """A pod mate, which others read."""

    def __init__(self) -> None:
        self.factor = 3

    def receive(self, message: Any) -> None:
        self.factor = message


class WorkerMates(Mates):
    settings: Settings


class Worker(Actor[Any, None]):
    """Sends on what it gets, times what its mate says, and where it is; or does as it is told."""

    peers: WorkerPeers
    pod: WorkerMates

    def receive(self, message: Any) -> None:
        if callable(message):
            message(self)
        else:
            self.peers.sink.send((message * self.pod.settings.factor, os.getpid()))


class Unsendable(Actor[Any, None]):
    """Sends what cannot be sent, and then what it was told."""

    peers: WorkerPeers

    def receive(self, message: Any) -> None:
        try:
            self.peers.sink.send(threading.Lock())
        except NotSendable as error:
            self.peers.sink.send(str(error))


class Careless(Actor[Any, None]):
    """Sends in ways that cannot be, and then what came of them."""

    peers: WorkerPeers

    async def receive(self, message: Any) -> None:
        told: list[object] = []
        sink: Any = self.peers.sink
        for attempt in (
            lambda: sink.asend("x", lane="control"),
            lambda: sink.asend("x", timeout=-1),
            lambda: asyncio.sleep(0, sink.send("x")),
            lambda: asyncio.sleep(0, sink.is_gone),
        ):
            try:
                await attempt()
            except GreenroomError as error:
                told.append(type(error).__name__)
        await sink.asend((*told, await asyncio.to_thread(lambda: sink.is_gone), 0))


class Forwarder(Actor[Any, None]):
    """Sends on what it gets."""

    peers: WorkerPeers

    def receive(self, message: Any) -> None:
        self.peers.sink.send(message)


class Reporter(Actor[Any, None]):
    """Sends to one peer, and tells another what has come of that."""

    peers: ReporterPeers

    def receive(self, message: Any) -> None:
        try:
            self.peers.fragile.send(message, timeout=0.05)
        except (PodGone, ConnectTimeout) as error:
            self.peers.sink.send(type(error).__name__)


class Caller(Actor[Any, None]):
    """Sends to a troupe within its own."""

    peers: Any

    def receive(self, message: Any) -> None:
        self.peers.within.echo.send(message)


class ReporterPeers(Handles):
    fragile: ServiceHandle[Any]
    sink: ServiceHandle[Any]


def where_it_may_run(worker: Worker) -> None:
    """Told to a `Worker`: send the processors that its process is kept on."""
    worker.peers.sink.send(sorted(os.sched_getaffinity(0)))


def fail(worker: Worker) -> None:
    """Told to a `Worker`."""
    raise ValueError("as it was told to")
