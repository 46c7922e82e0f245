"""Programs of a simulation: scripts in place of processes.

To a port, their pipes look like descriptors: they tell when they are ready, and take and give what they can at once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from greenroom._core.scheduler.fdwatch import READ, WRITE
from greenroom.errors import SimulationRefused
from greenroom.meta.simulated.network import Line, LinkFaults, one_per_system
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

_log = RuntimeLog()

Script = Callable[["SimulatedProgram"], Coroutine[Any, Any, int]]

_SHELL = "/bin/sh"
# What a signal does to a program that has no handler for it; the others end it. By name: not every system has all.
_IGNORED = frozenset({"SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH"})
_STOPS = frozenset({"SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"})
_NEVER_HANDLED = frozenset({"SIGKILL", "SIGSTOP"})
KILL = 9
CAPACITY = 65_536
"""Bytes that a pipe holds: as many as Linux's do."""


class Pipe:
    """A pipe between a script and its port, to which it looks like an `FdEnd`.

    What is written is on its way first, as the faults have it; then it can be read.
    """

    def __init__(
        self,
        loop: Loop,
        faults: LinkFaults,
        on_cut: Callable[[], object],
        on_change: Callable[[], object],
        *,
        is_input: bool = False,
    ) -> None:
        self._loop = loop
        self._line = Line(loop, faults)
        self._on_cut = on_cut
        self._on_change = on_change
        # Whether the port writes, and the script reads.
        self._is_input = is_input
        self._on_its_way: deque[bytes] = deque()
        # The number of these that have arrived, and wait for room.
        self._late = 0
        self._arrived: deque[bytes] = deque()
        # Bytes that are on their way, and that have arrived.
        self._sent = 0
        self._unread = 0
        # Whether the writer has closed it; and whether the reader has.
        self._is_closed = False
        self._is_lost = False
        # What the port waits for, and is called when that has come.
        self._wanted = 0
        self._ready: Callable[[int], object] | None = None
        self._is_paused = False
        self._looks = False

    # -- writing

    def put(self, data: bytes) -> None:
        """Write all, whether there is room or not."""
        if self._is_closed or self._is_lost or not data:
            return
        for piece in self._line.pieces(data):
            for start in range(0, len(piece), CAPACITY):
                part = piece[start : start + CAPACITY]
                self._on_its_way.append(part)
                self._sent += len(part)
                self._line.send(self._arrive)

    def write(self, data: memoryview) -> int:
        if self._is_lost:
            raise BrokenPipeError
        taken = bytes(data[: self._room()])
        if not taken:
            raise BlockingIOError
        self.put(taken)
        return len(taken)

    def _room(self) -> int:
        return max(0, CAPACITY - self._sent - self._unread)

    def is_flushed(self) -> bool:
        return not self._on_its_way

    def close(self) -> None:
        """Write no more; what was written arrives, and then the end."""
        self._is_closed = True
        self._changed()

    def break_off(self) -> None:
        """Write no more, and not even what is on its way."""
        self._on_its_way.clear()
        self._sent = self._late = 0
        self.close()

    # -- on the way

    def _arrive(self) -> None:
        if not self._on_its_way:
            return  # broken off
        if self._line.breaks():
            self._on_cut()
            return
        self._late += 1
        self._move()
        self._changed()

    def _move(self) -> None:
        """Make readable what has arrived, as far as there is room."""
        while self._late and self._unread + len(self._on_its_way[0]) <= CAPACITY:
            piece = self._on_its_way.popleft()
            self._late -= 1
            self._sent -= len(piece)
            self._unread += len(piece)
            self._arrived.append(piece)

    # -- reading

    def can_read(self) -> bool:
        """True if there is something, or never will be."""
        return bool(self._arrived) or (self._is_closed and not self._on_its_way)

    def read(self, most: int = CAPACITY) -> bytes:
        """The next piece, or the first bytes of it; empty at the end. `BlockingIOError` if there is nothing yet."""
        if not self.can_read():
            raise BlockingIOError
        if not self._arrived:
            return b""
        piece = self._arrived.popleft()
        if len(piece) > most:
            self._arrived.appendleft(piece[most:])
            piece = piece[:most]
        self._unread -= len(piece)
        self._move()
        self._changed()
        return piece

    def lose(self) -> None:
        """Read no more. Nothing can be written any more."""
        self._is_lost = True
        self._on_its_way.clear()
        self._arrived.clear()
        self._sent = self._late = self._unread = 0
        self._changed()

    # -- telling the port

    def watch(self, events: int, ready: Callable[[int], object]) -> None:
        self._wanted, self._ready, self._is_paused = events, ready, False
        self._look_soon()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._look_soon()

    def unwatch(self) -> None:
        self._ready = None

    def _changed(self) -> None:
        self._on_change()
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._looks and self._ready is not None and not self._is_paused:
            self._looks = True
            self._loop.call_later(0.0, self._look)

    def _look(self) -> None:
        self._looks = False
        # As with a descriptor: the writing end is ready to read when the other side has gone.
        can_read = self._is_lost if self._is_input else self.can_read()
        events = self._wanted & ((READ if can_read else 0) | (WRITE if self._room() else 0))
        if self._ready is not None and not self._is_paused and events:
            self._ready(events)
            self._look_soon()


