"""`FakeProgram`: a program that a `Port` runs in a simulation, as its script sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from greenroom.errors import BadArgument

if TYPE_CHECKING:
    from greenroom.meta.simulated.program import SimulatedProgram

__all__ = ["FakeProgram", "exit_status"]


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

    @property
    def args(self) -> tuple[str, ...]:
        """The command, its name first, as in `sys.argv`. With `shell=True`, that of the shell."""
        return self._program.args

    @property
    def env(self) -> Mapping[str, str]:
        """Its environment variables."""
        return self._program.env

    @property
    def cwd(self) -> str:
        """Its working directory, as the port was given it."""
        return self._program.cwd

    @property
    def pid(self) -> int:
        """The number of its process: the first of a simulation is 1."""
        return self._program.pid

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
        data = stdin.read() or b""
        self._taken += data
        return bool(data)

    def _cut(self, count: int) -> bytes:
        data = bytes(self._taken[:count])
        del self._taken[:count]
        return data

    def close_input(self) -> None:
        """Read no more: whoever writes to it is told."""
        self._program.stdin.lose()
        self._program.stdin.close()

    # -- its output

    def write(self, data: bytes) -> None:
        """Write to its output."""
        self._require_life()
        self._program.stdout.write(bytes(data))

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
    """The status that a script has returned."""
    if returned is None:
        return 0
    if not isinstance(returned, int) or not -64 <= returned <= 255:
        raise BadArgument(
            "the script of a program returns its exit status, from 0 to 255, or the negative number of the signal that "
            f"ends it, or None for 0; not {returned!r}"
        )
    return int(returned)
