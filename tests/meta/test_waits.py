"""What the threads of a meta-process wait in: for descriptors, and for its end (E1, E2)."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from greenroom.meta.process.reader import ReaderStopped, Waits


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def readable(fd: Any, seconds: float | None = None) -> bool:
    return Waits().wait_for_fd(fd, select.POLLIN, seconds)


def test_a_descriptor_is_ready_when_there_is_something_or_the_other_end_is_closed(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    assert not readable(reading, 0)
    assert not readable(reading, 0.001)
    assert not readable(reading, -1)
    os.write(writing, b"x")
    assert readable(reading)
    assert readable(reading, 0)
    ours, theirs = socket.socketpair()
    with ours:
        assert not readable(ours, 0)  # anything that has a `fileno()`
        theirs.close()
        assert readable(ours)


def test_a_pipe_is_ready_for_writing_when_it_has_room(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    written = 0
    while Waits().wait_for_fd(writing, select.POLLOUT, 0):
        written += os.write(writing, bytes(4096))
    os.read(reading, written)
    assert Waits().wait_for_fd(writing, select.POLLOUT, None)


def test_a_descriptor_that_is_closed_is_an_error() -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        readable(fd)
    with closing(socket.socket()) as sock:
        sock.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            readable(sock)


def test_the_end_wakes_all_that_wait_and_all_that_come_later(pipe: tuple[int, int]) -> None:
    waits, (reading, _) = Waits(), pipe
    kinds: list[Callable[[], bool]] = [
        lambda: waits.wait_for_fd(reading, select.POLLIN, None),
        lambda: waits.wait_for_fd(reading, select.POLLIN, 600),
        lambda: waits.wait_for_end(None),
        lambda: waits.wait_for_end(600),
    ]
    barrier = threading.Barrier(2 * len(kinds) + 1)

    def wait(kind: Callable[[], bool]) -> bool:
        barrier.wait()
        try:
            return kind()
        except ReaderStopped:
            return True

    with ThreadPoolExecutor(2 * len(kinds)) as pool:
        ends = [pool.submit(wait, kind) for kind in 2 * kinds]
        barrier.wait()
        waits.end()
        assert all(end.result() for end in ends)
        waits.end()
    assert waits.wait_for_end(0)
    with pytest.raises(ReaderStopped):
        waits.wait_for_fd(reading, select.POLLIN, 0)


def test_without_an_end_nobody_is_woken(pipe: tuple[int, int]) -> None:
    waits = Waits()
    assert not waits.is_used
    assert not waits.wait_for_end(0)
    assert waits.is_used
    os.write(pipe[1], b"x")
    assert waits.wait_for_fd(pipe[0], select.POLLIN, None)
    assert not waits.is_over
