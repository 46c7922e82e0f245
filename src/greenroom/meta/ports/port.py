"""`Port`: a program in a process of its own, as a meta-process."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from greenroom.actor.api.behavior import UNHANDLED
from greenroom.errors import BadArgument, ConfigError, ConnectionClosed, ProgramFailed
from greenroom.exits import KILLED
from greenroom.meta.ports import groupreaper
from greenroom.meta.ports.messages import Exited, SendSignal
from greenroom.meta.ports.pipes import InputPipe, OutputPipe, ProgramOutlet
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.sockets.messages import Close, CloseWrite, Write
from greenroom.meta.streams.alarms import set_call
from greenroom.meta.streams.checks import require_count, require_seconds
from greenroom.meta.streams.framing import Lines, framing_of
from greenroom.meta.streams.ownerend import OwnerEnd
from greenroom.wire.forks import no_forks

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef
    from greenroom.exits import ExitReason

__all__ = ["Port"]

_STDERR = ("message", "stdout", "inherit", "null")
AFTER_EXIT = 1.0
"""Seconds that output may still come after the program has ended: others may hold its pipes."""
LONGEST_SHOWN = 80
"""Characters of a command, in the log and in errors."""


class Port(MetaProcess):
    """Runs a program. Its owner gets `Output(alias, data, stream)`, and last `Exited(alias, status)`.

    The owner sends `Write(data)` for its input, `CloseWrite()` to end that, `Close()` to end the program, and
    `SendSignal(signal)`. A program that cannot be started is an `OSError` where the port is spawned.

    >>> import asyncio
    >>> from greenroom import Actor, ActorSystem, handles
    >>> from greenroom.meta import CloseWrite, Exited, Output, Write
    >>> class Sorter(Actor[object]):
    ...     def __init__(self, done: asyncio.Future[list[bytes]]) -> None:
    ...         self.lines, self.done = [], done
    ...     def pre_start(self) -> None:
    ...         sort = self.ctx.spawn_meta(Port(["sort"]))
    ...         for word in (b"pear", b"apple"):
    ...             sort.tell(Write(word))
    ...         sort.tell(CloseWrite())
    ...     @handles(Output)
    ...     def line(self, message: Output) -> None:
    ...         self.lines.append(message.data)
    ...     @handles(Exited)
    ...     def exited(self, message: Exited) -> None:
    ...         self.done.set_result(self.lines)
    >>> async def main() -> list[bytes]:
    ...     done: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
    ...     async with ActorSystem() as system:
    ...         system.spawn(Sorter, done)
    ...         return await done
    >>> asyncio.run(main())
    [b'apple', b'pear']

    It runs in a process group of its own. When it ends, or its owner does, so do all processes of that group: they are
    asked to (SIGTERM), and killed if they have not ended after `kill_grace` seconds. If this Python dies without a
    farewell, they are killed too.

    Args:
        command: The program and its arguments: `["sort", "-r"]`; with `shell=True`, a text for the shell.
        owner: Who is told. The parent, by default.
        framing: How its output is cut: `Lines()`, unless it is `Raw()`, `LengthPrefixed()`, `Fixed(n)` or a function.
            What is written to it is framed likewise.
        stderr: What becomes of its errors: `"message"` for `Output`s of their own, cut into lines; `"stdout"` for the
            same as its output; `"inherit"` to show them where this program shows its own; `"null"` for nothing.
        cwd: Its working directory.
        environment: Its environment variables, all of them. By default those of this process.
        extra_environment: Variables to set besides.
        kill_grace: Seconds between asking it to end and killing it.
        check: Whether an exit status other than 0 is a failure of the meta-process: then a supervisor can restart it.
        high_water: Bytes in the input's buffer from which on no further `Write` is handled.
    """

    _on_loop: ClassVar[bool] = True

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]] | str,
        *,
        owner: ActorRef | None = None,
        framing: Any = "lines",
        stderr: str = "message",
        cwd: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
        extra_environment: Mapping[str, str] | None = None,
        shell: bool = False,
        kill_grace: float = 2.0,
        check: bool = False,
        high_water: int = 65_536,
    ) -> None:
        if isinstance(command, str) != shell or not command:
            wanted = "a text for the shell" if shell else 'a list, as in ["sort", "-r"]; a text needs `shell=True`'
            raise ConfigError("command", command, f"must be {wanted}")
        if stderr not in _STDERR:
            raise ConfigError("stderr", stderr, f"must be one of {', '.join(_STDERR)}")
        require_seconds("kill_grace", kill_grace)
        require_count("high_water", high_water)
        self._command = command
        self._owner = owner
        self._framing = framing_of(framing)
        self._stderr = stderr
        self._cwd = cwd
        self._environment = environment
        self._extra = dict(extra_environment or {})
        self._shell = shell
        self._kill_grace = kill_grace
        self._check = check
        self._high_water = high_water
        self._process: subprocess.Popen[bytes] | None = None
        self._outlet: ProgramOutlet | None = None
        self._input: InputPipe | None = None
        self._quiet: asyncio.Event | None = None
        self._owner_end: OwnerEnd | None = None
        self._error: BaseException | None = None
        self._status: int | None = None
        # Whether its pipes are there.
        self._is_ready = False
        # Whether the owner has closed its input, and so wants it to end.
        self._is_asked_to_end = False
        # Whether its owner knows that it has ended.
        self._told = False

    # -- running

    def init(self) -> None:
        """Start the program: if that fails, there is no port, and whoever spawns it knows."""
        to = {"message": subprocess.PIPE, "stdout": subprocess.STDOUT, "inherit": None, "null": subprocess.DEVNULL}
        environment = {**(os.environ if self._environment is None else self._environment), **self._extra}
        with no_forks:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=to[self._stderr],
                cwd=self._cwd,
                env=environment,
                shell=self._shell,
                start_new_session=True,
                bufsize=0,
            )
        groupreaper.guard(self._process.pid)

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Pass on what it writes, until it has ended."""
        process = self._process
        assert process is not None
        aio = asyncio.get_running_loop()
        loop = self._require_host("a port").ctx.cell.loop
        self._quiet = asyncio.Event()
        owner = self._owner or self.parent
        outlet = self._outlet = ProgramOutlet(loop, self.id, owner)
        if owner != self.parent:
            self._owner_end = OwnerEnd(owner, self._require_host("a port").ctx.stop)
        for stream, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if pipe is not None:
                framing = self._framing if stream == "stdout" else Lines()
                output = OutputPipe(outlet, framing.decoder(), stream, self._output_ended)
                outlet.pipes.append(output)
                own = _taken_over(pipe, "rb")
                await aio.connect_read_pipe(lambda output=output: output, own)  # type: ignore[misc]
        if outlet.is_behind():
            outlet._pause()
        pipe_in = self._input = InputPipe(self._high_water, self._stall, self._input_lost)
        await aio.connect_write_pipe(lambda: pipe_in, _taken_over(process.stdin, "wb"))
        self._is_ready = True
        self._stall(False)
        await self._wait_for_exit(process)
        await self._hear_the_rest()
        self._finish(outlet)
        await outlet.delivered()
        if self._check and self._status != 0:
            raise ProgramFailed(self._shown_command(), self._status or 0)

    async def _wait_for_exit(self, process: subprocess.Popen[bytes]) -> None:
        """Return when the process has ended."""
        aio = asyncio.get_running_loop()
        ended = asyncio.Event()
        try:
            watch = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # not every system has it, so there is nothing to wait for
            while _status_of(process) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        else:
            try:
                aio.add_reader(watch, ended.set)
                await ended.wait()
            finally:
                aio.remove_reader(watch)
                os.close(watch)
        # Not reaped yet: until it is, its number is no other group's, and the rest of the group can be killed.
        self._status = _status_of(process)

    def _output_ended(self, pipe: OutputPipe, error: BaseException | None) -> None:
        if error is not None and self._error is None:
            self._error = error
            told = "%s of %s cannot be read any more, and the program is ended: %s"
            self.log.error(told, pipe.stream, self._shown_command(), error)
            self._require_host("a port").ctx.stop()
        outlet = self._outlet
        if outlet is not None and self._quiet is not None and all(one.over for one in outlet.pipes):
            self._quiet.set()

    def _finish(self, outlet: ProgramOutlet) -> None:
        """It has ended: tell the owner, last of all."""
        for pipe in outlet.pipes:
            pipe.close()
        if not self._told and (outlet.is_heard() or outlet.is_behind()):
            self._told = True
            outlet.tell(Exited(self.id, self._status or 0, self._error))

    def _input_lost(self) -> None:
        """It reads no more. Most likely it is about to end: what is written waits, for the next one if there is one."""
        if self._is_asked_to_end:
            return
        self._stall(True)
        loop = self._require_host("a port").ctx.cell.loop
        set_call(loop, AFTER_EXIT, self._go_on_if_alive)

    def _go_on_if_alive(self) -> None:
        """It has closed its input, and goes on: what is written to it now is told to be too late."""
        if self._status is None:
            self._stall(False)

    def _shown_command(self) -> str:
        words = self._command if isinstance(self._command, str) else [os.fspath(word) for word in self._command]
        shown = " ".join((words if isinstance(words, str) else shlex.join(words)).split())
        return shown if len(shown) <= LONGEST_SHOWN else f"{shown[: LONGEST_SHOWN - 1]}…"

    # -- messages

    def _is_unready(self) -> bool:
        return not self._is_ready

    def _stall(self, stalls: bool) -> None:
        """Let messages wait while the program does not read."""
        self._require_host("a port").stall(stalls)

    def handle_message(self, message: Any) -> object:
        """`Write`, `CloseWrite`, `Close` or `SendSignal`."""
        if not isinstance(message, Write):
            return self._control(message)
        try:
            self._write(message)
        except Exception as exc:
            self.log.error("this cannot be written, and is a dead letter: %s", exc)
            self._require_host("a port").bury(message, f"cannot be written: {exc}")
        return None

    def handle_call(self, request: Any) -> object:
        """The same; of `Write`, the number of bytes when there is room for more."""
        if not isinstance(request, Write):
            return self._control(request)
        count, drained = self._write(request)
        if drained is None:
            return count
        # Not by waiting here: it must be possible to stop it meanwhile.
        reply = self.defer_reply()

        def answer(future: object) -> None:
            if self._input is None or self._input.over:
                reply.fail(ConnectionClosed(self.id, "the program reads no more"))
            else:
                reply.send(count)

        drained.add_done_callback(answer)
        return None

    def _write(self, message: Write) -> tuple[int, asyncio.Future[None] | None]:
        if self._input is None or self._input.over or self._input.transport.is_closing():
            raise ConnectionClosed(self.id, "the program reads no more")
        frame = self._framing.encode(message.data)
        return len(frame), self._input.write(frame)

    def _control(self, message: object) -> object:
        if isinstance(message, CloseWrite):
            self._is_asked_to_end = True
            if self._input is not None:
                self._input.close()
        elif isinstance(message, Close):
            host = self._require_host("a port")
            life = host.ctx.cell.loop.host
            if message.abort:
                life.request_end(host.ctx.cell, KILLED)
            else:
                life.request_own_end(host.ctx.cell)
        elif isinstance(message, SendSignal):
            if not isinstance(message.signal, int):
                raise BadArgument(f"SendSignal() takes the number of a signal, not {message.signal!r}")
            self._signal(message.signal)
        else:
            return UNHANDLED
        return None

    def _signal(self, number: int) -> bool:
        """Send its whole group a signal; False when there is nobody left."""
        if self._process is None:
            return False
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def inspect(self, *items: str) -> Mapping[str, Any]:
        """The program, its process, and how much has passed."""
        pipes = [] if self._outlet is None else self._outlet.pipes
        shown = {
            "command": self._shown_command(),
            "pid": self.pid,
            "status": self._status,
            "bytes_in": 0 if self._input is None else self._input.bytes,
            **{f"bytes_{pipe.stream}": pipe.bytes for pipe in pipes},
        }
        return {name: shown[name] for name in items if name in shown} if items else shown

    # -- the end

    async def terminate(self, reason: ExitReason) -> None:
        """End the program, and whatever it has started."""
        process = self._process
        if process is None:
            return
        self._require_host("a port").stall(False)
        if self._owner_end is not None:
            self._owner_end.cancel()
        try:
            if reason is not KILLED and self._signal(signal.SIGTERM):
                await self._group_ended_within(process, self._kill_grace)
        finally:
            self._signal(signal.SIGKILL)
            await self._ended_within(process, AFTER_EXIT)
            process.poll()
            groupreaper.release(process.pid)
            if reason is not KILLED:
                await self._hear_the_rest()
            self._close(process)

    async def _group_ended_within(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        """Wait for the program, and then for those it has started."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if self._status is None:
                    await self._wait_for_exit(process)
                process.poll()  # a dead one that nobody has asked for counts as one of the group
                while self._signal(0):  # noqa: ASYNC110 - nothing tells of the end of others' children
                    await asyncio.sleep(0.01)

    async def _hear_the_rest(self) -> None:
        """What it has said last. If the owner is slow, that takes as long as the owner does; unless it is to end."""
        outlet, quiet = self._outlet, self._quiet
        while quiet is not None and outlet is not None and not all(one.over for one in outlet.pipes):
            with suppress(TimeoutError):
                async with asyncio.timeout(AFTER_EXIT):
                    await quiet.wait()
            if not outlet.is_behind() or self.stopping:
                return

    async def _ended_within(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        if self._status is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wait_for_exit(process)

    def _give_up(self) -> None:
        process = self._process
        if process is not None:
            self._signal(signal.SIGKILL)
            process.poll()
            groupreaper.release(process.pid)
            self._close(process)

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        """Let go of its pipes; the owner, if it is there, is told how it ended."""
        outlet = self._outlet
        if outlet is not None:
            self._finish(outlet)
            outlet.give_up()
        elif not self._told and (self._owner or self.parent).is_alive:
            self._told = True
            owner = self._owner or self.parent
            self._require_host("a port").send_in_time(owner, Exited(self.id, self._status or 0, self._error))
        if self._input is not None:
            self._input.abort()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()  # if asyncio has not come to take it over


def _taken_over(pipe: Any, mode: str) -> Any:
    """The same pipe, which is asyncio's alone from now on."""
    own = os.fdopen(os.dup(pipe.fileno()), mode, 0)
    pipe.close()
    return own


def _status_of(process: subprocess.Popen[bytes]) -> int | None:
    """How a process has ended, which stays to be reaped; None if it has not."""
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
