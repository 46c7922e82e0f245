"""The demo: what it prints adds up, its live view fits the terminal, and it can be ended early."""

import doctest
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "examples.pipeline"]
BALANCED = "The ledger balances: every message is in exactly one column."
PARTS = ("handled", "failed", "unhandled", "dead lettered", "dropped", "redirected", "lost", "queued", "in hand")


def numbers_of(summary: str) -> dict[str, int]:
    """The columns of the ledger as they were printed: those on the left side."""
    rows = re.findall(r"^  [ =+] ([a-z ]+?) +([\d,]+)", summary, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in rows}


def without(*variables: str, **others: str) -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if name not in variables} | others


def test_plain_it_prints_a_line_a_second_and_a_ledger_that_adds_up() -> None:
    done = subprocess.run(
        [*DEMO, "--plain", "--seconds", "1"], capture_output=True, text=True, timeout=120, cwd=REPOSITORY
    )
    assert (done.returncode, done.stderr) == (0, "")
    moments = [int(seconds) for seconds in re.findall(r"^ +(\d+) s +[\d,]+ messages/s", done.stdout, re.MULTILINE)]
    assert moments[0] >= 1  # the first second may take longer on a busy machine
    assert moments == sorted(moments)
    assert BALANCED in done.stdout
    ledger = numbers_of(done.stdout)
    assert ledger["sent"] == sum(ledger[part] for part in PARTS) > ledger["handled"] > 0
    assert ledger.keys() == {"sent", *PARTS, "rejected", "late replies", "refused"}
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals as POSIX has them")
def test_ctrl_c_ends_it_early_and_it_still_accounts_for_everything() -> None:
    with subprocess.Popen(
        [*DEMO, "--plain", "--seconds", "100"], stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate(timeout=120)
    assert running.returncode == 0
    assert BALANCED in rest


def run_on_a_terminal(command: list[str], columns: int, lines: int) -> str:
    """Everything that `command` writes to a terminal of this size. It must end well."""
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    import termios

    ours, its = pty.openpty()
    try:
        termios.tcsetwinsize(its, (lines, columns))
        # What could tell Rich of another terminal than this one.
        env = without("COLUMNS", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", TERM="xterm-256color")
        running = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=REPOSITORY, env=env)
    finally:
        os.close(its)
    written = bytearray()
    try:
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # how Linux says that nobody has the other end open
                break
            if not chunk:
                break
            written += chunk
    finally:
        os.close(ours)
    assert running.wait(timeout=120) == 0, written.decode(errors="replace")
    return written.decode()


def screen_of(frame: str) -> list[str]:
    """The lines of a frame, without colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame).split("\r\n")


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (140, 40)])
def test_the_live_view_fits_the_terminal(columns: int, lines: int) -> None:
    cells = pytest.importorskip("rich.cells")
    written = run_on_a_terminal([*DEMO, "--seconds", "1"], columns, lines)
    drawn, _, summary = written.partition("\x1b[?1049l")
    assert BALANCED in summary
    # Each frame begins at home; the first time home is where the other screen begins, still empty.
    frames = [screen_of(frame) for frame in drawn.split("\x1b[H")[2:]]
    assert len(frames) > 1
    for frame in frames:
        assert [cells.cell_len(line) for line in frame] == [columns] * lines
    last = "\n".join(frames[-1])
    assert "…" not in last
    assert [last.count(corner) for corner in "╭╮╰╯"] == [5] * 4
    for word in (
        "Throughput",
        "Source",
        "Parser",
        "Aggregator",
        "Sink",
        "restarts",
        "killed",
        "in hand",
        "Dead letters",
    ):
        assert word in last


@pytest.mark.parametrize(("columns", "lines", "hidden"), [(80, 24, "rich"), (79, 24, "nothing"), (80, 23, "nothing")])
def test_without_rich_or_room_for_it_the_view_is_plain(columns: int, lines: int, hidden: str) -> None:
    code = (
        f"import runpy, sys; sys.modules[{hidden!r}] = None; runpy.run_module('examples.pipeline', run_name='__main__')"
    )
    written = run_on_a_terminal([sys.executable, "-c", code, "--seconds", "0.5"], columns, lines)
    assert "messages/s" in written
    assert BALANCED in written
    assert "\x1b" not in written
    assert ("Rich is not installed" in written) == (hidden == "rich")


def test_what_its_messages_say_in_their_docstrings_is_true() -> None:
    from examples.pipeline import messages

    assert doctest.testmod(messages) == (0, 2)
