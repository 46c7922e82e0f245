"""What a history leaves behind: cells, threads, fds, processes, zombies, shared memory."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.chaos.drivers import children_of_this_process
from tools.chaos.guests import start_time
from tools.chaos.journal import Event

__all__ = ["Remains", "end_forked", "open_once"]


def open_once() -> None:
    """Open what is opened once for a process and kept: the pipe that libuv has for signals."""
    with suppress(ImportError):
        import uvloop

        uvloop.new_event_loop().close()


def end_forked(events: list[Event]) -> None:
    """Kill the processes that guests have started: those that the journal names, and no others of their number."""
    for event in events:
        if event.what == "forked":
            pid, began = event.rest
            if began and start_time(pid) == began:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Remains:
    """What was there before a history, to be compared with what is there after it."""

    def __init__(self) -> None:
        gc.collect()
        self._before = _listed()

    def find(self, patience: float, workers: set[int]) -> list[str]:
        """What is left when it has had its time to go; a line for each kind."""
        deadline = time.monotonic() + patience
        pause = 0.002
        while True:
            gc.collect()
            left = self._left(workers)
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)

    def _left(self, workers: set[int]) -> list[str]:
        now = _listed()
        found = []
        for kind, things in now.items():
            new = {key: what for key, what in things.items() if key not in self._before[kind]}
            if kind == "shared memory":
                new = {key: what for key, what in new.items() if not _is_of_others(key)}
            if new:
                found.append(f"leak: {kind} {sorted(new.values())[:10]}")
        outliving = [pid for pid in workers if _runs(pid) and pid not in now["processes"]]
        if outliving:
            found.append(f"leak: worker processes {outliving} outlive their system")
        return found


def _listed() -> dict[str, dict[Any, str]]:
    cells = [one for one in gc.get_objects() if type(one).__name__ == "Cell" and "greenroom" in type(one).__module__]
    return {
        "cells": {number: f"cell {number}" for number in range(len(cells))},
        "threads": {thread.ident: thread.name for thread in threading.enumerate() if thread.is_alive()},
        "fds": _fds(),
        "processes": {pid: f"{pid} {_command(pid)}" for pid in children_of_this_process()},
        "shared memory": _shared_memory(),
    }


def _fds() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that the listing itself needed
            what = str(entry.readlink())
            found[entry.name, what] = f"{entry.name}: {what}"
    return found


def _shared_memory() -> dict[Any, str]:
    try:
        return {one.name: one.name for one in Path("/dev/shm").iterdir()}
    except OSError:
        return {}


def _is_of_others(name: str) -> bool:
    """Whether a process that is none of ours has that shared memory: other programs run on this machine."""
    group = os.getpgid(0)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(process.name)) != group and f"/dev/shm/{name}" in (process / "maps").read_text():
                return True
    return not Path("/dev/shm", name).exists()


def _command(pid: int) -> str:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return f"{state} {Path(f'/proc/{pid}/cmdline').read_text(errors='replace')[:60]!r}"
    except OSError:
        return "(gone)"


def _runs(pid: int) -> bool:
    """Whether one of our group still runs under that number."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" and os.getpgid(pid) == os.getpgid(0)
    except OSError:
        return False
