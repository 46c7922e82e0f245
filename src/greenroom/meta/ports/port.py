"""`Port`: a program in a process of its own, as a meta-process; its messages, and its three pipes."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from greenroom._core.scheduler.fdwatch import READ, WRITE
from greenroom.actor.api.behavior import UNHANDLED
from greenroom.errors import BadArgument, ConfigError, ConnectionClosed, ProgramFailed
from greenroom.exits import KILLED
from greenroom.meta import carriers
from greenroom.meta.ports.program import AFTER_EXIT, AFTER_KILL, STDERR
from greenroom.meta.sockets.messages import Close, CloseWrite, Write
from greenroom.meta.streams.framing import Lines, framing_of
from greenroom.meta.streams.owner import Outlet, OwnedProcess
from greenroom.validation import require_count, require_seconds

if TYPE_CHECKING:
    from greenroom._core.scheduler.loop import Loop
    from greenroom.actor.messaging.ref import ActorRef, Alias
    from greenroom.exits import ExitReason
    from greenroom.meta.ports.program import FdEnd, Program
    from greenroom.meta.simulated.program import Pipe, SimulatedProgram
    from greenroom.meta.streams.framing import Decoder

LONGEST_SHOWN = 80
"""Characters of a command, in the log and in errors."""
CHUNK = 1 << 16
MOST_LEFT = 1 << 20
"""Bytes that are read of what a program has left in a pipe: the most that one holds, unless a superuser says more."""


@dataclass(slots=True, unsafe_hash=True)
class Output:
    """A frame that the program has written, to `"stdout"` or to `"stderr"`."""

    alias: Alias
    data: Any
    stream: str = "stdout"


@dataclass(slots=True, unsafe_hash=True)
class Exited:
    """The program has ended: the last message of a `Port`. `status` is 0 if all went well, -9 if signal 9 ended it.

    `error` says what broke it off, if its output did: a frame that is too large, say.
    """

    alias: Alias
    status: int
    error: BaseException | None = None


@dataclass(slots=True, unsafe_hash=True)
class SendSignal:
    """Send the program, and all it has started, a signal."""

    signal: int = signal.SIGTERM


class Port(OwnedProcess):
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
    farewell, they are killed too. The port has ended when all of them have. In a simulation there are no processes:
    `testing.FakePeer.program()` says what the program does.

    Args:
        command: The program and its arguments: `["sort", "-r"]`; with `shell=True`, a text for the shell.
        owner: Who is told, and with whom it ends. The parent, by default.
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
        if stderr not in STDERR:
            raise ConfigError("stderr", stderr, f"must be one of {', '.join(STDERR)}")
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
        self._program: Program | SimulatedProgram | None = None
        self._outlet: ProgramOutlet | None = None
        self._input: InputPipe | None = None
        # Set when nothing more can come from the program.
        self._quiet = asyncio.Event()
        self._error: BaseException | None = None
        # Lets messages in again, if the program lives on though it does not read.
        self._alarm: asyncio.TimerHandle | None = None
        # Whether the owner knows that the program has ended.
        self._told = False

    # -- running

    def init(self) -> None:
        """Start the program: if that fails, there is no port, and `spawn_meta` raises."""
        environment = {**(os.environ if self._environment is None else self._environment), **self._extra}
        self._program = carriers.start_program(
            self._loop, self._command, stderr=self._stderr, cwd=self._cwd, environment=environment, shell=self._shell
        )

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return None if self._program is None else self._program.pid

    async def start(self) -> None:
        program = self._program
        assert program is not None
        outlet = self._open(program)
        await program.ended()
        await program.rest_of_output(self._quiet, outlet)
        self._tell_end(outlet)
        await outlet.delivered()
        if self._check and program.status:
            raise ProgramFailed(self._shown_command(), program.status)

    def _open(self, program: Program | SimulatedProgram) -> ProgramOutlet:
        self._end_with(self._recipient(), self._spawned().ctx.stop)
        outlet = self._outlet = ProgramOutlet(self._loop, self.id, self._recipient())
        stdin, stdout, stderr = program.ends()
        self._input = InputPipe(stdin, self._high_water, self._spawned().stall, self._input_lost)
        for stream, end, framing in (("stdout", stdout, self._framing), ("stderr", stderr, Lines())):
            if end is not None:
                outlet.pipes.append(OutputPipe(end, outlet, framing.decoder(), stream, self._output_ended))
        self._spawned().stall(False)
        return outlet

    def _output_ended(self, pipe: OutputPipe, error: BaseException | None) -> None:
        if error is not None and self._error is None:
            self._error = error
            told = "%s of %s cannot be read any more, and the program is ended: %s"
            self.log.error(told, pipe.stream, self._shown_command(), error)
            if not self.stopping:
                self._spawned().ctx.stop()
        if self._outlet is not None and all(one.over for one in self._outlet.pipes):
            self._quiet.set()

    def _tell_end(self, outlet: ProgramOutlet) -> None:
        """Tell the owner how the program ended, after all of its output."""
        if not self._told and outlet.has_live_owner():
            self._told = True
            for pipe in outlet.pipes:
                pipe.read_rest()
            outlet.tell(self._exited())

    def _exited(self) -> Exited:
        status = None if self._program is None else self._program.status
        return Exited(self.id, status or 0, self._error)

    def _input_lost(self) -> None:
        # The program is probably about to end: what is written waits, for the next program if there is one.
        self._spawned().stall(True)
        self._alarm = asyncio.get_running_loop().call_later(AFTER_EXIT, self._go_on_if_alive)

    def _go_on_if_alive(self) -> None:
        """Tell the writers that it is too late, if the program has closed its input but goes on."""
        if self._program is not None and not self._program.has_ended():
            self._spawned().stall(False)

    def _shown_command(self) -> str:
        words = self._command if isinstance(self._command, str) else [os.fspath(word) for word in self._command]
        shown = " ".join((words if isinstance(words, str) else shlex.join(words)).split())
        return shown if len(shown) <= LONGEST_SHOWN else f"{shown[: LONGEST_SHOWN - 1]}…"

    # -- messages

    def _is_unready(self) -> bool:
        return self._input is None

    def handle_message(self, message: Any) -> object:
        if not isinstance(message, Write):
            return self._control(message)
        try:
            self._write(message)
        except Exception as exc:
            self._bury_unwritten(message, exc)
        return None

    def handle_call(self, request: Any) -> object:
        if not isinstance(request, Write):
            return self._control(request)
        count = self._write(request)
        pipe = self._input
        if pipe is None or not pipe.is_full():
            return count
        # Waiting here would keep the port from being stopped meanwhile.
        reply = self.defer_reply()

        def answer() -> None:
            if pipe.over:
                reply.fail(ConnectionClosed(self.id, "the program reads no more"))
            else:
                reply.send(count)

        pipe.when_drained(answer)
        return None

    def _write(self, message: Write) -> int:
        if self._input is None or self._input.is_closing():
            raise ConnectionClosed(self.id, "the program reads no more")
        frame = self._framing.encode(message.data)
        self._input.write(frame)
        return len(frame)

    def _control(self, message: object) -> object:
        if isinstance(message, CloseWrite):
            if self._input is not None:
                self._input.close()
        elif isinstance(message, Close):
            cell = self._spawned().ctx.cell
            if message.abort:
                cell.loop.host.request_end(cell, KILLED)
            else:
                cell.loop.host.request_own_end(cell)
        elif isinstance(message, SendSignal):
            if not isinstance(message.signal, int):
                raise BadArgument(f"SendSignal() takes the number of a signal, not {message.signal!r}")
            if self._program is not None:
                self._program.signal(message.signal)
        else:
            return UNHANDLED
        return None

    def _shown(self) -> dict[str, Any]:
        pipes = [] if self._outlet is None else self._outlet.pipes
        return {
            "command": self._shown_command(),
            "pid": self.pid,
            "status": None if self._program is None else self._program.status,
            "bytes_in": 0 if self._input is None else self._input.bytes,
            **{f"bytes_{pipe.stream}": pipe.bytes for pipe in pipes},
        }

    # -- the end

    async def terminate(self, reason: ExitReason) -> None:
        program = self._program
        if program is None:
            return
        self._spawned().stall(False)
        has_ended = False
        if reason is not KILLED:
            program.signal(signal.SIGTERM)
            program.signal(signal.SIGCONT)  # one that is stopped can end only if it goes on
            has_ended = await program.group_ended_within(self._kill_grace)
        if not has_ended:
            program.signal(signal.SIGKILL)
            await program.group_ended_within(AFTER_KILL)
        self._give_up(hears=reason is not KILLED)
        if self._outlet is None and self._recipient().is_alive:  # the port ended before it had begun
            self._tell_owner(self._exited())

    def _give_up(self, hears: bool = False) -> None:
        program, outlet = self._program, self._outlet
        if program is None:
            return
        program.reap()
        self._leave_owner()
        if self._alarm is not None:
            self._alarm.cancel()
        if outlet is not None:
            for pipe in () if hears else outlet.pipes:
                pipe.end()
            self._tell_end(outlet)
            for pipe in outlet.pipes:
                pipe.end()
            outlet.detach()
        if self._input is not None:
            self._input.abort()
        program.close()


class ProgramOutlet(Outlet):
    """Tells the owner what the program writes; when that is too much, neither of its outputs is read."""

    __slots__ = ("_told", "pipes")

    def __init__(self, loop: Loop, alias: Alias, owner: ActorRef) -> None:
        super().__init__(loop)
        self._told = asyncio.Event()
        self.alias = alias
        self.pipes: list[OutputPipe] = []
        self._owner = owner._cell

    def _pause(self) -> None:
        for pipe in self.pipes:
            pipe.pause()

    def _resume(self) -> None:
        self._told.set()
        for pipe in self.pipes:
            pipe.resume()

    async def delivered(self) -> None:
        while self.is_behind():
            self._told.clear()
            await self._told.wait()


class OutputPipe:
    """Reads the program's output, or its errors."""

    def __init__(
        self,
        source: FdEnd | Pipe,
        outlet: ProgramOutlet,
        decoder: Decoder,
        stream: str,
        on_end: Callable[[OutputPipe, BaseException | None], object],
    ) -> None:
        self._source = source
        self._outlet = outlet
        self._decoder = decoder
        self._on_end = on_end
        self.stream = stream
        self.bytes = 0
        self.over = False
        source.watch(READ, lambda events: self._read())

    def pause(self) -> None:
        if not self.over:
            self._source.pause()

    def resume(self) -> None:
        if not self.over:
            self._source.resume()

    def _read(self) -> int:
        """Read what is there, up to a chunk. Returns the number of bytes."""
        try:
            data = self._source.read(CHUNK)
        except BlockingIOError:
            return 0
        except OSError as exc:
            self.end(exc)
            return 0
        if not data:
            self._finish()
            return 0
        self.bytes += len(data)
        if self._outlet.has_live_owner():  # a program whose owner has ended may still write: that is thrown away
            self._tell(lambda: self._decoder.feed(data))
        return len(data)

    def _tell(self, frames: Callable[[], Iterable[Any]]) -> None:
        try:
            for frame in frames():
                self._outlet.tell(Output(self._outlet.alias, frame, self.stream))
        except Exception as exc:
            self.end(exc)

    def _finish(self) -> None:
        self._tell(self._decoder.finish)
        self.end()

    def read_rest(self) -> None:
        """Read what is left, and no more. The owner is told of a last frame without an end too."""
        left = MOST_LEFT
        while not self.over and left > 0 and (count := self._read()):
            left -= count
        if not self.over:
            self._finish()

    def end(self, error: BaseException | None = None) -> None:
        """Read no more. The pipe stays open until the program has ended: closing it might be what ends the program."""
        if not self.over:
            self.over = True
            self._source.unwatch()
            self._on_end(self, error)


