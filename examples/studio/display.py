"""The display: draws frames on the main thread, where a terminal's keys and signals arrive too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Never

from examples.studio.messages import Frame, Kill, Report, Settings
from greenroom import Actor, Lane, handles
from greenroom.meta import READ, IoReady
from greenroom.pods import Handles, ServiceHandle

HIDDEN, SHOWN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


class Screen:
    """What was drawn, and whether it was as it should be. It outlives the troupe, for the summary."""

    def __init__(self, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self.drawn = self.torn = self.skipped = self.disordered = self.last = 0
        self.report = Report(0, 0, 0.0, "")
        # Called for each key, where keys do not come from the terminal. On the main thread.
        self.on_key: Callable[[str], object] = lambda key: None

    def show(self, frame: Frame) -> None:
        """Draw a frame, if it is whole and newer than the last."""
        if not frame.is_whole:
            self.torn += 1
        elif frame.number <= self.last:
            self.disordered += 1
        else:
            self.skipped += frame.number - self.last - 1
            self.last = frame.number
            self.drawn += 1
            self.draw(frame)

    def draw(self, frame: Frame) -> None:
        """Show the frame."""
        if self.is_terminal:
            lines = (*frame.rows, *self.status())
            self.write("\x1b[H", "\r\n".join(f"{line}\x1b[K" for line in lines))

    def status(self) -> tuple[str, str]:
        """The lines below the picture."""
        report = self.report
        counts = f"frame {self.last}  {report.milliseconds:.1f} ms  torn {self.torn}  engines {report.starts}"
        return f"{counts}  {report.note}", "k kills the engine, q ends"

    def write(self, *parts: str) -> None:
        """Write to the terminal, at once."""
        sys.stdout.write("".join(parts))
        sys.stdout.flush()


class Curtain:
    """The time is up."""


class DisplayPeers(Handles):
    """Whom the display sends to."""

    engine: ServiceHandle[Never, Kill]


class Display(Actor[Frame | Report | IoReady | Curtain, None]):
    """Shows frames until the last. When it ends, the troupe does, because it is the MAIN pod."""

    peers: DisplayPeers

    def pre_start(self) -> None:
        """Take the terminal, if there is one."""
        self.settings: Settings = self.ctx.env["settings"]
        self.screen: Screen = self.ctx.env["screen"]
        self.screen.on_key = self.press
        self.give_back: Callable[[], object] = lambda: None
        if self.settings.seconds is not None:
            self.ctx.send_after(self.settings.seconds, self.ctx.self, Curtain())
        if self.screen.is_terminal:
            self.take_terminal()

    def take_terminal(self) -> None:
        """Keys come one by one from now on, and the picture has a screen of its own."""
        import termios
        import tty

        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
        tty.setcbreak(keyboard)
        self.screen.write(HIDDEN)
        self.give_back = partial(termios.tcsetattr, keyboard, termios.TCSADRAIN, before)
        self.ctx.watch_fd(keyboard, READ)

    def post_stop(self) -> None:
        """Give the terminal back as it was."""
        if self.screen.is_terminal:
            self.screen.write(SHOWN)
            self.give_back()

    @handles(Frame)
    def show(self, frame: Frame) -> None:
        """Draw it; was it the last?"""
        self.screen.show(frame)
        if self.settings.frames is not None and frame.number >= self.settings.frames:
            self.ctx.stop()

    @handles(Report)
    def note(self, report: Report) -> None:
        """Shown with the next frame."""
        self.screen.report = report

    @handles(IoReady)
    def read_keys(self, ready: IoReady) -> None:
        """A key was pressed."""
        keys = os.read(sys.stdin.fileno(), 16)
        for key in keys.decode("ascii", "ignore") or "q":
            self.press(key)

    def press(self, key: str) -> None:
        """Do what the key stands for."""
        if key == "k":
            self.peers.engine.send(Kill(), lane=Lane.CONTROL)
        elif key == "q":
            self.ctx.stop()

    @handles(Curtain)
    def end(self, curtain: Curtain) -> None:
        """The time is up."""
        self.ctx.stop()
