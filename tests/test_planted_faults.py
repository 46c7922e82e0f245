"""The faults that show whether the tests bite can still be planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.planted_faults import FAULTS, SOURCES, Fault, plant


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_a_fault_changes_is_in_the_sources_exactly_once(fault: Fault) -> None:
    assert (SOURCES / "greenroom" / fault.file).read_text(encoding="utf-8").count(fault.old) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_still_python(fault: Fault) -> None:
    text = (SOURCES / "greenroom" / fault.file).read_text(encoding="utf-8")
    compile(text.replace(fault.old, fault.new), fault.file, "exec")


def test_there_are_twenty_and_each_has_its_own_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 20


def test_a_fault_is_planted_in_a_copy(tmp_path: Path) -> None:
    fault = FAULTS[0]
    before = (SOURCES / "greenroom" / fault.file).read_text(encoding="utf-8")
    place = plant(fault, tmp_path / "copy")
    assert (place / "greenroom" / fault.file).read_text(encoding="utf-8") == before.replace(fault.old, fault.new)
    assert (SOURCES / "greenroom" / fault.file).read_text(encoding="utf-8") == before
