"""A program that is a script, in a simulation: it stands where a process would."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from itertools import count
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from greenroom.errors import SimulationRefused
from greenroom.meta.simulated.belongings import belonging
from greenroom.meta.simulated.link import LinkFaults
from greenroom.meta.simulated.pipe import Pipe, ReadEnd, WriteEnd
from greenroom.meta.streams.alarms import set_call
from greenroom.runtimelog import RuntimeLog

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop

__all__ = ["Programs", "SimulatedProgram", "programs_of"]

_log = RuntimeLog()

Script = Callable[["SimulatedProgram"], Coroutine[Any, Any, int]]

_SHELL = "/bin/sh"
# What a signal does to a program that has no handler for it; the others end it. By name: not every system has all.
_IGNORED = frozenset({"SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH"})
_STOPS = frozenset({"SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"})
_NEVER_HANDLED = frozenset({"SIGKILL", "SIGSTOP"})
KILL = 9


@dataclass(frozen=True, slots=True)
class Scripted:
    """What a command does."""

    script: Script
    faults: LinkFaults
    context: Context


class SimulatedProgram:
    """One run of a script. For a port it is a `Program`; the script's side of it is what `FakeProgram` shows."""

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
        # How it has ended; None if it has not.
        self.status: int | None = None
        # The status that it ends with when all is written; None while its script runs.
        self._leaves_with: int | None = None
        self._handlers: dict[int, Callable[[], object]] = {}
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._on_end: list[Callable[[], object]] = []
        faults, random = scripted.faults, loop.host.port.random
        self.stdin, self.stdout, errors = (Pipe(loop, random, faults, self._kill) for _ in range(3))
        # Where its errors go: None if that is not to the port.
        self.stderr = {"message": errors, "stdout": self.stdout}.get(stderr)
        self._shows_errors = stderr == "inherit"
        for pipe in self._pipes():
            pipe.on_change.append(self._changed.set)
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
            self._end(-KILL)  # it has ended already, unless somebody cancels all tasks
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
        if self.status is None and self._loop.director is not None:
            self._loop.director.task_failed(f"the script of {self.args[0]!r}", exc)
            _log.error("the script of %r raised, so the program exits with status 1", self.args[0], exc_info=exc)

    def _kill(self, number: int = KILL) -> None:
        """End it here and now, by a signal or because the seed has it so."""
        if self.status is None:
            self._end(-number)
            self.task.cancel()

    def _end(self, status: int) -> None:
        """It is gone, with what it has not written. What is in its pipes can be read."""
        if self.status is not None:
            return
        self.status = status
        self.stdin.lose()
        for pipe in self._pipes()[1:]:
            pipe.break_off()
        self._ended.set()
        for call in self._on_end:
            call()

    # -- what its script can do

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Return when it is so, or the program has ended."""
        while not condition() and self.status is None:
            self._changed.clear()
            await self._changed.wait()

    def is_flushed(self) -> bool:
        """Whether all that it has written is in its pipes."""
        return all(pipe.is_flushed() for pipe in self._pipes()[1:])

    def write_error(self, data: bytes) -> None:
        """Write to wherever its errors go."""
        if self.stderr is not None:
            self.stderr.write(data)
        elif self._shows_errors:
            sys.stderr.write(data.decode(errors="replace"))

    def add_handler(self, number: int, call: Callable[[], object]) -> None:
        """Have `call` called when a signal comes."""
        name = _name_of(number)
        if name in _NEVER_HANDLED:
            raise OSError(errno.EINVAL, f"no program can handle {name}")
        self._handlers[number] = call

    def leave(self, status: int) -> None:
        """Break the script off, and end when all is written."""
        has_script_ended, self._leaves_with = self._leaves_with is not None, status
        if self.status is None and not has_script_ended:
            self.task.cancel()

    # -- what a port does with it

    def ends(self) -> tuple[WriteEnd, ReadEnd, ReadEnd | None]:
        """The port's ends of its pipes: input, output, errors."""
        errors = None if self.stderr in (None, self.stdout) else ReadEnd(self._loop, self.stderr)
        return WriteEnd(self._loop, self.stdin), ReadEnd(self._loop, self.stdout), errors

    def signal(self, number: int) -> bool:
        """Send it a signal; False when it has ended."""
        name = _name_of(number) if number else ""
        if self.status is not None:
            return False
        call = self._handlers.get(number)
        if call is not None:
            set_call(self._loop, 0.0, lambda: self._handle(call))
        elif name in _STOPS:
            what = f"{name} is sent to the program {self.args[0]!r}"
            raise SimulationRefused(what, "a script cannot be stopped: have it await something instead")
        elif number and name not in _IGNORED:
            self._kill(number)
        return True

    def _handle(self, call: Callable[[], object]) -> None:
        if self.status is None:
            try:
                call()
            except Exception as exc:
                self._say_raised(exc)
                self.leave(1)

    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self.status is not None

    async def ended(self) -> None:
        """Return when it has ended."""
        await self._ended.wait()

    async def group_ended_within(self, seconds: float) -> bool:
        """Return when it has ended, or after `seconds`; whether it has."""
        over = asyncio.Event()
        self._on_end.append(over.set)
        alarm = set_call(self._loop, seconds, over.set)
        try:
            if self.status is None:
                await over.wait()
        finally:
            alarm.disarm(self._loop.timers)
        return self.status is not None

    async def hear_the_rest(self, quiet: asyncio.Event, outlet: object) -> None:
        """Return when all is heard that it has written: nobody else holds its pipes."""
        await quiet.wait()

    def call_later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        """Have `call` called in `seconds`, by the simulation's clock; what takes that back."""
        alarm = set_call(self._loop, seconds, call)
        return lambda: alarm.disarm(self._loop.timers)

    async def kill(self) -> None:
        """Kill it."""
        self.reap()

    def reap(self) -> None:
        """Let nothing be left of it."""
        self._kill()

    def close(self) -> None:
        """Let go of its pipes."""
        for pipe in self._pipes():
            pipe.on_change.clear()


def _name_of(number: int) -> str:
    if number not in signal.valid_signals():
        raise OSError(errno.EINVAL, f"there is no signal {number}")
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals
        return str(number)


class Programs:
    """The programs of a simulated system: what each command does."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._pids = count(1)
        self._scripts: dict[str, Scripted] = {}
        # asyncio itself keeps no task alive.
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, command: str, script: Script, faults: LinkFaults) -> None:
        """Have `command` do what `script` does."""
        self._scripts[command] = Scripted(script, faults, copy_context())

    def start(
        self,
        command: Sequence[str | os.PathLike[str]] | str,
        *,
        stderr: str,
        cwd: str | os.PathLike[str] | None,
        environment: Mapping[str, str],
        shell: bool,
    ) -> SimulatedProgram:
        """Run the script of a command."""
        if isinstance(command, str):
            args: tuple[str, ...] = (_SHELL, "-c", command)
        else:
            args = tuple(os.fspath(word) for word in command)
        scripted = self._find(command if isinstance(command, str) else args[0], args[0])
        program = SimulatedProgram(
            self._loop, next(self._pids), scripted, args, stderr=stderr, cwd=cwd, environment=environment
        )
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
    return belonging(loop, Programs)
