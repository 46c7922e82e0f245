"""Every example is a program that runs, and stays short enough to read at once."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SOURCES = sorted((REPOSITORY / "examples").rglob("*.py"))
PROGRAMS = {
    "examples.pipeline": ["--seconds", "0.5"],
    "examples.bugs": [],
    "examples.primes": ["--workers", "2", "--limit", "50000"],
    "examples.echo": ["--clients", "20"],
    "examples.chat": [],
    "examples.programs": ["--count", "6000"],
    "examples.ingest": ["--lines", "2000", "--kills", "10"],
    "examples.studio": ["--frames", "25", "--fps", "200", "--kill-every", "10"],
    "examples.feedhandler": ["--quotes", "5000"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_runs_to_a_good_end(program: str) -> None:
    command = [sys.executable, "-m", program, *PROGRAMS[program]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=REPOSITORY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip(), "an example shows something"


def test_every_example_is_among_those_that_are_run() -> None:
    found = {path for path in (REPOSITORY / "examples").iterdir() if path.suffix == ".py" or path.is_dir()}
    names = {path.stem for path in found if not path.name.startswith("__")}
    assert names == {program.removeprefix("examples.") for program in PROGRAMS}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY / "examples")))
def test_it_is_short_enough_to_read_at_once(source: Path) -> None:
    assert len(source.read_text().splitlines()) <= 150