@dataclass(frozen=True, slots=True)
class Scripted:
    """The script of a command."""

    script: Script
    faults: LinkFaults
    context: Context


class SimulatedProgram:
    """One run of a script: to a port in place of a `Program`, to its script behind a `FakeProgram`."""

    def __init__(
        self,
        loop: Loop,
        pid: int,
        scripted: Scripted,
        args: tuple[str, ...],
        *,
        stderr: str,
        cwd: str | os.PathLike[str] | None,
        environment: Mapping[str, str],
    ) -> None:
        self._loop = loop
        self.pid = pid
        self.args = args
        self.env = dict(environment)
        self.cwd = os.getcwd() if cwd is None else os.fspath(cwd)  # noqa: PTH109 - a text, as it was given
        # None while it runs.
        self.status: int | None = None
        # The status to end with when all is written; None while the script runs.
        self._leaves_with: int | None = None
        self._handlers: dict[int, Callable[[], object]] = {}
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()
        pipe = partial(Pipe, loop, scripted.faults, self._kill, self._changed.set)
        self.stdin, self.stdout, errors = pipe(is_input=True), pipe(), pipe()
        # Where its errors go; None if not to the port.
        self.stderr = {"message": errors, "stdout": self.stdout}.get(stderr)
        self._shows_errors = stderr == "inherit"
        aio = loop.visits.stepper.aio
        assert aio is not None
        # Not in the context of the actor that happens to start it.
        self.task: asyncio.Task[None] = aio.create_task(
            self._run(scripted.script), name=f"program {args[0]}", context=scripted.context.copy()
        )

    def _pipes(self) -> list[Pipe]:
        return [self.stdin, self.stdout, *([] if self.stderr in (None, self.stdout) else [self.stderr])]

    # -- its run

    async def _run(self, script: Script) -> None:
        try:
            status = await self._status_of(script)
            if self._leaves_with is None:
                self._leaves_with = status
            await self.wait(self.is_flushed)
        except asyncio.CancelledError:
            self._end(-KILL)  # unless it has ended already
            raise
        self._end(self._leaves_with)

    async def _status_of(self, script: Script) -> int:
        try:
            return await script(self)
        except SystemExit as exc:
            return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
        except asyncio.CancelledError:
            if self._leaves_with is None:
                raise
            return self._leaves_with
        except Exception as exc:
            self._say_raised(exc)
            return 1

    def _say_raised(self, exc: Exception) -> None:
        if self.status is None:
            self._loop.world.task_failed(f"the script of {self.args[0]!r}", exc)
            _log.error("the script of %r raised, so the program exits with status 1", self.args[0], exc_info=exc)

    def _kill(self, number: int = KILL) -> None:
        """End at once, by a signal or because the seed has it so."""
        if self.status is None:
            self._end(-number)
            self.task.cancel()

    def _end(self, status: int) -> None:
        """End, and drop what is not written yet. What is in the pipes can be read."""
        if self.status is not None:
            return
        self.status = status
        self.stdin.lose()
        for pipe in self._pipes()[1:]:
            pipe.break_off()
        self._ended.set()

    # -- what its script can do

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Return when `condition()` is true, or the program has ended."""
        while not condition() and self.status is None:
            self._changed.clear()
            await self._changed.wait()

    def is_flushed(self) -> bool:
        """True if all that was written is in the pipes."""
        return all(pipe.is_flushed() for pipe in self._pipes()[1:])

    def write_error(self, data: bytes) -> None:
        if self.stderr is not None:
            self.stderr.put(data)
        elif self._shows_errors:
            sys.stderr.write(data.decode(errors="replace"))

    def add_handler(self, number: int, call: Callable[[], object]) -> None:
        name = _name_of(number)
        if name in _NEVER_HANDLED:
            raise OSError(errno.EINVAL, f"no program can handle {name}")
        self._handlers[number] = call

    def leave(self, status: int) -> None:
        """Cancel the script, and end when all is written."""
        has_script_ended, self._leaves_with = self._leaves_with is not None, status
        if self.status is None and not has_script_ended:
            self.task.cancel()

    # -- what a port does with it

    def ends(self) -> tuple[Pipe, Pipe, Pipe | None]:
        return self.stdin, self.stdout, None if self.stderr is self.stdout else self.stderr

    def signal(self, number: int) -> None:
        name = _name_of(number) if number else ""
        if self.status is not None:
            return
        call = self._handlers.get(number)
        if call is not None:
            self._loop.call_later(0.0, lambda: self._handle(call))
        elif name in _STOPS:
            what = f"{name} is sent to the program {self.args[0]!r}"
            raise SimulationRefused(what, "a script cannot be stopped: have it await something instead")
        elif number and name not in _IGNORED:
            self._kill(number)

    def _handle(self, call: Callable[[], object]) -> None:
        if self.status is None:
            try:
                call()
            except Exception as exc:
                self._say_raised(exc)
                self.leave(1)

    def has_ended(self) -> bool:
        return self.status is not None

    async def ended(self) -> None:
        await self._ended.wait()

    async def group_ended_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        return self.status is not None

    async def rest_of_output(self, quiet: asyncio.Event, outlet: object) -> None:
        """Return when all output is read. Only the script has the pipes, so that takes no time."""
        await quiet.wait()

    def reap(self) -> None:
        self._kill()

    def close(self) -> None:
        for pipe in self._pipes():
            pipe.unwatch()


def _name_of(number: int) -> str:
    if number not in signal.valid_signals():
        raise OSError(errno.EINVAL, f"there is no signal {number}")
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return str(number)


class Programs:
    """The programs of a simulated system."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._pids = count(1)
        self._scripts: dict[str, Scripted] = {}
        # asyncio itself keeps no task alive.
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, command: str, script: Script, faults: LinkFaults) -> None:
        self._scripts[command] = Scripted(script, faults, copy_context())

    def start(
        self, command: Sequence[str | os.PathLike[str]] | str, *, shell: bool, **options: Any
    ) -> SimulatedProgram:
        if isinstance(command, str):
            args: tuple[str, ...] = (_SHELL, "-c", command)
        else:
            args = tuple(os.fspath(word) for word in command)
        scripted = self._find(command if isinstance(command, str) else args[0], args[0])
        program = SimulatedProgram(self._loop, next(self._pids), scripted, args, **options)
        self._tasks.add(program.task)
        program.task.add_done_callback(self._tasks.discard)
        return program

    def _find(self, name: str, path: str) -> Scripted:
        for known in (name, path, PurePath(path).name):
            if known in self._scripts:
                return self._scripts[known]
        raise SimulationRefused(
            f"the program {name!r} is started",
            f"programs are not simulated, but scripts are: call FakePeer(system).program({name!r}, script) first",
        )


def programs_of(loop: Loop) -> Programs | None:
    """The programs of a system that is simulated; None for a real one, which has real ones."""
    return one_per_system(loop, Programs)
