"""Shows how far the program is: on a terminal in one line that changes, elsewhere by a line now and then."""

from __future__ import annotations

import shutil
import sys
import time

__all__ = ["Display"]

_EVERY = 10.0
"""Seconds between two lines that say how far it is, where they stay."""


class Display:
    """What has been done, and what is under way."""

    def __init__(self, *, is_plain: bool) -> None:
        self._is_plain = is_plain
        self._began = time.monotonic()
        self._shown_at = self._began
        self._now = ""
        self._has_line = False
        self.histories = 0
        self.events = 0
        self.failures = 0

    def begins(self, plan: str) -> None:
        """A history begins."""
        self._now = plan
        self._show()

    def ends(self, events: int, is_wrong: bool) -> None:
        """A history has ended."""
        self.histories += 1
        self.events += events
        self.failures += is_wrong
        self._show()

    def say(self, *lines: str) -> None:
        """Print something that stays."""
        self._wipe()
        for line in lines:
            print(line)
        sys.stdout.flush()

    def summary(self) -> str:
        """All in one line."""
        seconds = time.monotonic() - self._began
        rate = self.histories / seconds if seconds else 0.0
        return (
            f"{int(seconds // 60):02}:{int(seconds % 60):02}  {self.histories} histories, {rate:.1f}/s  "
            f"{self.events:,} events  {self.failures} failures"
        )

    def _show(self) -> None:
        if self._is_plain:
            if time.monotonic() - self._shown_at >= _EVERY:
                self._shown_at = time.monotonic()
                print(self.summary(), flush=True)
            return
        self._wipe()
        width = shutil.get_terminal_size().columns - 1
        sys.stdout.write(f"{self.summary()}  {self._now}"[:width])
        sys.stdout.flush()
        self._has_line = True

    def _wipe(self) -> None:
        if self._has_line:
            sys.stdout.write("\r\x1b[K")
            self._has_line = False
