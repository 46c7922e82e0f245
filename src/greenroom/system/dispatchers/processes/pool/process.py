"""The operating system's process of one worker: how it is started, watched and ended.

**Start.** A worker is a fresh interpreter, not a fork, so it inherits no lock, thread or connection of ours. It gets
one end of a socket pair, which no other process can open. It also gets the end of a pipe, its *lifeline*, by which we
send its configuration, and the secret of the connection in it. Its standard input is empty.

**End.** A thread waits for the process. So we notice its end even if a child of it holds the connection open. A worker
ends when its lifeline is closed. If it cannot, we kill it; and if we end without having done so, the kernel does
(`OrphanReaper` where that is no Linux). Children that we or a worker fork do not inherit descriptors (`forks`).
"""

from __future__ import annotations

import atexit
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from time import monotonic

from greenroom.errors import WorkerLost
from greenroom.errortext import in_words
from greenroom.system.dispatchers.processes.protocol import SharedPage, WorkerConfig, WorkerSettings
from greenroom.system.ending.shutdown import Closer
from greenroom.wire.forks import close_in_child, keep_from_forks, no_forks

_PROGRAM = (
    "import json, os, sys\n"
    "lifeline, text = int(sys.argv.pop()), b''\n"
    "while not text.endswith(b'\\n'):\n"
    "    more = os.read(lifeline, 65536)\n"
    "    if not more: os._exit(0)\n"
    "    text += more\n"
    "config = json.loads(text)\n"
    "sys.path[:] = config['path']\n"
    "from greenroom.system.dispatchers.processes.worker.main import main\n"
    "main(config)\n"
)
"""What the interpreter of a worker runs. It needs `sys.path` before it can import anything of ours."""
_GRACE = 2.0
"""Seconds that a worker has to end, before we kill it."""

_SCRIPT = 'read -r line || kill -9 "$0" 2> /dev/null'
"""Kills the process whose id is its name, unless it gets a line before the end of its input."""

_KERNEL_ENDS_CHILDREN = sys.platform == "linux"
"""Whether a process can have the kernel kill it when its parent ends."""

# The processes that have been started and have not ended.
_running: dict[WorkerProcess, None] = {}
_is_exiting = False


