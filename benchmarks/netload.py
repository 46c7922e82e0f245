"""The other side of the rows with sockets: plain sockets and epoll, so that the servers are what takes the time.

Run as ``python -m benchmarks.netload WORK PORT N`` by the program that serves, which reads what is printed.
"""

from __future__ import annotations

import asyncio
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.program import Unavailable

CONNECTIONS = 64
FRAME = 64
WAVE = 200
"""Connections that a storm opens at once."""
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: netload\r\nAccept: */*\r\n\r\n"
READY = "ready"


async def load(work: str, port: int, n: int) -> float:
    """Have ``work`` done from another process, to the server in this one: the seconds it took."""
    command = [sys.executable, "-m", "benchmarks.netload", work, str(port), str(n)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    said, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"the load broke off with status {process.returncode}")
    return float(said)


async def hold(port: int, n: int, look: Callable[[], int]) -> int:
    """What ``look`` sees while another process holds ``n`` idle connections, each of which has echoed a frame."""
    command = [sys.executable, "-m", "benchmarks.netload", "hold", str(port), str(n)]
    process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018
    if (await process.stdout.readline()).decode().strip() != READY:
        raise RuntimeError("the connections broke off")
    seen = look()
    process.stdin.close()
    await process.wait()
    return seen


def open_many_files() -> None:
    """Raise this process's limit of open files as far as allowed."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))


def require_files(n: int) -> None:
    """Decline if this process may not have ``n`` connections."""
    open_many_files()
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < n + 100:
        raise Unavailable(f"needs {n + 100:,} open files (ulimit -n)")


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=60.0)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _exchange(port: int, n: int, request: bytes, size: int) -> float:
    """``n`` requests in all, one at a time on each connection; ``size`` bytes answer each."""
    socks = [_connect(port) for _ in range(CONNECTIONS)]
    poll = select.epoll()
    by_fd = {sock.fileno(): sock for sock in socks}
    missing = dict.fromkeys(by_fd, size)
    for sock in socks:
        poll.register(sock.fileno(), select.EPOLLIN)
    left, under_way = n, len(socks)
    began = time.perf_counter()
    for sock in socks:
        sock.send(request)
    while under_way:
        for fd, _ in poll.poll():
            sock = by_fd[fd]
            received = sock.recv(65_536)
            if not received:
                raise ConnectionError("the server closed a connection")
            missing[fd] -= len(received)
            if missing[fd] == 0:
                left -= 1
                if left >= under_way:
                    missing[fd] = size
                    sock.send(request)
                else:
                    under_way -= 1
    seconds = time.perf_counter() - began
    for sock in socks:
        sock.close()
    return seconds


def echo(port: int, n: int) -> float:
    """``n`` frames, each sent back."""
    _exchange(port, n // 10, b"x" * FRAME, FRAME)
    return _exchange(port, n, b"x" * FRAME, FRAME)


def http(port: int, n: int) -> float:
    """``n`` requests on connections that are kept alive."""
    size = _size_of_response(port)
    _exchange(port, n // 10, REQUEST, size)
    return _exchange(port, n, REQUEST, size)


def _size_of_response(port: int) -> int:
    with _connect(port) as sock:
        sock.send(REQUEST)
        received = b""
        while b"\r\n\r\n" not in received:
            received += sock.recv(65_536)
        head, _, _ = received.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(f"the server answered {head!r}")
        return len(head) + 4 + int(lengths[0].partition(b":")[2])


def storm(port: int, n: int) -> float:
    """``n`` connections in waves, each dropped as soon as it has echoed a frame."""
    began = time.perf_counter()
    for _ in range(n // WAVE):
        wave = [_connect(port) for _ in range(WAVE)]
        for sock in wave:
            sock.send(b"x" * FRAME)
        for sock in wave:
            _read_frame(sock)
            # A reset: the port is free at once, for the next rounds.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.close()
    return time.perf_counter() - began


def _read_frame(sock: socket.socket) -> None:
    missing = FRAME
    while missing:
        received = sock.recv(missing)
        if not received:
            raise ConnectionError("the server closed a connection")
        missing -= len(received)


def _hold(port: int, n: int) -> None:
    open_many_files()
    socks = []
    for _ in range(n):
        socks.append(_connect(port))
        socks[-1].send(b"x" * FRAME)
        _read_frame(socks[-1])
    print(READY, flush=True)
    sys.stdin.read()
    for sock in socks:
        sock.close()


WORKS = {"echo": echo, "http": http, "storm": storm}

if __name__ == "__main__":
    _, chosen, at, count = sys.argv
    if chosen == "hold":
        _hold(int(at), int(count))
    else:
        print(WORKS[chosen](int(at), int(count)))
