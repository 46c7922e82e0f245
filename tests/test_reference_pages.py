"""The reference has every public name, its tables say what the source says, and the guides mention everything."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import greenroom
import greenroom.meta
import greenroom.pods
import greenroom.testing
from greenroom import ActorSystem, SystemConfig, errors
from tools import lifecycle_page
from tools.reference import PAGE, config_settings, page, spawn_options

DOCS = Path(__file__).parents[1] / "docs"
SOURCES = Path(greenroom.__file__).parent
REFERENCE = "\n".join(path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference").glob("*.md")))
OWNERS: dict[str, Any] = {
    "greenroom": greenroom,
    "greenroom.errors": errors,
    "greenroom.meta": greenroom.meta,
    "greenroom.pods": greenroom.pods,
    "greenroom.testing": greenroom.testing,
}
NOT_GUIDES = {"glossary.md", "index.md"}
GUIDES = "\n".join(
    path.read_text(encoding="utf-8")
    for path in [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "meta").glob("*.md"))]
    if path.name not in NOT_GUIDES
)


def is_in_reference(*names: str) -> bool:
    return any(re.search(rf"^::: {re.escape(name)}$", REFERENCE, re.MULTILINE) for name in names)


def test_every_public_name_is_in_the_reference() -> None:
    missing = [
        name
        for name in greenroom.__all__
        if not is_in_reference(*(f"{owner}.{name}" for owner in OWNERS)) and not name.isupper()
    ]
    missing += [
        name
        for name in greenroom.testing.__all__
        if not is_in_reference(f"greenroom.testing.{name}", f"greenroom.{name}")
    ]
    missing += [
        name for name in greenroom.meta.__all__ if not is_in_reference(f"greenroom.meta.{name}") and not name.isupper()
    ]
    missing += [
        name
        for name in greenroom.pods.__all__
        if not is_in_reference(f"greenroom.pods.{name}", f"greenroom.errors.{name}")
    ]
    classes = [name for name in errors.__all__ if inspect.isclass(getattr(errors, name))]
    missing += [name for name in classes if not is_in_reference(f"greenroom.errors.{name}")]
    assert missing == []


def test_the_reference_has_no_name_that_is_not_there() -> None:
    def exists(path: str) -> bool:
        package, _, name = path.rpartition(".")
        return name in OWNERS[package].__all__

    named = re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE)
    assert [path for path in named if not exists(path)] == []
    assert len(named) == len(set(named))


@pytest.mark.parametrize(
    "package", [greenroom, greenroom.meta, greenroom.pods, greenroom.testing], ids=lambda package: str(package.__name__)
)
def test_every_public_name_is_on_a_guide_page(package: object) -> None:
    names: list[str] = package.__all__  # type: ignore[attr-defined]
    assert [name for name in names if not re.search(rf"\b{name}\b", GUIDES)] == []


def test_every_page_is_linked_from_the_index() -> None:
    def is_linked(page: Path) -> bool:
        folder = page.parent
        if (folder / "index.md").exists() and page.name != "index.md":  # the page of its own folder lists it
            return f"]({page.name})" in (folder / "index.md").read_text(encoding="utf-8")
        return f"]({page.relative_to(DOCS).as_posix()})" in (DOCS / "index.md").read_text(encoding="utf-8")

    pages = [path for path in sorted(DOCS.rglob("*.md")) if path != DOCS / "index.md"]
    assert [str(one) for one in pages if not is_linked(one)] == []


def test_the_tables_say_what_the_source_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(SOURCES), "run `make reference`"


def test_the_tables_have_every_option_and_setting_with_its_meaning() -> None:
    options, settings = spawn_options(SOURCES), config_settings(SOURCES)
    parameters = inspect.signature(ActorSystem.spawn).parameters.values()
    assert [one.name for one in options] == [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    assert [one.name for one in settings] == [one.name for one in dataclasses.fields(SystemConfig)]
    assert [one.name for one in (*options, *settings) if not (one.type and one.default and one.meaning)] == []


def test_the_lifecycle_page_is_drawn_from_the_table() -> None:
    assert lifecycle_page.PAGE.read_text(encoding="utf-8") == lifecycle_page.page(), "run `make reference`"