class WorkerProcess:
    """The process of one worker. For one thread, except for what `thread` does, and `end_all`."""

    def __init__(self, name: str, on_end: Callable[[], object]) -> None:
        """`on_end` is called, on another thread, when the process has ended or could not be started."""
        self._name = name
        self._on_end = on_end
        # Written by `thread`: its exit code, or why it could not be started.
        self.code: int | None = None
        self.cause: BaseException | None = None
        # Invariant: written under _lock; a process that must end is not started
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._must_end = False
        self._reaper: OrphanReaper | None = None
        self.thread = threading.Thread(target=self._run, name=f"{name} (waits)", daemon=True)

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None or self.code is not None else process.pid

    # -- start

    def open(self) -> socket.socket:
        with no_forks, ExitStack() as opened:
            try:
                self._ours, self._theirs = (opened.enter_context(one) for one in socket.socketpair())
                self._lifeline, self._their_lifeline = (opened.enter_context(one) for one in _pipe())
                self.page = SharedPage.make()
            except OSError as exc:
                raise WorkerLost(f"the worker process {self._name!r} cannot be started: {in_words(exc)}") from exc
            keep_from_forks(self)
            opened.pop_all()
        return self._ours

    def start(self, settings: WorkerSettings) -> None:
        self._config: WorkerConfig = {
            **settings,
            "fd": self._theirs.fileno(),
            "lifeline": self._their_lifeline.fileno(),
            "page": self.page.fd,
            "parent": os.getpid(),
            "signalled": _KERNEL_ENDS_CHILDREN,
        }
        if not _running:
            # Late, so that it is among the first things that are done at exit.
            atexit.unregister(end_all)
            atexit.register(end_all)
        _running[self] = None
        try:
            self.thread.start()
        except BaseException:
            self._release()
            raise

    def _run(self) -> None:
        """Start the process, and wait for its end. Runs on `thread`: to the kernel, that is the parent."""
        # The process inherits this mask until it ignores the signals: only the main process handles them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            process = self._start()
            if process is not None:
                with suppress(OSError):  # it has ended already
                    self._lifeline.write(json.dumps(self._config).encode() + b"\n")
                self.code = process.wait()
        except Exception as exc:
            self.cause = exc
        finally:
            self._release()
            self._on_end()

    def _start(self) -> subprocess.Popen[bytes] | None:
        config = self._config
        command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", _PROGRAM]  # type: ignore[attr-defined]
        with self._lock:
            if self._must_end or _is_exiting:
                return None
            with no_forks:
                process = self._process = subprocess.Popen(
                    [*command, str(config["lifeline"])],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(config["fd"], config["lifeline"], config["page"]),
                )
            self._close_theirs()
        if not _KERNEL_ENDS_CHILDREN:
            with suppress(OSError):  # without one, a thread of the worker sees to it, if it can
                self._reaper = OrphanReaper(process.pid)
                keep_from_forks(self._reaper)
        return process

    # -- end

    def end(self) -> threading.Thread:
        """End the process. Returns a thread that waits for that, and kills it if need be."""
        self.disconnect()
        closer = Closer(f"{self._name} (ends)", self._wait_or_kill)
        try:
            closer.start()
        except RuntimeError:  # there is no thread left to wait with
            self.kill()
            return self.thread
        return closer

    def disconnect(self) -> None:
        """Close its lifeline and its connection, so that it ends by itself."""
        with self._lock:
            self._must_end = True
            with suppress(OSError):
                self._lifeline.close()
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)

    def _wait_or_kill(self) -> None:
        self.thread.join(_GRACE)
        self.kill()
        self.thread.join()

    def kill(self) -> None:
        """End it at once; also if it has not been started yet."""
        with self._lock:
            self._must_end = True
            process = self._process
        if process is not None and self.code is None:
            with suppress(OSError):
                process.kill()

    def _release(self) -> None:
        _running.pop(self, None)
        with self._lock:
            self._close_theirs()
            with suppress(OSError):
                self._lifeline.close()
        if self._reaper is not None:
            self._reaper.dismiss()

    def _close_theirs(self) -> None:
        self._theirs.close()
        self._their_lifeline.close()
        self.page.close_fd()

    def after_fork(self) -> None:
        """In a forked child: the process is its parent's, and so is the connection."""
        _running.clear()
        self._lock = threading.Lock()
        self._process = None
        close_in_child(self._ours)
        self._close_theirs()
        with suppress(OSError):
            self._lifeline.close()


class OrphanReaper:
    """Kills a worker that has become an orphan, where the kernel does not do that by itself.

    A shell waits for the end of a pipe that only the main process holds open, and then kills the worker. A thread of
    the worker could not: code in C may keep the interpreter's lock, and a process that is stopped runs nothing.
    """

    def __init__(self, pid: int) -> None:
        # In a session of its own, so that Ctrl-C does not end it.
        with no_forks:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, str(pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def dismiss(self) -> None:
        with suppress(OSError):
            self._process.communicate(b"\n")

    def after_fork(self) -> None:
        """In a forked child: only the parent holds the pipe."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


def _pipe() -> tuple[io.FileIO, io.FileIO]:
    """A pipe: the end to write to, and the end to read from."""
    reading, writing = os.pipe()
    return io.FileIO(writing, "w"), io.FileIO(reading, "r")


def end_all() -> None:
    """End the processes that are left when the program exits. They may run their own exit functions, for a while."""
    global _is_exiting
    _is_exiting = True
    left = list(_running)
    for process in left:
        process.disconnect()
    deadline = monotonic() + _GRACE
    for process in left:
        process.thread.join(max(0.0, deadline - monotonic()))
    for process in left:
        process.kill()
    for process in left:
        process.thread.join(_GRACE)
