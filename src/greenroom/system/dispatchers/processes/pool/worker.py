"""One worker process, in the main process.

**Start.** A worker is a fresh interpreter, not a fork, so it inherits no lock, thread or connection of ours. It gets
one end of a socket pair, which no other process can open, and the secret of the connection over its standard input.

**End.** A worker ends when its standard input is closed, and so it never outlives us. We notice its end by the
connection, after reading everything that it sent before. A thread waits for the process, so that no zombie is left.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from greenroom.clock import ManualClock
from greenroom.errors import FrameTooLarge, WorkerLost, in_words
from greenroom.system.dispatchers.processes.pool.executor import ProcessExecutor
from greenroom.system.dispatchers.processes.pool.ports import ExecutorPort, PoolPort
from greenroom.system.dispatchers.processes.pool.service import Service
from greenroom.system.dispatchers.processes.protocol import MAIL, ORDER, Entry, WorkerConfig
from greenroom.wire.codec import Codec, Parts
from greenroom.wire.failures import Failure
from greenroom.wire.streams import Stream
from greenroom.wire.transport import Connection, Side

__all__ = ["Worker"]

_log = logging.getLogger("greenroom")

_PROGRAM = (
    "import json, sys\n"
    "config = json.loads(sys.stdin.buffer.readline())\n"
    "sys.path[:] = config['path']\n"
    "from greenroom.system.dispatchers.processes.worker.main import main\n"
    "main(config)\n"
)
"""What the interpreter of a worker runs. It needs `sys.path` before it can import anything of ours."""
_GRACE = 2.0
"""Seconds that a worker has to end, before we kill it."""
_PATIENCE_AT_START = 60.0
"""Seconds that a worker has to start; the machine may be busy."""
_PATIENCE = 0.25
"""Seconds that we wait for the exit code of a process when its connection is lost."""


class _Pool(PoolPort, Protocol):
    """The pool that a worker belongs to."""

    def lost(self, worker: Worker) -> None:
        """A worker is lost, or about to be."""
        ...


class Worker:
    """A process that runs the code of some actors. For the loop's own thread only, except for what `thread` does."""

    def __init__(self, workers: _Pool, number: int) -> None:
        self._workers = workers
        self._loop = workers.system._loop
        self.name = f"{workers.system.name} {workers.dispatcher} {number}"
        self.actors: dict[int, ProcessExecutor] = {}
        self._codec = Codec()
        self._connection: Connection | None = None
        # Frames to be sent when the connection opens.
        self._early: list[tuple[int, Parts]] = []
        self._service = Service(self, workers.system)
        # Why we killed it, if we did.
        self._why = ""
        self._is_over = False
        # Frames that were sent to it; how many of those it had taken when it last reported that it was idle; whether it
        # blocks, and says so; and what is to be called at the next report. Workers report if the clock is a manual one.
        self._is_manual = isinstance(self._loop.clock, ManualClock)
        self._sent = 0
        self._idle_after = 0
        self._is_blocked = False
        self._on_idle: Callable[[], object] | None = None
        # Written by `thread`: the process, and its exit code, or why it could not be started.
        self._process: subprocess.Popen[bytes] | None = None
        self._code: int | None = None
        self._cause: BaseException | None = None
        # Set under _lock when the process must end; it may not have been started by then.
        self._lock = threading.Lock()
        self._must_end = False
        self.thread = threading.Thread(target=self._run_process, name=f"{self.name} (waits)", daemon=True)

    @property
    def pid(self) -> int | None:
        """The id of the process, while it runs."""
        process = self._process
        return None if process is None or self._code is not None else process.pid

    # -- start

    def start(self) -> None:
        """Start the process, and return at once."""
        try:
            ours, self._theirs = socket.socketpair()
        except OSError as exc:
            raise WorkerLost(f"the worker process {self.name!r} cannot be started: {in_words(exc)}") from exc
        secret = secrets.token_bytes(32)
        loop = self._loop
        self._config: WorkerConfig = {
            "fd": self._theirs.fileno(),
            "secret": secret.hex(),
            "path": [str(entry) for entry in sys.path],
            "name": self.name,
            "system": self._workers.system.name,
            "limit": self._workers.limit,
            "manual": isinstance(loop.clock, ManualClock),
            "log": logging.getLogger().getEffectiveLevel(),
        }
        callbacks = (self._opened, self._take, self._lost)
        connection = Connection(Side.LISTENING, secret, *callbacks, self._workers.limit, _PATIENCE_AT_START)
        aio: asyncio.AbstractEventLoop = loop.visits.stepper.aio  # type: ignore[assignment]  # it runs
        stream = Stream(aio, ours, connection)
        self._stream = stream
        stream.begin()
        self.thread.start()
        if self._is_manual:
            loop.helpers[self] = None

    def _run_process(self) -> None:
        """Start the process, and wait for its end. Runs on `thread`."""
        # The process inherits this mask until it ignores the signal: only the main process handles Ctrl-C.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with self._lock:
                if self._must_end:
                    return
                self._process = subprocess.Popen(
                    [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", _PROGRAM],  # type: ignore[attr-defined]
                    stdin=subprocess.PIPE,
                    pass_fds=(self._theirs.fileno(),),
                )
        except Exception as exc:
            self._cause = exc
            return
        finally:
            self._theirs.close()
        process = self._process
        stdin = process.stdin
        assert stdin is not None
        with suppress(OSError):  # the process has ended already
            stdin.write(json.dumps(self._config).encode() + b"\n")
            stdin.flush()
        self._code = process.wait()
        with suppress(OSError):
            stdin.close()

    def _opened(self, connection: Connection) -> None:
        self._connection = connection
        early, self._early = self._early, []
        for kind, parts in early:
            connection.send(kind, parts)

    # -- frames to it

    def tell(self, head: Entry, value: Sequence[object] | None = None, lenient: bool = False) -> int:
        """Send a frame to it, and return at once; the result is the size in bytes. Raises if it cannot be sent."""
        parts = self._codec.encode([head])
        if value is not None:
            parts += self._codec.encode_leniently(value) if lenient else self._codec.encode(value)
        size = sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in parts)
        if size > self._workers.limit:
            raise FrameTooLarge(size, self._workers.limit)
        if self._connection is not None:
            self._connection.send(ORDER, parts)
        else:
            self._early.append((ORDER, parts))
        self._sent += 1
        return size

    def answer(self, number: int, ok: bool, value: object) -> None:
        """Answer one of its requests."""
        if self._is_over:
            return
        try:
            self.tell(("answer", number, ok), [value], lenient=True)
        except Exception as exc:
            self.tell(("answer", number, False), [Failure.of(exc)])

    def release(self, executor: ExecutorPort) -> None:
        """It no longer hosts that actor."""
        if self.actors.pop(executor.number, None) is not None and not self._is_over:
            self.tell(("leave", executor.number))

    # -- frames from it

    def _take(self, kind: int, parts: list[bytearray]) -> None:
        if kind != MAIL:
            return
        try:
            for entry in self._codec.decode(parts):
                self._process_entry(entry)
        except Exception as exc:
            _log.exception("%s: what it says cannot be understood", self.name)
            self.kill(f"what it said could not be understood: {in_words(exc)}")

    def _process_entry(self, entry: Entry) -> None:
        word, *rest = entry
        if word in _ABOUT_ACTORS:
            number, *what = rest
            executor = self.actors.get(number)
            if executor is not None:
                _ABOUT_ACTORS[word](executor, *what)
        elif word not in _OF_ITSELF:
            self._service.do(word, rest)
        elif word == "hello":
            self._codec.peer_knows(rest[0])
        else:
            self._reported(word, rest[0])

    def is_at_rest(self) -> bool:
        """Whether it had nothing to do when it had taken all that was sent to it, or blocks and says so.

        Handlers may be suspended.
        """
        return not self._is_manual or self._is_blocked or self._idle_after == self._sent

    def report_rest(self, tell: Callable[[], object]) -> None:
        """Have `tell` called when it next reports that it is idle, or blocks."""
        self._on_idle = tell  # whoever wants to know is told by any of them

    def _reported(self, word: str, value: int) -> None:
        if word == "idle":
            self._idle_after = value
        else:
            self._is_blocked = bool(value)
        tell, self._on_idle = self._on_idle, None
        if tell is not None:
            tell()

    # -- end

    def close(self) -> threading.Thread:
        """Close the connection, so that it ends. Returns a thread that waits for that, and kills it if need be."""
        self._is_over = True
        self._loop.helpers.pop(self, None)
        with self._lock:
            self._must_end = True
        self._service.close()
        self._stream.abort()
        closer = threading.Thread(target=self._wait_or_kill, name=f"{self.name} (ends)", daemon=True)
        closer.start()
        return closer

    def _wait_or_kill(self) -> None:
        self.thread.join(_GRACE)
        self._kill()
        self.thread.join()

    def kill(self, why: str) -> None:
        """End it at once: its actors fail."""
        if not self._is_over:
            self._why = why
            self._stream.abort()

    def _kill(self) -> None:
        process = self._process
        if process is not None and self._code is None:
            with suppress(OSError):
                process.kill()

    def _lost(self, error: BaseException | None) -> None:
        """The connection is lost, so we give up the process."""
        if self._is_over:
            return
        self._is_over = True
        self._loop.helpers.pop(self, None)
        with self._lock:
            self._must_end = True
        self._kill()
        self.thread.join(_PATIENCE)
        self._workers.lost(self)
        self._service.close()
        if isinstance(error, OSError):
            error = None  # the usual error when the other end dies with unread data
        lost = WorkerLost(self._describe(error))
        lost.__cause__ = self._cause or error
        actors, self.actors = self.actors, {}
        if actors:
            names = [executor.cell.name() for executor in actors.values()]
            more = f" and {len(names) - 5} more" if len(names) > 5 else ""
            _log.warning("%s; it ran %s%s", lost, ", ".join(names[:5]), more)
        for executor in actors.values():
            executor.lost(lost.again())

    def _describe(self, error: BaseException | None) -> str:
        name = f"the worker process {self.name!r}"
        if self._why:
            return f"{name} was ended: {self._why}"
        if self._cause is not None:
            return f"{name} cannot be started: {in_words(self._cause)}"
        how = "has ended" if error is None else f"is out of reach ({in_words(error)})"
        if self._code is not None and self._code < 0:
            how = f"was killed by {signal.Signals(-self._code).name}"
        elif self._code:
            how = f"ended with code {self._code}"
        when = "" if self._connection is not None else " before it was ready: its standard error says why"
        return f"{name} {how}{when}"


_OF_ITSELF = frozenset(["hello", "idle", "blocks"])
_ABOUT_ACTORS: dict[str, Callable[..., None]] = {
    "progress": ProcessExecutor.progressed,
    "reply": ProcessExecutor.answered,
    "called": ProcessExecutor.called,
    "unreadable": ProcessExecutor.unreadable,
    "cancelled": ProcessExecutor.cancel_confirmed,
    "stop": ProcessExecutor.stop_actor,
    "unstash": ProcessExecutor.unstash,
    "supervise": ProcessExecutor.supervise,
    "awaits": ProcessExecutor.awaits,
    "gives up": ProcessExecutor.gives_up,
}
