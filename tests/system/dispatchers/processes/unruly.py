"""Actors that do to their worker process what actors should not do, and messages that nobody can read."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from greenroom import Actor

__all__ = ["Busy", "Forker", "Hooked", "Many", "PanicsWhenRead", "PanicsWhenSent", "Reader", "Teller"]


def keep_lock(seconds: int) -> None:
    """Keep the interpreter's lock: no other thread of this process runs meanwhile."""
    ctypes.PyDLL(None).sleep(seconds)


def wait_for(path: Path) -> None:
    """Hold this thread until a file is there; only the test can bring that about."""
    while not path.exists():
        time.sleep(0.005)


class Forker(Actor[Any, Any]):
    """Forks children, which hold on to all that it had open."""

    def receive(self, message: Any) -> Any:
        match message:
            case "pid":
                return os.getpid()
            case "fork":
                child = os.fork()
                if child == 0:
                    time.sleep(600.0)
                    os._exit(0)
                return child
            case "fork and return":
                child = os.fork()
                if child == 0:
                    raise SystemExit(0)  # into the loop of its parent
                os.waitpid(child, 0)
                return child
            case ("fork and tell", ref, path):
                return self._in_child(path, lambda: ref.tell("from a child"))
            case ("fork and request", path):
                return self._in_child(path, lambda: self.ctx.children)
            case ("fork and log", path):
                return self._in_child(path, lambda: logging.getLogger("child").warning("from a child"))
            case "multiprocessing":
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    return pool.map(abs, [-1, -2, -3])
        return message

    def _in_child(self, path: Path, do: Any) -> str:
        """What came of `do()` in a forked child."""
        child = os.fork()
        if child == 0:
            try:
                do()
                path.write_text("done")
            except BaseException as exc:
                path.write_text(f"{type(exc).__name__}: {exc}")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return path.read_text()


class Reader(Actor[Any, Any]):
    """Uses its standard input."""

    def receive(self, message: Any) -> Any:
        match message:
            case "cat":
                return subprocess.run(["cat"], stdout=subprocess.PIPE, check=True).stdout
            case "input":
                try:
                    return input()
                except EOFError:
                    return "end of file"
            case "close":
                sys.stdin.close()
                return "closed"
        return os.getpid()


class Busy(Actor[Any, Any]):
    """Holds its worker's thread."""

    def receive(self, message: Any) -> Any:
        match message:
            case ("until", path, witness):
                witness.tell("begun")
                wait_for(path)
                return "done"
            case ("keep the lock", witness):
                witness.tell("begun")
                _ = self.ctx.children  # what it has told is sent with this request
                keep_lock(600)
        return os.getpid()


class Hooked(Actor[Any, Any]):
    """Has hooks that a worker must reach."""

    def pre_stop(self) -> None:
        """Nothing, but in the worker."""

    def post_stop(self) -> None:
        """Nothing, but in the worker."""

    def pre_restart(self, cause: BaseException | None) -> None:
        """Nothing, but in the worker."""

    def receive(self, message: Any) -> Any:
        if message == "crash":
            raise ValueError("on purpose")
        if message == "log":
            logging.getLogger("guest").warning("bad record")
            logging.getLogger("guest").warning("good record")
        return os.getpid()


class Teller(Actor[Any, Any]):
    """Tells others what the test wants."""

    def receive(self, message: Any) -> Any:
        match message:
            case ("tell", ref, *words):
                for word in words:
                    ref.tell(word)
            case ("tell many", ref, count):
                ref.tell(Many(count))
            case ("tell a panic", ref):
                ref.tell(PanicsWhenRead())
            case ("reply", "many"):
                return Many(5_000)
            case ("reply", "panic"):
                return PanicsWhenRead()
            case ("reply", "unsendable panic"):
                return PanicsWhenSent()
            case Many():
                return len(message.parts)
        return os.getpid()

    def inspect(self, *items: str) -> dict[str, Any]:
        """What it shows."""
        return {"many": Many(5_000)}


class Panic(BaseException):
    """What no `except Exception` catches; extensions written in Rust raise such."""


class PanicsWhenRead:
    """Raises no `Exception` when it is unpickled."""

    def __reduce__(self) -> Any:
        return _panic, ()


class PanicsWhenSent:
    """Raises no `Exception` when it is pickled."""

    def __reduce__(self) -> Any:
        raise Panic("sent")


def _panic() -> None:
    raise Panic("read")


class Part:
    """A small buffer that is sent beside the pickle, if there is room."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = data

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Part, (pickle.PickleBuffer(self.data),)


class Many:
    """Has many buffers."""

    def __init__(self, count: int, size: int = 8) -> None:
        self.parts = [Part(bytes([number % 256]) * size) for number in range(count)]

    def is_as_made(self) -> bool:
        """Whether all buffers have arrived."""
        return all(bytes(part.data) == bytes([number % 256]) * len(part.data) for number, part in enumerate(self.parts))
