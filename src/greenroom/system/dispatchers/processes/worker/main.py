"""The main function of a worker process.

It ends when its home does: with its standard input, which nobody else holds, with its connection, or when it finds
itself somebody else's child. Ctrl-C is home's to hear: it tells its workers what comes of it.
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
from typing import Any

from greenroom._core.scheduler.loop import Loop
from greenroom._core.scheduler.poller import Poller
from greenroom.actor.records.systems import find_elsewhere
from greenroom.system.dispatchers.processes.worker.channel import MainChannel
from greenroom.system.dispatchers.processes.worker.host import WorkerHost
from greenroom.system.system import loop_factory
from greenroom.wire.codec import registered_names

__all__ = ["main"]

_LOOK_AROUND = 1.0
"""Seconds between two looks at whose child this process is."""


def main(config: dict[str, Any]) -> None:
    """Serve home, until it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # it was kept from us while we could not say this
    parent = os.getppid()
    for watch, arguments in ((_watch_input, ()), (_watch_parent, (parent,))):
        threading.Thread(target=watch, args=arguments, daemon=True).start()
    threading.current_thread().name = config["name"]
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(config))
        # Not by the usual way out, which waits for threads that a handler may have left behind.
        _leave(0)


async def _serve(config: dict[str, Any]) -> None:
    host = WorkerHost(config["system"])
    host.is_manual = config["manual"]
    loop = Loop(host=host)
    poller = Poller(loop)
    channel = MainChannel(loop, asyncio.get_running_loop(), config["limit"])
    host.serve(loop, channel)
    find_elsewhere(host.find)
    poller.attach()
    poller.after_tick = host.look_after_all
    logging.getLogger().addHandler(_Forwarder(channel))
    logging.getLogger().setLevel(config["log"])
    sock = socket.socket(fileno=config["fd"])
    sock.set_inheritable(False)
    channel.connect(sock, bytes.fromhex(config["secret"]), lambda: channel.post("hello", registered_names()))
    await channel.over.wait()


def _watch_input() -> None:
    """Home holds the other end of our standard input, and sends nothing more: it ends when home does."""
    with suppress(Exception):
        while sys.stdin.buffer.read(1024):
            pass
    _leave(0)


def _watch_parent(parent: int) -> None:
    """The other end may have been inherited by somebody who outlives home."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_LOOK_AROUND)
    _leave(0)


def _leave(code: int) -> None:
    with suppress(BaseException):
        atexit._run_exitfuncs()
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


class _Forwarder(logging.Handler):
    """Hands log records to home, where the program has said what becomes of them."""

    def __init__(self, channel: MainChannel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record home, with its text made here."""
        try:
            self._channel.post_from_outside("log", self._channel.pack(self._portable(record)))
        except Exception:
            self.handleError(record)

    def _portable(self, record: logging.LogRecord) -> dict[str, Any]:
        fields = dict(record.__dict__)
        fields["msg"] = record.getMessage()
        fields["args"] = None
        if record.exc_info:
            fields["exc_text"] = logging.Formatter().formatException(record.exc_info)
        fields["exc_info"] = None
        return {key: value for key, value in fields.items() if isinstance(value, str | int | float | type(None))}
