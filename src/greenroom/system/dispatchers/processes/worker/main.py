"""The main function of a worker process.

A worker ends with the main process: when its standard input or its connection is closed, or when it gets another
parent. It ignores Ctrl-C, which the main process handles for all.
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
from contextlib import suppress
from typing import TYPE_CHECKING

from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.records.systems import find_elsewhere
from greenroom.system.dispatchers.processes.worker.channel import MainChannel
from greenroom.system.dispatchers.processes.worker.host import WorkerHost
from greenroom.system.system import loop_factory
from greenroom.wire.codec import registered_names

if TYPE_CHECKING:
    from greenroom.system.dispatchers.processes.protocol import WorkerConfig

__all__ = ["main"]

_PARENT_CHECK = 1.0
"""Seconds between two checks of this process's parent."""


def main(config: WorkerConfig) -> None:
    """Host actors until the main process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked until we could ignore it
    parent = os.getppid()
    for watch, arguments in ((_watch_input, ()), (_watch_parent, (parent,))):
        threading.Thread(target=watch, args=arguments, daemon=True).start()
    threading.current_thread().name = config["name"]
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(config))
        # Not the usual exit, which waits for threads that a handler may have left running.
        _leave(0)


async def _serve(config: WorkerConfig) -> None:
    host = WorkerHost(config["system"])
    host.is_manual = config["manual"]
    loop = Loop(host=host)
    poller = Poller(loop)
    channel = MainChannel(loop, asyncio.get_running_loop(), config["limit"])
    host.serve(loop, channel)
    find_elsewhere(host.find)
    poller.attach()
    poller.after_tick = host.report_all
    logging.getLogger().addHandler(_Forwarder(channel))
    logging.getLogger().setLevel(config["log"])
    sock = socket.socket(fileno=config["fd"])
    sock.set_inheritable(False)
    channel.connect(sock, bytes.fromhex(config["secret"]), lambda: channel.post("hello", registered_names()))
    await channel.over.wait()


def _watch_input() -> None:
    """The main process holds the other end of our standard input, and sends nothing more: EOF means it has ended."""
    with suppress(Exception):
        while sys.stdin.buffer.read(1024):
            pass
    _leave(0)


def _watch_parent(parent: int) -> None:
    """A process that outlives the main process may have inherited the other end of our standard input."""
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
        """Send a record, with its text formatted here."""
        try:
            self._channel.post_from_outside("log", self._channel.pack(self._portable(record)))
        except Exception:
            self.handleError(record)

    def _portable(self, record: logging.LogRecord) -> dict[str, object]:
        fields = dict(record.__dict__)
        fields["msg"] = record.getMessage()
        fields["args"] = None
        if record.exc_info:
            fields["exc_text"] = logging.Formatter().formatException(record.exc_info)
        fields["exc_info"] = None
        return {key: value for key, value in fields.items() if isinstance(value, str | int | float | type(None))}
