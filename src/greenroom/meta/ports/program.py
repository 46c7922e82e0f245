"""A program that runs in a process group of its own, until all of that group have ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from greenroom._core.scheduler.fdwatch import FdWatches
from greenroom.meta.ports import groupreaper
from greenroom.wire.forks import no_forks

if TYPE_CHECKING:
    from greenroom.meta.ports.port import ProgramOutlet

AFTER_EXIT = 1.0
"""Seconds in which output may still come after the program has ended: others may hold its pipes."""
AFTER_KILL = 1.0
"""Seconds until killed processes are gone. Only a system that is held up itself takes longer."""
SHORTEST_LOOK = 0.002
LONGEST_LOOK = 0.05
BETWEEN_LOOKS = 0.1
_DEAD = ("Z", "X")
STDERR = {"message": subprocess.PIPE, "stdout": subprocess.STDOUT, "inherit": None, "null": subprocess.DEVNULL}


class Program:
    """A process, which leads its group, and its pipes.

    The process is reaped last. Until then no other group can get its number, so a signal never reaches another group.
    """

    __slots__ = ("_is_reaped", "_watches", "pid", "process", "status")

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]] | str,
        *,
        stderr: str,
        cwd: str | os.PathLike[str] | None,
        environment: Mapping[str, str],
        shell: bool,
    ) -> None:
        with no_forks:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=STDERR[stderr],
                cwd=cwd,
                env=environment,
                shell=shell,
                start_new_session=True,
                bufsize=0,
            )
        self.pid = self.process.pid
        # None while it runs.
        self.status: int | None = None
        self._is_reaped = False
        self._watches: FdWatches | None = None
        groupreaper.guard(self.pid)

    def ends(self) -> tuple[FdEnd, FdEnd, FdEnd | None]:
        watches = self._watches = FdWatches(asyncio.get_running_loop(), 3)
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        errors = None if process.stderr is None else FdEnd(watches, process.stderr)
        return FdEnd(watches, process.stdin), FdEnd(watches, process.stdout), errors

    def signal(self, number: int) -> None:
        """Send the whole group a signal."""
        if not self._is_reaped:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    # -- its end

    def has_ended(self) -> bool:
        if self.status is None:
            try:
                found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:  # reaped elsewhere
                self.status = self.process.wait()
            else:
                if found is not None:
                    self.status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        return self.status is not None

    async def ended(self) -> None:
        if self.has_ended():
            return
        try:
            watch = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not every system has it
            while not self.has_ended():  # noqa: ASYNC110 - there is nothing to wait for
                await asyncio.sleep(LONGEST_LOOK)
            return
        aio = asyncio.get_running_loop()
        over = asyncio.Event()
        aio.add_reader(watch, over.set)
        try:
            await over.wait()
        finally:
            aio.remove_reader(watch)
            os.close(watch)
        self.has_ended()

    async def group_ended_within(self, seconds: float) -> bool:
        """Return True when the process and all of its group have ended, or False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self.ended()
                pause = SHORTEST_LOOK
                while _lives(self.pid):  # the system does not tell of the end of others' children
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_LOOK)
        except TimeoutError:
            return False
        return True

    async def rest_of_output(self, quiet: asyncio.Event, outlet: ProgramOutlet) -> None:
        """Wait for output of what the program has started. While the owner is slow, the time does not count."""
        aio = asyncio.get_running_loop()
        left = AFTER_EXIT
        while left > 0 and not quiet.is_set():
            await outlet.delivered()
            began = aio.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, BETWEEN_LOOKS)):
                    await quiet.wait()
            if not outlet.is_behind():
                left -= aio.time() - began

    def reap(self) -> None:
        """Kill what is left of the group, and collect the status."""
        if self._is_reaped:
            return
        self.signal(signal.SIGKILL)
        self._is_reaped = True
        groupreaper.release(self.pid)
        with suppress(subprocess.TimeoutExpired):
            status = self.process.wait(AFTER_KILL)  # does not block, for the process has been killed
            if self.status is None:
                self.status = status

    def close(self) -> None:
        if self._watches is not None:
            self._watches.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


class FdEnd:
    """One end of a pipe. Nothing here blocks.

    A selector of our own watches it, and not a transport of asyncio's: those close a pipe a while after they are told
    to, when its number may be another's, and uvloop's do not say when that is.
    """

    __slots__ = ("_fd", "_pipe", "_watches")

    def __init__(self, watches: FdWatches, pipe: IO[bytes]) -> None:
        self._watches = watches
        self._pipe = pipe
        self._fd = pipe.fileno()
        os.set_blocking(self._fd, False)

    def watch(self, events: int, ready: Callable[[int], object]) -> None:
        """Call `ready(events)` whenever the pipe can be read or written, instead of what was called before."""
        self._watches.remove(self._fd)
        self._watches.add(self._fd, events, ready)

    def pause(self) -> None:
        self._watches.pause(self._fd)

    def resume(self) -> None:
        self._watches.resume(self._fd)

    def unwatch(self) -> None:
        self._watches.remove(self._fd)

    def read(self, most: int) -> bytes:
        """What has come: empty at the end, `BlockingIOError` if nothing has yet."""
        return os.read(self._fd, most)

    def write(self, data: memoryview) -> int:
        """Write as many bytes as there is room for, and return their number; `BlockingIOError` if there is none."""
        return os.write(self._fd, data)

    def close(self) -> None:
        self._pipe.close()


def _lives(group: int) -> bool:
    # A process that has ended but is not reaped does not count: in a container reaping takes long.
    try:
        os.killpg(group, 0)
        numbers = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - it is quicker
    except ProcessLookupError:
        return False
    except PermissionError:  # Linux says so only of others' living programs; macOS of the dead
        return False
    except OSError:  # there is no such folder
        return True
    return any(_is_of(group, name) for name in numbers)


def _is_of(group: int, name: str) -> bool:
    try:
        if os.getpgid(int(name)) != group:
            return False
        state = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:  # gone meanwhile
        return False
    return state not in _DEAD
