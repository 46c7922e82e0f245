"""The page that says what is promised says it truly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import conformance


def test_every_row_and_case_has_a_test() -> None:
    assert conformance.missing(conformance.find_tests()) == []


def test_the_page_is_up_to_date() -> None:
    written = conformance.PAGE.read_text(encoding="utf-8")
    assert written == conformance.page(conformance.find_tests()), "run `make conformance`"


def test_a_row_without_a_test_is_found_out() -> None:
    found = conformance.find_tests()
    del found["M5"], found["case 57"]
    assert conformance.missing(found) == ["M5", "case 57"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("nothing", set()),
        ("M3, M8", {"M3", "M8"}),
        ("case 9", {"case 9"}),
        ("cases 4, 8 and 10-12", {"case 4", "case 8", "case 10", "case 11", "case 12"}),
        ("row B4: case 60", {"B4", "case 60"}),
        ("HM5 M", set()),
    ],
)
def test_ids_are_read_from_comments(text: str, names: set[str]) -> None:
    assert conformance.names_in(text) == names


def test_a_test_holds_what_it_names_and_what_its_module_names(tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    path.write_text('"""Of things (M3)."""\n\ndef test_one():\n    pass\n\ndef test_two():  # M5\n    pass\n')
    assert dict(conformance.tests_in(path)) == {"test_one": {"M3"}, "test_two": {"M3", "M5"}}