class InputPipe:
    """Writes to the program's input."""

    def __init__(
        self,
        sink: FdEnd | Pipe,
        high_water: int,
        on_stall: Callable[[bool], object],
        on_lost: Callable[[], object],
    ) -> None:
        self._sink = sink
        self._high_water = high_water
        self._on_lost = on_lost
        self._on_stall = on_stall
        self._buffer = bytearray()
        # Called when there is room again; None while there is.
        self._waiting: list[Callable[[], object]] | None = None
        self._is_closing = False
        self.over = False
        self.bytes = 0
        sink.watch(READ, self._is_ready)  # ready to read when the program reads no more

    def write(self, data: bytes) -> None:
        """Write now, or when there is room in the pipe."""
        self.bytes += len(data)
        if self._buffer:
            self._buffer += data
        else:
            written = self._push(data)
            if written < len(data) and not self.over:
                self._buffer += memoryview(data)[written:]
                self._sink.watch(READ | WRITE, self._is_ready)
        if len(self._buffer) > self._high_water and self._waiting is None:
            self._waiting = []
            self._on_stall(True)

    def is_full(self) -> bool:
        return self._waiting is not None

    def when_drained(self, call: Callable[[], object]) -> None:
        """Call `call` when a full pipe has room for more, or never will."""
        if self._waiting is not None:
            self._waiting.append(call)

    def close(self) -> None:
        """When all is written, let the program see the end of its input."""
        self._is_closing = True
        if not self._buffer:
            self.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self.over

    def abort(self) -> None:
        if not self.over:
            self._end()
            self._sink.close()

    def _end(self) -> None:
        self.over = True
        self._sink.unwatch()
        self._buffer.clear()
        self._go_on()

    def _is_ready(self, events: int) -> None:
        if events & READ:
            self._lose()
            return
        del self._buffer[: self._push(self._buffer)]
        if self.over:
            return
        if not self._buffer:
            self._sink.watch(READ, self._is_ready)
            if self._is_closing:
                self.abort()
                return
        if len(self._buffer) <= self._high_water // 4 and self._waiting is not None:
            self._go_on()
            self._on_stall(False)

    def _push(self, data: bytes | bytearray) -> int:
        total = 0
        with memoryview(data) as view:
            while total < len(view):
                try:
                    total += self._sink.write(view[total : total + CHUNK])
                except OSError:  # there is no room now, or the program reads no more: that is told
                    break
        return total

    def _lose(self) -> None:
        self._end()
        if not self._is_closing:
            self._on_lost()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        for call in waiting or ():
            call()
