"""The chaos program, at the size of a test: a few histories of fixed seeds, with all the time they want."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tools.chaos.__main__ import main
from tools.chaos.display import Display
from tools.chaos.plan import FEATURES, draw
from tools.chaos.program import Program, Settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")

PATIENCE = 120.0
FOREVER = 1e9


@pytest.mark.parametrize(
    "features",
    [
        *("", "kill,exit", "freeze,busy", "two,supervisors", "abrupt,panic", "unpicklable,unreadable"),
        *("fork,log", "home_fork,stubborn", "gil,stdin", "buffers,bad_reply,unreadable_base"),
    ],
)
def test_a_history_of_a_few_features_holds(features: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program(Settings(features=features, patience=PATIENCE), Display(is_plain=True))
    program.run(7, 1, time.time() + FOREVER)
    assert program.sum_up() == 0, capsys.readouterr().out
    assert "1 histories" in capsys.readouterr().out


def test_the_same_seed_makes_the_same_plan() -> None:
    assert str(draw(12)) == str(draw(12))
    one, other = draw(12), draw(12)
    assert (one.features, one.drivers, one.workers) == (other.features, other.drivers, other.workers)
    assert draw(12).drivers != draw(13).drivers


def test_every_feature_is_drawn_and_can_be_left_out() -> None:
    drawn = {feature for seed in range(300) for feature in draw(seed).features}
    assert drawn == set(FEATURES)
    assert all("fork" not in draw(seed, without=["fork"]).features for seed in range(300))


def test_a_process_that_crashes_or_hangs_is_a_failure_and_the_program_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    instead = tmp_path / "python"
    instead.write_text("#!/bin/sh\necho 'what it said' >&2\nexit 3\n")
    instead.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(instead))
    program = Program(Settings(), Display(is_plain=True))
    program.run(5, 2, time.time() + FOREVER)
    assert program.sum_up() == 1
    said = capsys.readouterr().out
    assert "crash: its process ended with 3" in said
    assert "what it said" in said
    assert "--history=6" in said


def test_the_program_knows_its_features(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert "home_fork" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--features", "no such thing"])
