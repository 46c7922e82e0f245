"""Programs that others have written, as the other end of a connection."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import pytest

from tests.meta.owners import PATIENCE
from tests.meta.peers import LOOPBACK

__all__ = ["Done", "Program", "held_port", "needs", "run"]


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip tests on a machine that lacks one of these."""
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


class Done(NamedTuple):
    """What has become of a program."""

    status: int
    output: bytes
    errors: bytes


async def run(*command: object, data: bytes = b"") -> Done:
    """Run a program to its end, with `data` as its input."""
    words = [str(word) for word in command]
    done = await asyncio.to_thread(subprocess.run, words, input=data, capture_output=True, timeout=PATIENCE)
    return Done(done.returncode, done.stdout, done.stderr)


class Program:
    """A program to talk to through its pipes; behind the `with` it has ended."""

    def __init__(self, *command: object) -> None:
        pipe = subprocess.PIPE
        words = [str(word) for word in command]
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    async def write(self, data: bytes) -> None:
        """Give it input, little enough for a pipe."""
        await _soon(_of(self._process.stdin).write, data)

    def end_input(self) -> None:
        """There is no more input."""
        _of(self._process.stdin).close()

    async def line(self) -> bytes:
        """The next line that it prints, without its end."""
        line: bytes = await _soon(_of(self._process.stdout).readline)
        if not line:
            raise AssertionError(f"it has ended: {(await self.ended())!r}")
        return line.removesuffix(b"\n")

    async def error(self, word: bytes) -> bytes:
        """The next line that it complains, or logs, with this word."""
        said = []
        while True:
            line: bytes = await _soon(_of(self._process.stderr).readline)
            if word in line:
                return line
            said.append(line)
            assert line, f"it did not say {word!r}, but {said}"

    def terminate(self) -> None:
        """Tell it to end."""
        self._process.terminate()

    async def ended(self) -> Done:
        """Wait for its end: what it has not yet been heard to print."""
        output = await _soon(_of(self._process.stdout).read)
        errors = await _soon(_of(self._process.stderr).read)
        return Done(await _soon(self._process.wait), output, errors)


async def _soon(function: Any, *arguments: Any) -> Any:
    """What a function returns that may block; a thread that waits in vain is freed by the program's end."""
    async with asyncio.timeout(PATIENCE):
        return await asyncio.to_thread(function, *arguments)


def _of(stream: IO[bytes] | None) -> Any:
    assert stream is not None
    return stream


@contextmanager
def held_port() -> Iterator[int]:
    """A port that only a program which sets SO_REUSEADDR can have: it is no one else's when that program has ended."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((LOOPBACK, 0))
        port: int = sock.getsockname()[1]
        yield port
