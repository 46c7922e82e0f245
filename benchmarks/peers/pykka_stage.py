"""What Pykka's whole programs share: an actor that can be made without Pykka, and the wait for the end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.program import Report, expect, main, require
from benchmarks.programs.measuring import Stopwatch

if TYPE_CHECKING:
    ThreadingActor = Any
else:
    try:
        from pykka import ThreadingActor
    except ImportError:  # `choose` declines then
        ThreadingActor = object

# Far more than any of them needs: one whose actor failed would never end.
PATIENCE = 50.0


class Person(ThreadingActor):  # type: ignore[misc]
    """An actor whose thread does not keep the program alive."""

    use_daemon_thread = True


class Finish:
    """Waits for so many reports, and has their sum."""

    def __init__(self, reports: int = 1) -> None:
        self.left = reports
        self.total = 0
        self._lock = threading.Lock()
        self._over = threading.Event()

    def report(self, number: int) -> None:
        """Add a number; the last one ends the program."""
        with self._lock:
            self.total += number
            self.left -= 1
            if not self.left:
                self._over.set()

    def wait(self) -> None:
        """Return when all have reported."""
        if not self._over.wait(PATIENCE):
            raise RuntimeError(f"the program did not end within {PATIENCE:.0f} s")


def play(start: Callable[[], object], finish: Finish, what: str, wanted: int, count: int) -> Report:
    """Time a program from ``start`` to its finish; then ``what`` it came to must be ``wanted``."""
    with Stopwatch() as watch:
        start()
        finish.wait()
    require("pykka").ActorRegistry.stop_all()
    expect(what, finish.total, wanted)
    return watch.report(count)


def choose(programs: Mapping[str, Callable[[int], Report]]) -> None:
    """Run the one that the first argument names, at the size of ``--n``, if there is Pykka."""
    program = programs[sys.argv.pop(1)]

    def run(n: int) -> Report:
        require("pykka")
        return program(n)

    main(run)
