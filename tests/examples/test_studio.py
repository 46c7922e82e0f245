"""The studio: whatever is killed, no frame is torn, and only those are missing that were being made."""

from __future__ import annotations

import doctest
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.studio import messages
from examples.studio.display import Screen
from examples.studio.messages import Frame, Settings
from examples.studio.plasma import HEIGHT, WIDTH, rows_of
from examples.studio.troupe import Studio, make
from greenroom.pods import PodPhase

REPOSITORY = Path(__file__).parents[2]
STUDIO = [sys.executable, "-m", "examples.studio"]
BALANCED = "The ledger balances"


class Watch(Screen):
    """A screen that keeps the numbers of the frames it was shown, and lets actors fail at some of them."""

    def __init__(self) -> None:
        super().__init__(is_terminal=False)
        self.numbers: list[int] = []
        self.studio: Studio | None = None
        self.failing: dict[int, str] = {}

    def show(self, frame: Frame) -> None:
        super().show(frame)
        self.numbers.append(frame.number)
        path = self.failing.pop(frame.number, None)
        if path is not None and self.studio is not None:
            ref = self.studio.system.actor(path)
            assert ref is not None
            ref.fail(RuntimeError("failed by the test"))


def played(settings: Settings, failing: dict[int, str] | None = None) -> tuple[Watch, Studio]:
    """A show that has ended, and what was on."""
    screen = Watch()
    studio = screen.studio = make(settings, screen)
    screen.failing = failing or {}
    studio.play()
    return screen, studio


def test_a_killed_engine_loses_the_frame_it_was_making_and_tears_none() -> None:  # K2, K11
    screen, studio = played(Settings(fps=500.0, frames=45, kill_every=10))
    assert screen.numbers == [number for number in range(1, 46) if number % 10]
    assert (screen.drawn, screen.skipped, screen.torn, screen.disordered) == (41, 4, 0, 0)
    assert studio.status["engine"].restarts >= 4  # a fifth, if it was ahead of the display
    assert studio.system.ledger().balanced


def test_without_a_kill_no_frame_is_missing() -> None:
    screen, studio = played(Settings(fps=500.0, frames=20))
    assert screen.numbers == list(range(1, 21))
    assert studio.status["engine"].restarts == 0


def test_vsync_goes_on_counting_where_it_was_when_it_failed() -> None:  # K2: ALWAYS
    screen, studio = played(Settings(fps=200.0, frames=30), failing={10: "/vsync/vsync"})
    assert screen.numbers == list(range(1, 31))
    assert studio.status["vsync"].restarts == 1


def test_telemetry_that_fails_holds_nobody_up() -> None:  # K3: COOPERATIVE
    screen, studio = played(Settings(fps=200.0, frames=30), failing={10: "/telemetry/metrics"})
    assert screen.numbers == list(range(1, 31))
    assert studio.status["telemetry"].restarts == 1


def test_when_the_display_ends_the_show_is_over() -> None:  # K9: MAIN
    _, studio = played(Settings(fps=200.0, seconds=0.05))
    assert {status.phase for status in studio.status.values()} == {PodPhase.COMPLETED}


def test_each_frame_fills_the_picture_and_says_whether_it_is_whole() -> None:
    frame = Frame.of(1, rows_of(1))
    assert [row.count("▀") for row in frame.rows] == [WIDTH] * HEIGHT
    assert frame.is_whole
    assert not frame._replace(rows=frame.rows[:-1]).is_whole
    assert not frame._replace(rows=(*frame.rows[:-1], frame.rows[0])).is_whole


def test_a_torn_frame_and_one_that_comes_late_are_counted_and_not_drawn() -> None:
    screen = Screen(is_terminal=False)
    for frame in (Frame.of(2, ["x"]), Frame.of(1, ["x"]), Frame.of(3, ["x"])._replace(rows=())):
        screen.show(frame)
    assert (screen.drawn, screen.skipped, screen.disordered, screen.torn) == (1, 1, 1, 1)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals as POSIX has them")
def test_sigterm_ends_the_show_in_the_ordinary_way() -> None:  # K16
    code = """
import runpy, sys
from examples.studio.display import Screen
show = Screen.show
def tell(screen, frame):
    show(screen, frame)
    print("frame", flush=True)
Screen.show = tell
sys.argv[1:] = ["--seconds", "100", "--kill-every", "5"]
runpy.run_module("examples.studio", run_name="__main__", alter_sys=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as running:
        assert running.stdout is not None
        for _ in range(8):
            running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        rest, _ = running.communicate(timeout=120)
    assert running.returncode == 0
    assert BALANCED in rest


def test_on_a_terminal_a_key_kills_the_engine_and_another_ends_the_show() -> None:
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    ours, its = pty.openpty()
    try:
        command = [*STUDIO, "--seconds", "1000", "--kill-every", "0"]
        running = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=REPOSITORY)
    finally:
        os.close(its)
    written = bytearray()
    keys = {b"engines 1": b"k", b"restart 1": b"q"}
    try:
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody has the other end open
                break
            if not chunk:
                break
            written += chunk
            for sign in [sign for sign in keys if sign in written]:
                os.write(ours, keys.pop(sign))
    finally:
        os.close(ours)
    assert running.wait(timeout=120) == 0, written.decode(errors="replace")
    picture, _, summary = written.decode().partition("\x1b[?25h\x1b[?1049l")
    assert picture.startswith("\x1b[?1049h\x1b[?25l")
    assert "Skipped: 0 frames, at 1 restarts of the engine." in summary
    assert BALANCED in summary


def test_what_its_messages_say_in_their_docstrings_is_true() -> None:
    assert doctest.testmod(messages) == (0, 3)
