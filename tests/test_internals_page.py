"""The tour for maintainers points at code that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import greenroom

HOUSE = Path(greenroom.__file__).parent
REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "internals.md"
LIVES = [f"The life of {one}" for one in ("a message", "an ask", "a failure", "a shutdown", "a pod send")]
FEWEST = 8
MOST_FILES = 5
"""As many as a reader has to open to follow a life from its first step to its last."""

_POINTER = re.compile(r"[\w/]+\.py(?::[A-Za-z_]\w*(?:\.\w+)*)?")
_FOLDER = re.compile(r"`([\w/]+/)`")
_LINK_TARGET = re.compile(r"\]\([^)]*\)")
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next of its rank."""
    _, found, rest = text.partition(f"\n## {heading}\n")
    assert found, f"no section {heading!r}"
    return rest.partition("\n## ")[0]


def diagrams(text: str) -> list[str]:
    return _DIAGRAM.findall(text)


def drawn_and_told(life: str) -> tuple[str, str]:
    """The diagram of a life, and its numbered steps."""
    text = section(page(), life)
    (diagram,) = diagrams(text)
    return diagram, "\n".join(re.findall(r"^ *\d+\. .*(?:\n +.*)*", text.replace(diagram, ""), re.MULTILINE))


def pointers(text: str) -> list[str]:
    """Every `file.py:name`, or `file.py`, in prose, tables and diagrams; where links lead is another matter."""
    return list(dict.fromkeys(_POINTER.findall(_LINK_TARGET.sub("]", text))))


def wrong_pointers(text: str) -> list[str]:
    return [pointer for pointer in pointers(text) if not exists(pointer)]


def exists(pointer: str) -> bool:
    """Whether the package has that file, and the file itself defines that name."""
    path, _, name = pointer.partition(":")
    return (HOUSE / path).is_file() and (not name or name in names_in(HOUSE / path))


@cache
def names_in(path: Path) -> frozenset[str]:
    return frozenset(_names(ast.parse(path.read_text(encoding="utf-8")).body, ""))


def _names(body: list[ast.stmt], prefix: str) -> list[str]:
    """What a module or class defines, unconditionally: what stands under `if TYPE_CHECKING` is not the code."""
    found = []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            found += _names(node.body, f"{prefix}{node.name}.")
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found += [prefix + target.id for target in targets if isinstance(target, ast.Name)]
    return found


def test_every_pointer_leads_to_code() -> None:
    assert wrong_pointers(page()) == []


def test_every_folder_is_there() -> None:
    folders = _FOLDER.findall(page())
    assert len(folders) > 10
    assert [folder for folder in folders if not (HOUSE / folder).is_dir()] == []


@pytest.mark.parametrize("life", LIVES)
def test_a_life_has_enough_pointers_and_one_diagram(life: str) -> None:
    text = section(page(), life)
    assert len(pointers(text)) >= FEWEST
    (diagram,) = diagrams(text)
    assert len(pointers(diagram)) >= FEWEST // 2


@pytest.mark.parametrize("life", LIVES)
def test_the_steps_name_all_that_the_diagram_does(life: str) -> None:
    diagram, steps = drawn_and_told(life)
    assert [pointer for pointer in pointers(diagram) if pointer not in pointers(steps)] == []


@pytest.mark.parametrize("life", LIVES)
def test_a_life_can_be_followed_in_five_files(life: str) -> None:
    diagram, steps = drawn_and_told(life)
    files = {pointer.partition(":")[0] for pointer in pointers(diagram + steps)}
    assert len(files) <= MOST_FILES, sorted(files)


@pytest.mark.parametrize("life", LIVES)
def test_a_diagram_numbers_steps_that_there_are(life: str) -> None:
    text = section(page(), life)
    (diagram,) = diagrams(text)
    steps = re.findall(r"^ *(\d+)\. ", text, re.MULTILINE)
    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    drawn = re.findall(r"(?:\"|: |alt |else |opt )(\d+) ", diagram)
    assert drawn
    assert [number for number in drawn if number not in steps] == []


@pytest.mark.parametrize("where", ["docs/index.md", "CONTRIBUTING.md"])
def test_the_page_can_be_found(where: str) -> None:
    path = REPOSITORY / where
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
    assert PAGE in [path.parent / target for target in targets]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`_core/mailbox/cell.py:Cell.accept`", []),
        ("`_core/mailbox/cell.py:ENDED`, `actor/life/stopping.py:end`, `_core/flags.py`", []),
        ("at the end of a sentence, `_core/mailbox/cell.py:Cell`.", []),
        ("`_core/mailbox/cell.py:Cell.accepts`", ["_core/mailbox/cell.py:Cell.accepts"]),
        ("`_core/mailbox/cell.py:accept`", ["_core/mailbox/cell.py:accept"]),
        ("`_core/cell.py:Cell.accept`", ["_core/cell.py:Cell.accept"]),
        ("`_core/alerts.py`", ["_core/alerts.py"]),
        # Its base class has it, in another file.
        ("`system/system.py:ActorSystem.spawn`", ["system/system.py:ActorSystem.spawn"]),
        # For type checkers only.
        ("`actor/messaging/ref.py:ActorRef.tell`", ["actor/messaging/ref.py:ActorRef.tell"]),
        (
            "```mermaid\nsequenceDiagram\n    A->>B: 1 tell: _core/mailbox/cell.py:Cell.say\n```",
            ["_core/mailbox/cell.py:Cell.say"],
        ),
        ('```mermaid\nflowchart TD\n    a["1 no: actor/life/dying.py:die"]\n```', ["actor/life/dying.py:die"]),
        ("[a test](../tests/test_clock.py)", []),
    ],
)
def test_a_wrong_pointer_is_found_out(text: str, wrong: list[str]) -> None:
    assert wrong_pointers(text) == wrong


def test_a_renamed_method_would_be_noticed() -> None:
    renamed = page().replace("Cell.accept", "Cell.take")
    assert wrong_pointers(renamed) == ["_core/mailbox/cell.py:Cell.take"]
