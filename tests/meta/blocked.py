"""Readers that are blocked in all kinds of ways, and what they are blocked on."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import inspect
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from greenroom import ExitReason
from greenroom.meta import MetaProcess
from tests.gates import Event
from tests.meta.owners import pair

__all__ = ["READERS", "Blocked", "Props", "blocked", "reads", "sockets_of"]


class Props:
    """What the readers below are blocked on: closed by the test, except for what a meta-process is given to keep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun = Event()
        self._stack = contextlib.ExitStack()

    def close(self) -> None:
        self._stack.close()

    def sock(self) -> socket.socket:
        """A connected socket to which nobody writes."""
        ours, theirs = pair()
        self._stack.callback(theirs.close)
        return ours

    def listening(self) -> socket.socket:
        return socket.create_server(("127.0.0.1", 0))

    def datagrams(self) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
        return sock

    def pipe(self) -> int:
        """The end for reading of a pipe to which nobody writes."""
        reading, writing = os.pipe()
        self._stack.callback(os.close, writing)
        return reading

    def full_pipe(self) -> int:
        """The end for writing of a pipe that is full."""
        reading, writing = os.pipe()
        self._stack.callback(os.close, reading)
        self._stack.callback(os.close, writing)
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        return writing

    def fifo(self) -> Path:
        """A FIFO that nobody has opened."""
        path = self.folder / "fifo"
        os.mkfifo(path)
        self._stack.callback(lambda: os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK)))  # lets who opens it go on
        return path

    def mute_server(self) -> int:
        """The port of a server that accepts by itself, and answers nothing."""
        server = self.listening()
        self._stack.callback(server.close)
        port: int = server.getsockname()[1]
        return port


class Blocked(MetaProcess):
    """Its `start()` is a function of it; `terminate()` notes what it is given, and closes nothing by itself."""

    def __init__(self, props: Props, block: Callable[[Any, Props], Any]) -> None:
        self.begun = props.begun
        self.props = props
        self.block = block
        self.reasons: list[ExitReason] = []
        self.unblock: Callable[[], object] = int

    def start(self) -> None:
        self.block(self, self.props)

    def handle_message(self, message: Any) -> None:
        self.send(self.parent, message)

    def terminate(self, reason: ExitReason) -> None:
        self.reasons.append(reason)
        self.unblock()


class AsyncBlocked(Blocked):
    async def start(self) -> None:  # type: ignore[override]
        await self.block(self, self.props)


def recv(meta: Any, props: Props) -> None:
    meta.sock = props.sock()
    meta.begun.set()
    while meta.sock.recv(100):
        pass


def recv_into_with_timeout(meta: Any, props: Props) -> None:
    meta.sock = props.sock()
    meta.sock.settimeout(3600)
    meta.begun.set()
    meta.sock.recv_into(bytearray(10))


def wait_for_a_local_socket(meta: Any, props: Props) -> None:
    with props.sock() as sock:
        meta.begun.set()
        while meta.wait_readable(sock):
            sock.recv(100)


def accept(meta: Any, props: Props) -> None:
    meta.sock = props.listening()
    meta.begun.set()
    while True:
        meta.sock.accept()


def recvfrom(meta: Any, props: Props) -> None:
    meta.sock = props.datagrams()
    meta.begun.set()
    while not meta.stopping:
        meta.sock.recvfrom(100)


def wait_for_a_pipe(meta: Any, props: Props) -> None:
    fd = props.pipe()
    try:
        meta.begun.set()
        while meta.wait_readable(fd):
            os.read(fd, 100)
    finally:
        os.close(fd)


def wait_for_a_pipe_again_and_again(meta: Any, props: Props) -> None:
    meta.file = os.fdopen(props.pipe(), "rb", buffering=0)
    meta.begun.set()
    while not meta.wait_readable(meta.file, 0.001):
        pass


def wait_to_write_to_a_full_pipe(meta: Any, props: Props) -> None:
    fd = props.full_pipe()
    meta.begun.set()
    meta.wait_writable(fd)


def wait_for_a_fifo(meta: Any, props: Props) -> None:
    fd = os.open(props.fifo(), os.O_RDONLY | os.O_NONBLOCK)  # which does not wait for another
    try:
        meta.begun.set()
        meta.wait_readable(fd)
    finally:
        os.close(fd)


def read_what_terminate_writes(meta: Any, props: Props) -> None:
    reading, writing = os.pipe()
    meta.unblock = lambda: os.write(writing, b"the end")
    try:
        meta.begun.set()
        assert os.read(reading, 100) == b"the end"
    finally:
        os.close(reading)
        os.close(writing)


def select_on_sockets(meta: Any, props: Props) -> None:
    meta.socks = [props.sock() for _ in range(3)]
    try:
        meta.begun.set()
        while not meta.stopping:
            select.select(meta.socks, [], [])
    finally:
        for sock in meta.socks:
            sock.close()


def select_on_two_sockets(meta: Any, props: Props) -> None:
    meta.one, meta.two = props.sock(), props.sock()
    meta.begun.set()
    while not meta.stopping:
        select.select([meta.one, meta.two], [], [])


def ask_a_server(meta: Any, props: Props) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", props.mute_server())
    try:
        connection.request("GET", "/")
        meta.sock = connection.sock
        meta.begun.set()
        connection.getresponse()
    finally:
        connection.close()


def ignore_errors(meta: Any, props: Props) -> None:
    meta.sock = props.sock()
    meta.begun.set()
    while not meta.stopping:
        with contextlib.suppress(Exception):
            meta.sock.recv(100)


def wait(meta: Any, props: Props) -> None:
    meta.begun.set()
    assert meta.wait() is True


def wait_for_an_event(meta: Any, props: Props) -> None:
    released = threading.Event()
    meta.unblock = released.set
    meta.begun.set()
    assert released.wait(600)


def sleep_in_a_loop(meta: Any, props: Props) -> None:
    meta.begun.set()
    while not meta.stopping:
        time.sleep(0.01)


async def wait_async(meta: Any, props: Props) -> None:
    meta.begun.set()
    await asyncio.Event().wait()


async def recv_async(meta: Any, props: Props) -> None:
    meta.sock = props.sock()
    meta.sock.setblocking(False)
    meta.begun.set()
    await asyncio.get_running_loop().sock_recv(meta.sock, 100)


async def insist_async(meta: Any, props: Props) -> None:
    meta.begun.set()
    for _ in range(3):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def take_leave_async(meta: Any, props: Props) -> None:
    meta.begun.set()
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        assert meta.stopping


READERS = [
    *(recv, recv_into_with_timeout, accept, recvfrom, select_on_sockets, select_on_two_sockets, ask_a_server),
    *(wait_for_a_local_socket, wait_for_a_pipe, wait_for_a_pipe_again_and_again, wait_for_a_fifo),
    *(wait_to_write_to_a_full_pipe, read_what_terminate_writes, ignore_errors),
    *(wait, wait_for_an_event, sleep_in_a_loop),
    *(wait_async, recv_async, insist_async, take_leave_async),
]


def blocked(props: Props, block: Any) -> Blocked:
    return (AsyncBlocked if inspect.iscoroutinefunction(block) else Blocked)(props, block)


def sockets_of(meta: Blocked) -> list[socket.socket]:
    return [one for one in vars(meta).values() if isinstance(one, socket.socket)]


def reads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if " reads /" in thread.name]
