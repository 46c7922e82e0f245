"""Every example is a program that runs, and stays short enough to read at once."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
ARGUMENTS = {"first_light.py": ["0.2"]}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_it_runs_to_a_good_end(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(example), *ARGUMENTS.get(example.name, [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip(), "an example shows something"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_it_is_short_enough_to_read_at_once(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= 150


def test_there_are_examples() -> None:
    assert EXAMPLES
