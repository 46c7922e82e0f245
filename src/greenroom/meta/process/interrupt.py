"""Breaks off a thread that is blocked in a system call.

Python cannot interrupt a thread. What can be done is to end what it waits for:

- a socket is shut down, which wakes everybody who reads, writes, accepts or polls;
- for any other descriptor (a pipe, a terminal), `/dev/null` takes its place and a signal wakes the thread: the system
  call starts again, on the same number, and finds the end of the file. The descriptor is put back afterwards.

On Linux, `/proc` tells which descriptor a thread is blocked on. Elsewhere, and for threads that poll, what it might be
is found among the attributes of the meta-process and the local variables of the thread.

A thread that runs, or sleeps, gets an exception at its next step (`ReaderStopped`). What nothing of this reaches is a
wait for a lock, an event or a queue: for that there is `MetaProcess.wait()`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
import signal
import socket
import stat
import struct
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["ReaderStopped", "break_off", "close_held", "raise_in", "restore", "stack_of"]

# The system calls that block on their first argument, a descriptor: read, readv, pread64, recvfrom, recvmsg, recvmmsg,
# accept, accept4, connect, write, writev, sendto, sendmsg.
_CALLS: frozenset[int] = {
    "x86_64": frozenset({0, 19, 17, 45, 47, 299, 43, 288, 42, 1, 20, 44, 46}),
    "aarch64": frozenset({63, 65, 67, 207, 212, 243, 202, 242, 203, 64, 66, 206, 211}),
}.get(platform.machine(), frozenset())
# Those that wait for several: poll and ppoll; select and pselect6; epoll_wait and epoll_pwait. And openat, open.
_POLL = {"x86_64": (7, 271), "aarch64": (73,)}.get(platform.machine(), ())
_SELECT = {"x86_64": (23, 270), "aarch64": (72,)}.get(platform.machine(), ())
_EPOLL = {"x86_64": (232, 281), "aarch64": (22,)}.get(platform.machine(), ())
_OPENAT = {"x86_64": 257, "aarch64": 56}.get(platform.machine(), -1)

_SIGNAL = getattr(signal, "SIGURG", None)
"""Ignored by default, and rarely used: the one that Go's runtime wakes its threads with, for the same reason."""

_lock = threading.Lock()
# Invariant: for each thread, what stood at the descriptors that /dev/null takes the place of; written under _lock
_replaced: dict[threading.Thread, dict[int, int]] = {}
# Invariant: for each thread, what an epoll of it was given to wake up by; written under _lock
_wakers: dict[threading.Thread, list[int]] = {}
_has_handler = False


class ReaderStopped(BaseException):
    """Raised in a `start()` that does not return though its meta-process has ended. Do not catch it."""


def break_off(thread: threading.Thread, meta: object) -> bool:
    """End what `thread` is blocked on for `meta`; whether something was found."""
    found = False
    for sock in _sockets(meta, thread):
        found = _shut(sock) or found
    if _CALLS and sys.platform == "linux":
        return _break_call(thread) or found
    for fd in _files(meta, thread):
        found = _break_fd(fd, thread) or found
    return found


def restore(thread: threading.Thread) -> None:
    """Put back what was replaced to break off `thread`, which has noticed."""
    if not _replaced and not _wakers:
        return
    with _lock:
        for fd in _wakers.pop(thread, ()):
            os.close(fd)
        for fd, kept in _replaced.pop(thread, {}).items():
            with suppress(OSError):  # it has been closed meanwhile
                if os.fstat(fd).st_rdev == Path(os.devnull).stat().st_rdev:  # else the number is another file's by now
                    os.dup2(kept, fd, inheritable=os.get_inheritable(fd))
            os.close(kept)


def close_held(meta: object) -> None:
    """Close the sockets and files among the attributes of `meta` that `terminate()` has left open."""
    for thing in list(vars(meta).values()):
        with suppress(Exception):
            if isinstance(thing, socket.socket) or (hasattr(thing, "close") and _is_pipe(thing.fileno())):
                thing.close()


def _is_pipe(fd: int) -> bool:
    """Whether it is one that somebody may read from, and not this program's own input or output."""
    kind = os.fstat(fd).st_mode
    return fd > 2 and (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind))


def raise_in(thread: threading.Thread) -> None:
    """Raise `ReaderStopped` in `thread`, at its next step."""
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(ReaderStopped))


def stack_of(thread: threading.Thread) -> FrameType | None:
    """What it runs at present."""
    return None if thread.ident is None else sys._current_frames().get(thread.ident)


def _held(meta: object, thread: threading.Thread) -> Iterator[object]:
    """What the meta-process, and the functions that the thread runs for it, have at hand, also in lists."""
    yield from _with_parts(vars(meta))
    frame = stack_of(thread)
    while frame is not None and frame.f_globals.get("__name__") not in _OURS:
        yield from _with_parts(frame.f_locals)
        frame = frame.f_back


def _with_parts(names: Mapping[str, object]) -> Iterator[object]:
    for thing in list(names.values()):
        yield thing
        if isinstance(thing, list | tuple | set | frozenset):
            yield from list(thing)
        elif isinstance(thing, dict):
            yield from list(thing.values())


_OURS = ("greenroom.meta.process.host", "greenroom.meta.process.reader", "threading")


def _sockets(meta: object, thread: threading.Thread) -> list[socket.socket]:
    return [thing for thing in _held(meta, thread) if isinstance(thing, socket.socket)]


