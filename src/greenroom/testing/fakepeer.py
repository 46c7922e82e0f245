"""`FakePeer` and `FakeProgram`: a test's end of connections, and what runs in place of programs, in a simulation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from greenroom.actor.messaging.ref import Alias
from greenroom.errors import BadArgument, ConfigError
from greenroom.meta.simulated.network import LinkFaults, SimulatedListener, network_of
from greenroom.meta.simulated.program import programs_of
from greenroom.validation import require_instance, require_seconds

if TYPE_CHECKING:
    from greenroom.meta.simulated.network import Network, SimulatedTransport
    from greenroom.meta.simulated.program import Programs, SimulatedProgram
    from greenroom.system.system import ActorSystem


class FakePeer:
    """Connects to the servers of a simulated system, takes the connections of its clients, and is its programs.

    >>> from greenroom import Actor, ActorSystem, handles
    >>> from greenroom.meta import Lines, Received, TcpServer, Write
    >>> from greenroom.testing import Simulation
    >>> class Echo(Actor[object]):
    ...     @handles(Received)
    ...     def echo(self, message: Received) -> None:
    ...         message.alias.tell(Write(message.data.upper()))
    >>> class Front(Actor[object]):
    ...     def pre_start(self) -> None:
    ...         self.ctx.spawn_meta(TcpServer(port=7, handler=Echo, framing=Lines()))
    ...     def receive(self, message: object) -> None: ...
    >>> async def program(system: ActorSystem) -> bytes:
    ...     system.spawn(Front)
    ...     peer = FakePeer(system, delay=(0.0, 0.1), split=True)
    ...     connection = await peer.connect(("127.0.0.1", 7))
    ...     connection.send(b"hello\\n")
    ...     return await connection.read_until(b"\\n")
    >>> Simulation(seed=1).run(program)
    b'HELLO\\n'

    Args:
        system: The simulated system.
        delay: Seconds that each piece of data takes, at least and at most; the seed decides.
        split: Whether pieces come apart on the way, where the seed decides.
        cut: How likely it is, for each piece, that the connection breaks instead, or that the program is killed.
    """

    def __init__(
        self, system: ActorSystem, *, delay: float | tuple[float, float] = 0.0, split: bool = False, cut: float = 0.0
    ) -> None:
        network, programs = network_of(system._loop), programs_of(system._loop)
        if network is None or programs is None:
            raise BadArgument("a FakePeer is for a system that is simulated: connect to a real one with a real socket")
        low, high = delay if isinstance(delay, tuple) else (delay, delay)
        require_seconds("delay", low)
        require_seconds("delay", high)
        if not 0.0 <= cut <= 1.0:
            raise ConfigError("cut", cut, "must be from 0 to 1: how likely it is")
        self._system = system
        self._network: Network = network
        self._programs: Programs = programs
        self._faults = LinkFaults((low, max(low, high)), split, cut)
        self._scripts: set[asyncio.Task[None]] = set()

    async def connect(self, where: Any) -> FakeConnection:
        """Connect to a server: to the address it listens on, or to its alias.

        One that has been spawned is waited for. Raise `ConnectionRefusedError` if none listens there.
        """
        await self._system.settle()
        address = (await where.inspect("address"))["address"] if isinstance(where, Alias) else where
        connection = FakeConnection()
        await self._network.connect(address, lambda: connection, self._faults)
        return connection

    def listen(self, address: Any, script: Callable[[FakeConnection], Awaitable[object]]) -> None:
        """Take connections to `address`, and run `script(connection)` for each: what a server would do."""

        def take() -> FakeConnection:
            connection = FakeConnection()
            task = asyncio.get_running_loop().create_task(self._run(script, connection))
            self._scripts.add(task)
            task.add_done_callback(self._scripts.discard)
            return connection

        SimulatedListener(self._network, address).listen(take, self._faults)

    async def _run(self, script: Callable[[FakeConnection], Awaitable[object]], connection: FakeConnection) -> None:
        try:
            await script(connection)
        except ConnectionError:
            pass  # it was cut: that is what scripts have to expect
        finally:
            connection.close()

    def stop_listening(self, address: Any) -> None:
        """Take no more connections: clients are refused."""
        listener = self._network.listeners.get(address)
        if listener is not None:
            listener.close()

    def program(self, command: str, script: Callable[[FakeProgram], Awaitable[int | None]]) -> None:
        """Have each `Port(["command", ...])` run `script(program)`, where there would be a process.

        `command` is the program as the port has it, or the last part of that path; with `shell=True`, the whole text.
        The script returns the exit status, where None is 0; if it raises, that is 1.
        """
        require_instance("command", command, str, "the name of a program")

        async def run(program: SimulatedProgram) -> int:
            return exit_status(await script(FakeProgram(program)))

        self._programs.add(command, run, self._faults)

    async def send_packet(self, data: bytes, to: Any, *, sender: Any = ("127.0.0.1", 1)) -> None:
        """Send a UDP packet."""
        self._network.send(data, to, sender)


class FakeConnection(asyncio.Protocol):
    """One connection of a `FakePeer`."""

    def __init__(self) -> None:
        self._transport: SimulatedTransport | None = None
        self._arrived: asyncio.Event = asyncio.Event()
        self.received = bytearray()
        """What has come, and was not read."""
        self.is_closed = False
        """Whether nothing more comes."""
        self.error: BaseException | None = None
        """What broke the connection, if it was not closed."""

    # -- what its transport calls

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._arrived.set()

    def eof_received(self) -> bool:
        self.is_closed = True
        self._arrived.set()
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        self.is_closed = True
        self.error = exc
        self._arrived.set()

    # -- what a test does

    def _end(self) -> SimulatedTransport:
        assert self._transport is not None
        return self._transport

    def send(self, data: bytes) -> None:
        """Send bytes; `ConnectionError` if the connection is over."""
        if self._end().is_closing():
            raise ConnectionResetError("the connection is over") from self.error
        self._end().write(data)

    async def read(self) -> bytes:
        """What has come; waits if that is nothing. Empty when the other side has closed."""
        while not self.received and not self.is_closed:
            await self._next_arrival()
        data = bytes(self.received)
        self.received.clear()
        return data

    async def read_exactly(self, count: int) -> bytes:
        """So many bytes; `ConnectionError` if they do not come."""
        return await self._read_when(lambda: count if len(self.received) >= count else 0)

    async def read_until(self, end: bytes) -> bytes:
        """All up to `end`, with it; `ConnectionError` if that does not come."""
        return await self._read_when(lambda: self.received.find(end) + len(end) if end in self.received else 0)

    async def _read_when(self, find: Callable[[], int]) -> bytes:
        while not (count := find()):
            if self.is_closed:
                raise ConnectionResetError(f"the connection ended after {bytes(self.received)!r}") from self.error
            await self._next_arrival()
        data = bytes(self.received[:count])
        del self.received[:count]
        return data

    async def closed(self) -> None:
        """Return when the other side has closed it, or it was cut."""
        while not self.is_closed:
            await self._next_arrival()

    async def _next_arrival(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    def close_write(self) -> None:
        """Send no more, but go on reading."""
        self._end().write_eof()

    def close(self) -> None:
        """Close it when all is sent."""
        self._end().close()

    def cut(self) -> None:
        """Break it: both sides lose it, and what is on its way."""
        self._end().cut()


class FakeProgram:
    """One run of a script that `FakePeer.program()` has been given, in place of a process.

    >>> from greenroom import Actor, ActorSystem, handles
    >>> from greenroom.meta import Exited, Output, Port, Write
    >>> from greenroom.testing import FakePeer, Simulation
    >>> async def bc(program: FakeProgram) -> int:
    ...     async for line in program:
    ...         first, _, second = line.split()
    ...         program.write(b"%d\\n" % (int(first) + int(second)))
    ...     return 0
    >>> class Adder(Actor[object]):
    ...     def pre_start(self) -> None:
    ...         self.answers = []
    ...         self.ctx.spawn_meta(Port(["bc", "-q"])).tell(Write(b"2 + 3"))
    ...     @handles(Output)
    ...     def answer(self, message: Output) -> None:
    ...         self.answers.append(message.data)
    ...     def receive(self, message: object) -> object:
    ...         return self.answers
    >>> async def main(system: ActorSystem) -> object:
    ...     FakePeer(system).program("bc", bc)
    ...     adder = system.spawn(Adder)
    ...     await system.settle()
    ...     return await adder.ask("answers")
    >>> Simulation(seed=1).run(main)
    [b'5']

    A signal without a handler ends it, as it would end a process: the script is cancelled.
    """

    def __init__(self, program: SimulatedProgram) -> None:
        self._program = program
        # What has been taken from its input, and was not read.
        self._taken = bytearray()
        self.args: tuple[str, ...] = program.args
        """The command, its name first, as in `sys.argv`. With `shell=True`, that of the shell."""
        self.env: Mapping[str, str] = program.env
        """Its environment variables."""
        self.cwd: str = program.cwd
        """Its working directory, as the port was given it."""
        self.pid: int = program.pid
        """The number of its process: the first of a simulation is 1."""

    # -- its input

    async def read(self) -> bytes:
        """What has come; waits if that is nothing. Empty at the end of its input."""
        if not self._taken:
            await self._take()
        return self._cut(len(self._taken))

    async def read_line(self) -> bytes:
        """A line with its end; the last one may have none. Empty at the end of its input."""
        while b"\n" not in self._taken and await self._take():
            pass
        return self._cut(self._taken.find(b"\n") + 1 or len(self._taken))

    async def read_exactly(self, count: int) -> bytes:
        """So many bytes; `asyncio.IncompleteReadError`, which is an `EOFError`, if its input ends before."""
        while len(self._taken) < count:
            if not await self._take():
                raise asyncio.IncompleteReadError(self._cut(len(self._taken)), count)
        return self._cut(count)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Its input, line by line."""
        while line := await self.read_line():
            yield line

    async def _take(self) -> bool:
        """Take the next piece, and no more: what is not read holds up who writes. Whether there is one."""
        stdin = self._program.stdin
        await self._program.wait(stdin.can_read)
        self._require_life()
        data = stdin.read()
        self._taken += data
        return bool(data)

    def _cut(self, count: int) -> bytes:
        data = bytes(self._taken[:count])
        del self._taken[:count]
        return data

    def close_input(self) -> None:
        """Read no more: the writer is told."""
        self._program.stdin.lose()
        self._program.stdin.close()

    # -- its output

    def write(self, data: bytes) -> None:
        """Write to its output."""
        self._require_life()
        self._program.stdout.put(bytes(data))

    def write_error(self, data: bytes) -> None:
        """Write to its errors, which the port's `stderr` leads to somewhere."""
        self._require_life()
        self._program.write_error(bytes(data))

    async def drain(self) -> None:
        """Return when all is written. A real program waits so with each write: for an owner that is slow, say."""
        await self._program.wait(self._program.is_flushed)
        self._require_life()

    # -- its end

    def add_signal_handler(self, number: int, callback: Callable[..., object], *args: object) -> None:
        """Have `callback(*args)` called when a signal comes, instead of being ended by it. Not for SIGKILL."""
        self._program.add_handler(number, partial(callback, *args))

    def exit(self, status: int = 0) -> None:
        """Break the script off, and end when all is written. For signal handlers: a script returns its status."""
        self._program.leave(exit_status(status))

    def _require_life(self) -> None:
        if self._program.has_ended():
            raise BrokenPipeError(f"the program {self.args[0]!r} has ended with status {self._program.status}")


def exit_status(returned: object) -> int:
    if returned is None:
        return 0
    if not isinstance(returned, int) or not -64 <= returned <= 255:
        raise BadArgument(
            "the script of a program returns its exit status, from 0 to 255, or the negative number of the signal that "
            f"ends it, or None for 0; not {returned!r}"
        )
    return int(returned)
