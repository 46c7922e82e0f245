"""The studio in a window: Tk's main loop has the main thread, and polls the MAIN pod."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.studio.plasma import HEIGHT, WIDTH, rows_of

pytest.importorskip("tkinter", reason="not installed: tkinter")

REPOSITORY = Path(__file__).parents[2]
KEY_AT_FRAME_TEN = """
import runpy, sys
from examples.studio.window import Window
draw = Window.draw
def press(window, frame):
    draw(window, frame)
    if frame.number == 10:
        window.root.focus_force()
        window.root.event_generate("<Key>", keysym="k", when="tail")
Window.draw = press
runpy.run_module("examples.studio", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """An X display that nobody sees."""
    if shutil.which("Xvfb") is None:
        pytest.skip("not installed: Xvfb")
    ours, its = os.pipe()
    with os.fdopen(ours) as told:
        server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(its), "-screen", "0", "900x640x24", "-nolisten", "tcp"],
            pass_fds=[its],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its)
        try:
            number = told.readline().strip()
            if not number:
                pytest.skip("Xvfb cannot start here")
            yield f":{number}"
        finally:
            server.terminate()
            server.wait(timeout=60)


def played(display: str, *command: str) -> str:
    """What a show in a window said at its end."""
    environment = {**os.environ, "DISPLAY": display}
    ended = subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "The ledger balances" in ended.stdout
    return ended.stdout


def test_tk_draws_each_frame_while_the_engine_is_killed_again_and_again(display: str) -> None:  # K3
    show = ("--window", "--seconds", "1000", "--fps", "100", "--frames", "45", "--kill-every", "10")
    said = played(display, "-m", "examples.studio", *show)
    assert "Drawn: 41 frames, torn 0, out of order 0." in said
    assert "Skipped: 4 frames" in said


def test_a_key_in_the_window_kills_the_engine(display: str) -> None:
    show = ("--window", "--seconds", "1000", "--fps", "100", "--frames", "60", "--kill-every", "0")
    assert "at 1 restarts of the engine" in played(display, "-c", KEY_AT_FRAME_TEN, *show)


def test_each_character_of_a_row_is_two_pixels() -> None:
    from examples.studio.window import pixels_of

    rows = [list(pixels_of(row)) for row in rows_of(1)]
    assert [len(row) for row in rows] == [WIDTH] * HEIGHT
    assert rows[0][0][0].startswith("#")
    assert len({colour for row in rows for pair in row for colour in pair}) > 20
    assert list(pixels_of("\x1b[38;5;196;48;5;21m▀\x1b[0m")) == [("#ff0000", "#0000ff")]