def _files(meta: object, thread: threading.Thread) -> list[int]:
    found = []
    for held in _held(meta, thread):
        thing: Any = held
        if hasattr(thing, "fileno") and not isinstance(thing, socket.socket):
            with suppress(Exception):
                found.append(int(thing.fileno()))
    return found


def _shut(sock: socket.socket) -> bool:
    if sock.fileno() < 0:
        return False
    with suppress(OSError):  # one that is not connected says so, and wakes its readers all the same
        sock.shutdown(socket.SHUT_RDWR)
    return True


def _break_call(thread: threading.Thread) -> bool:
    """End what the system call that `thread` is in waits for, as the kernel tells; whether something was found."""
    try:
        words = Path(f"/proc/self/task/{thread.native_id}/syscall").read_text(encoding="ascii").split()
    except OSError:
        return False
    if len(words) < 4 or not words[0].isdigit():
        return False
    call, first, second, third = int(words[0]), *(int(word, 16) for word in words[1:4])
    try:
        if call in _CALLS:
            return _break_fd(first, thread)
        if call in _POLL:
            return _break_all(_polled(first, second), thread)
        if call in _SELECT:
            return _break_all(_selected(first, second), thread)
        if call in _EPOLL:
            return _wake_epoll(first, thread)
        return call == _OPENAT and _open_other_end(second, third)
    except (OSError, struct.error, UnicodeError):  # it has gone on meanwhile
        return False


def _break_all(fds: list[int], thread: threading.Thread) -> bool:
    broken = [_break_fd(fd, thread) for fd in fds]  # all of them, not only the first
    return any(broken)


def _memory(address: int, size: int) -> bytes:
    """Part of this process's memory, which another thread uses; if that is gone, an error instead of a crash."""
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, size, address)
    finally:
        os.close(memory)


def _polled(address: int, count: int) -> list[int]:
    """The descriptors of a `struct pollfd[]`."""
    return [fd for fd, _, _ in struct.iter_unpack("ihh", _memory(address, 8 * min(count, 4096)))]


def _selected(count: int, address: int) -> list[int]:
    """The descriptors of an `fd_set` that are to be read."""
    if not address:
        return []
    bits = int.from_bytes(_memory(address, (min(count, 1024) + 7) // 8), "little")
    return [fd for fd in range(min(count, 1024)) if bits >> fd & 1]


def _wake_epoll(epoll: int, thread: threading.Thread) -> bool:
    """Give an epoll something more to wait for, which is there."""
    reading, writing = os.pipe()
    os.close(writing)
    with select.epoll.fromfd(os.dup(epoll)) as poll:
        poll.register(reading, select.EPOLLIN)
    with _lock:
        _wakers.setdefault(thread, []).append(reading)  # until the reader is gone: a closed one is not waited for
    return True


def _open_other_end(path_address: int, flags: int) -> bool:
    """A FIFO is being opened, and nobody is at its other end: be that, for a moment."""
    path = Path(os.fsdecode(_memory(path_address, 4096).partition(b"\0")[0]))
    if not path.is_fifo():
        return False
    reads = flags & os.O_ACCMODE == os.O_RDONLY
    os.close(os.open(path, (os.O_WRONLY if reads else os.O_RDONLY) | os.O_NONBLOCK | os.O_CLOEXEC))
    return True


def _break_fd(fd: int, thread: threading.Thread) -> bool:
    try:
        kind = os.fstat(fd).st_mode
        if stat.S_ISSOCK(kind):
            with socket.socket(fileno=os.dup(fd)) as sock:
                return _shut(sock)
        if not (stat.S_ISFIFO(kind) or stat.S_ISCHR(kind)):
            return False  # a file does not block for long
        _replace(fd, thread)
    except OSError:
        return False
    return _kick(thread)


def _replace(fd: int, thread: threading.Thread) -> None:
    with _lock:
        replaced = _replaced.setdefault(thread, {})
        if fd in replaced:
            return
        kept = os.dup(fd)
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.dup2(nothing, fd, inheritable=os.get_inheritable(fd))
        except OSError:
            os.close(kept)
            raise
        finally:
            os.close(nothing)
        replaced[fd] = kept


def _kick(thread: threading.Thread) -> bool:
    """Have the thread's system call begin again."""
    if _SIGNAL is None or thread.ident is None or not thread.is_alive() or not _ensure_handler():
        return False
    with suppress(ProcessLookupError):
        signal.pthread_kill(thread.ident, _SIGNAL)
    return True


def _ensure_handler() -> bool:
    """A signal that is ignored wakes nobody: let this one do nothing instead, unless somebody uses it."""
    global _has_handler
    if _has_handler or signal.getsignal(_SIGNAL) not in (signal.SIG_DFL, None):  # type: ignore[operator,arg-type]
        return True
    if threading.current_thread() is threading.main_thread():
        signal.signal(_SIGNAL, _nothing)  # type: ignore[arg-type]
    else:
        # Python lets only its main thread do that; the system lets any. `abs` takes a number and does nothing.
        libc = ctypes.CDLL(None)
        libc.signal.restype = ctypes.c_void_p
        libc.signal(_SIGNAL, ctypes.cast(libc.abs, ctypes.c_void_p))
    _has_handler = True
    return True


def _nothing(number: int, frame: FrameType | None) -> None:
    """Only that the thread wakes matters."""
