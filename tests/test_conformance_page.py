"""The page that says what is promised says it truly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import conformance
from tools.site_links import without_links_out


def test_every_row_and_case_has_a_test() -> None:
    assert conformance.missing(conformance.find_tests()) == []


def test_the_page_is_up_to_date() -> None:
    written = conformance.PAGE.read_text(encoding="utf-8")
    assert written == conformance.page(conformance.find_tests()), "run `make conformance`"


def test_a_row_without_a_test_is_found_out() -> None:
    found = conformance.find_tests()
    del found["M5"], found["case 57"]
    assert conformance.missing(found) == ["M5", "case 57"]


def test_every_link_to_a_test_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)]+)\)", conformance.page(conformance.find_tests()))
    assert len(links) > len(conformance.ROWS) + len(conformance.CASES)
    assert [link for link in links if not (conformance.PAGE.parent / link).is_file()] == []


def test_a_row_links_to_the_files_with_most_of_its_tests() -> None:
    found = conformance.find_tests()
    counts = {"a": 1, "b": 2, "c": 6, "d": 5, "e": 4, "f": 3}
    found["B8"] = {f"tests/test_{name}.py": ["test"] * count for name, count in counts.items()}
    line = next(line for line in conformance.page(found).splitlines() if line.startswith("| B8 |"))
    assert line == (
        "| B8 | A pytest plugin | 21 | "
        "[tests/test_c.py](../tests/test_c.py) (6), [tests/test_d.py](../tests/test_d.py) (5), "
        "[tests/test_e.py](../tests/test_e.py) (4), [tests/test_f.py](../tests/test_f.py) (3) and 2 more |"
    )


@pytest.mark.parametrize(
    ("link", "where", "shown"),
    [
        ("[a test](../tests/test_clock.py)", "conformance.md", "a test"),
        ("[a page](simulation.md)", "conformance.md", "[a page](simulation.md)"),
        ("[a page](../simulation.md#faults)", "decisions/001.md", "[a page](../simulation.md#faults)"),
        ("[a test](../../tests/test_clock.py)", "decisions/001.md", "a test"),
    ],
)
def test_the_site_shows_links_out_of_the_docs_as_text(link: str, where: str, shown: str) -> None:
    assert without_links_out(f"| {link}, {link} |", where) == f"| {shown}, {shown} |"


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
