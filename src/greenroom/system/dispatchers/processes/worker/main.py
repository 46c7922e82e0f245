"""The main function of a worker process.

A worker ends with the main process: when its lifeline or its connection is closed, and by a signal of the kernel, where
that can send one. It ignores Ctrl-C, which the main process handles for all.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from greenroom._core.observerhooks import ObserverHooks
from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.records.systems import find_elsewhere
from greenroom.system import watchdog
from greenroom.system.dispatchers.processes.protocol import SharedPage
from greenroom.system.dispatchers.processes.variables import WorkerPropagation
from greenroom.system.dispatchers.processes.worker.channel import MainChannel
from greenroom.system.dispatchers.processes.worker.host import WorkerHost
from greenroom.system.eventloop import loop_factory
from greenroom.wire.forks import keep_from_forks

if TYPE_CHECKING:
    from greenroom.system.dispatchers.processes.protocol import WorkerConfig

_PARENT_CHECK = 1.0
"""Seconds between two checks of this process's parent."""
_PR_SET_PDEATHSIG = 1
_TERMINATE = frozenset({signal.SIGTERM})
_ADVICE = "the other actors there wait for it. Give its dispatcher more workers, or let it await what it waits for"


def _leave_signals_to_main_process() -> None:
    """Ctrl-C, and a SIGTERM to all processes of a service, are for the main process: it may need us to end its work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Not ignored: programs that an actor starts would inherit that, and could not be terminated. A child that it forks
    # can be, too; one that comes while it is forked waits until the child has the usual handler.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, _TERMINATE),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERMINATE),
        after_in_child=_be_terminable,
    )
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *_TERMINATE})  # blocked until now


def _be_terminable() -> None:
    if threading.current_thread() is threading.main_thread():  # only that one sets handlers
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TERMINATE)


def main(config: WorkerConfig) -> None:
    """Host actors until the main process is gone."""
    _leave_signals_to_main_process()
    # Not the usual exit, which waits for threads that a handler may have left running.
    try:
        lifeline = Lifeline(config["lifeline"])
        lifeline.end_with(config["parent"], config["signalled"])
        threading.current_thread().name = config["name"]
        runner = asyncio.Runner(loop_factory=loop_factory())
        runner.run(_serve(config))
    except BaseException:
        traceback.print_exc()
        _leave(1)
    _leave(0)


async def _serve(config: WorkerConfig) -> None:
    host = WorkerHost(config["system"], config["manual"])
    hooks = ObserverHooks(config["slow_after"])
    hooks.trust(SimpleNamespace(stuck_handler=host.stuck))
    propagation = WorkerPropagation(config["propagate"]) if config["propagate"] else None
    loop = Loop(host=host, hooks=hooks, propagation=propagation)
    poller = Poller(loop)
    channel = MainChannel(loop, asyncio.get_running_loop(), config["limit"])
    page = SharedPage(config["page"])
    page.close_fd()
    host.serve(loop, channel, page.words)
    find_elsewhere(host.find)
    poller.attach()
    poller.after_tick = host.report_all
    forwarder = _Forwarder(channel)
    logging.getLogger().addHandler(forwarder)
    logging.getLogger().setLevel(config["log"])
    keep_from_forks(forwarder)
    sock = socket.socket(fileno=config["fd"])
    sock.set_inheritable(False)
    channel.connect(sock, bytes.fromhex(config["secret"]))
    channel.on_return = partial(_leave, 0)
    keep_from_forks(channel)
    if config["stuck_after"] > 0.0:
        watchdog.watch(host, config["stuck_after"], "worker process", _ADVICE)
    await channel.over.wait()


class Lifeline:
    """The pipe whose other end the main process holds. Nothing more is sent over it: its end is ours."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._fd = fd

    def end_with(self, parent: int, signalled: bool) -> None:
        """Have this process end with its parent."""
        threading.Thread(target=self._watch, daemon=True).start()
        if not signalled or not _ask_for_signal():
            threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
        if os.getppid() != parent:  # it ended before we could ask
            os._exit(0)
        keep_from_forks(self)

    def _watch(self) -> None:
        with suppress(OSError):
            while os.read(self._fd, 1024):
                pass
        _leave(0)

    def after_fork(self) -> None:
        """In a forked child: it has a parent of its own."""
        with suppress(OSError):
            os.close(self._fd)


def _ask_for_signal() -> bool:
    """Ask the kernel to kill us when our parent ends. No thread of ours could, if code in C keeps the lock."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0)
    except Exception:  # there is no such call here, or no way to make it
        return False


def _watch_parent(parent: int) -> None:
    """A process that outlives the main process may have inherited the other end of our lifeline."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_PARENT_CHECK)
    _leave(0)


def _leave(code: int) -> None:
    with suppress(BaseException):
        atexit._run_exitfuncs()
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class _Forwarder(logging.Handler):
    """Sends log records to the main process, where the program has configured logging."""

    def __init__(self, channel: MainChannel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._channel.post_from_outside("log", self._channel.pack(self._portable(record)))
        except Exception:
            self.handleError(record)

    def after_fork(self) -> None:
        """In a forked child: it has no connection to the main process, and logs as any program does."""
        logging.getLogger().removeHandler(self)

    def _portable(self, record: logging.LogRecord) -> dict[str, object]:
        fields = dict(record.__dict__)
        fields["msg"] = record.getMessage()
        fields["args"] = None
        if record.exc_info:
            fields["exc_text"] = logging.Formatter().formatException(record.exc_info)
        fields["exc_info"] = None
        return {key: value for key, value in fields.items() if isinstance(value, str | int | float | type(None))}
