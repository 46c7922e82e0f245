"""Has histories played by other processes, some in each, and reports what they say.

A process that hangs is asked where (`faulthandler` shows all its threads), and killed with all that it has started. So
are those that had a violation: what a history has left behind must not be counted against the next.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from typing import IO, Any, NamedTuple

from tools.chaos.display import Display

__all__ = ["Program", "Settings"]

BATCH = 25
"""Histories of one process."""
LONG = 60.0
"""Seconds that a history may take, beside all that it may wait for."""
SLOW = 15.0
"""Seconds after which a history is named, though nothing is wrong."""
REPORTS = 20
"""How many failures are reported in full."""


class Settings(NamedTuple):
    """What is the same for all histories."""

    without: str = ""
    features: str | None = None
    patience: float = 20.0

    def arguments(self) -> list[str]:
        """For a command line, where they are not the usual."""
        found = [f"--without={self.without}"] if self.without else []
        found += [] if self.features is None else [f"--features={self.features}"]
        return found + ([] if self.patience == 20.0 else [f"--patience={self.patience:g}"])


class Program:
    """Plays histories until the time is over, and counts what was wrong."""

    def __init__(self, settings: Settings, display: Display) -> None:
        self._settings = settings
        self._display = display
        self._kinds: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def run(self, first: int, count: int, until: float) -> None:
        """Play `count` histories from number `first` on, or as many as there is time for."""
        number = first
        while number < first + count and time.time() < until:
            number += self._run_batch(number, min(BATCH, first + count - number), until)

    def sum_up(self) -> int:
        """Say what it all came to; the exit code of the program."""
        self._display.say(self._display.summary())
        for kind, times in self._kinds.most_common():
            self._display.say(f"  {kind}: in {times} histories, the first is {self._first[kind]}")
        return 1 if self._display.failures else 0

    def _run_batch(self, first: int, count: int, until: float) -> int:
        """Play some in one process; how many have been played."""
        command = [
            sys.executable,
            "-m",
            "tools.chaos.batch",
            f"--first={first}",
            f"--count={count}",
            f"--until={until}",
        ]
        with tempfile.TemporaryFile("w+") as stderr, tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            process = subprocess.Popen(
                [*command, *self._settings.arguments()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # The program may be killed before it has cleaned up, so it writes where we do.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": folder},
                text=True,
                start_new_session=True,
            )
            try:
                return self._follow(process, stderr, first)
            finally:
                # The program leads a group of its own: nothing of it is left.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                assert process.stdout is not None
                process.stdout.close()

    def _follow(self, process: subprocess.Popen[str], stderr: IO[str], first: int) -> int:
        """Read what it says, until it ends, hangs, or something is wrong."""
        assert process.stdout is not None
        played, current, plan = 0, first, ""
        for line in _lines(process, LONG + 6 * self._settings.patience):
            if line is None:
                process.send_signal(signal.SIGUSR1)
                time.sleep(2.0)
                self._fail(current, plan, ["hang: the history does not end"], _tail(stderr, 100))
                return played + 1
            said: dict[str, Any] = json.loads(line)
            if "begins" in said:
                current, plan = said["begins"], said["plan"]
                self._display.begins(plan)
                continue
            played += 1
            if said["wrong"]:
                shown = [*said["shown"], *(f"stderr: {line}" for line in _tail(stderr, 20))]
                self._fail(current, plan, said["wrong"], shown, said["events"])
                return played
            self._display.ends(said["events"], is_wrong=False)
            if said["seconds"] > SLOW:
                self._display.say(f"slow: {plan} took {said['seconds']:.1f} s")
        code = process.wait()
        if code != 0:
            self._fail(current, plan, [f"crash: its process ended with {code}"], _tail(stderr, 100))
            return played + 1
        return played or 1

    def _fail(self, number: int, plan: str, wrong: list[str], shown: list[str], events: int = 0) -> None:
        self._display.ends(events, is_wrong=True)
        kinds = {line.partition(":")[0] for line in wrong}
        is_new = bool(kinds - set(self._kinds))
        for kind in kinds:
            self._kinds[kind] += 1
            self._first.setdefault(kind, number)
        if self._display.failures > REPORTS and not is_new:
            return
        self._display.say("", f"WRONG {plan}", *(f"  {line}" for line in wrong))
        if is_new:
            self._display.say("  its last events:", *(f"    {line[:200]}" for line in shown))
        again = ["python", "-m", "tools.chaos", f"--history={number}", *self._settings.arguments()]
        self._display.say(f"  to run it again: {' '.join(again)}", "")


def _lines(process: subprocess.Popen[str], patience: float) -> Any:
    """The program's lines, and None when there is none for too long."""
    assert process.stdout is not None
    fd = process.stdout.fileno()
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while True:
            if not selector.select(patience):
                yield None
                return
            data = os.read(fd, 1 << 20)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line.decode()


def _tail(stderr: IO[str], count: int) -> list[str]:
    stderr.seek(0)
    return stderr.read()[-20_000:].splitlines()[-count:]
