"""Write docs/conformance.md: what is promised, row by row, and the tests that hold it.

A test names its rows and cases in a comment on its `def` line (`# M5, case 57`); what its module's docstring names, all
tests in there hold.

Run as ``python -m tools.conformance`` to write the page, with ``--check`` to see whether it is up to date.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"

ROWS = {
    "J1": "limits on everything, each enforced with an error of its own",
    "J2": "create, run, stop from inside or from another thread; a sleeping loop wakes",
    "J3": "a handler ends its message well, ends its actor, or fails it",
    "J4": "spawn takes parent, mailbox and arguments; nothing of the actor runs inside it",
    "J5": "stop and fail from outside, torn down in one place",
    "J6": "one run queue, an actor in it once, budgets that are kept exactly",
    "J7": "bounded mailboxes; a full one is an error, or drops its oldest or newest",
    "J8": "messages carry their sender; actors are found by ref, name and id",
    "J9": "one family of errors, each with a code and a remedy",
    "J10": "supervisors: child specs, restart types, scopes, limits, delayed restarts, escalation",
    "J11": "timers: once, periodic, cancelled, in order, none for a dead actor",
    "J14": "a message to an ended actor never reaches the one that has its slot now",
    "J15": "sends from foreign threads: in order per thread, bounded, waking the loop",
    "J16": "observers: no cost when there is none, dropped when one raises",
    "E11": "monitors, links and trapped exits",
    "M1": "the states of a life, and no other ways between them",
    "M2": "orders before messages, looked for between every two",
    "M3": "hooks with defaults; one that raises strands nobody",
    "M4": "spawn in eleven steps, undone when it fails, with inherited settings",
    "M5": "stop in fifteen steps: parents after their children, a deadline that forces",
    "M6": "restart in place, in full: hooks, children, state, mailbox",
    "M7": "supervision of any actor: directives, scopes, limits, backoff, escalation to the top",
    "M8": "watch and unwatch, cleaned up on both sides; `DeathPact`",
    "M10": "dead letters: bounded, counted, subscribable; drain strategies",
    "M11": "shutdown in five phases within one deadline, and a report",
    "M12": "requests and responses, routers, state machines",
    "M13": "behaviors as values",
    "M14": "a root behavior, with which the system ends",
    "M15": "priorities of one's own",
    "M17": "backpressure: limits, waiting senders, visits that follow the load",
    "M19": "a test kit: lifecycle assertions, probes, a clock turned by hand, one actor alone",
    "M20": "what an operation costs does not grow with the number of actors",
    "B1": "simulation: schedules, virtual time and faults from a seed; failures simplified",
    "B4": "the ledger: every message in exactly one column",
    "B7": "typed refs, checked by mypy and pyright in both directions",
    "B8": "a pytest plugin",
}
CASES = (*range(1, 52), *range(53, 61))

_ID = re.compile(r"\b[JKEMB]\d+\b")
_CASES = re.compile(r"\bcases? (\d+(?:(?:, | and |-)\d+)*)")
_SPAN = re.compile(r"(\d+)(?:-(\d+))?")


def names_in(text: str) -> set[str]:
    """The rows and cases that `text` names.

    >>> sorted(names_in("M5, cases 7-9 and 12"))
    ['M5', 'case 12', 'case 7', 'case 8', 'case 9']
    """
    found = set(_ID.findall(text))
    for numbers in _CASES.findall(text):
        for first, last in _SPAN.findall(numbers):
            found.update(f"case {number}" for number in range(int(first), int(last or first) + 1))
    return found


def tests_in(path: Path) -> Iterator[tuple[str, set[str]]]:
    """The tests of a file, each with the rows and cases it holds."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    module = ast.parse(source)
    by_default = names_in(ast.get_docstring(module) or "")
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    for node in chain(module.body, *(one.body for one in classes)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            signature = " ".join(lines[node.lineno - 1 : max(node.body[0].lineno - 1, node.lineno)])
            comment = signature.partition("#")[2]
            yield node.name, names_in(comment) | by_default


def find_tests() -> dict[str, dict[str, list[str]]]:
    """The names of the tests for each row and case, by file."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        where = str(path.relative_to(ROOT))
        for test, names in tests_in(path):
            for name in names:
                found[name][where].append(test)
    return found


def missing(found: dict[str, dict[str, list[str]]]) -> list[str]:
    """Rows and cases that no test holds."""
    return [name for name in (*ROWS, *(f"case {number}" for number in CASES)) if name not in found]


def page(found: dict[str, dict[str, list[str]]]) -> str:
    """The page, as Markdown."""
    lines = [
        "# Conformance",
        "",
        "What Greenroom promises, row by row, and the tests that hold it to that: in both builds, on asyncio, on",
        "uvloop, and each case at 200 seeds in [simulations](simulation.md). `make conformance` writes this page from",
        "the ids in the tests; a row without a test fails them.",
        "",
        "| row | what | tests | where |",
        "|---|---|---|---|",
    ]
    for row, what in ROWS.items():
        lines.append(f"| {row} | {what} | {_count(found[row])} | {_places(found[row])} |")
    lines += ["", "## Cases", "", "Single situations, in the words of their tests.", ""]
    lines += ["| case | tests |", "|---|---|"]
    for number in CASES:
        sentences = [_sentence(test) for tests in found[f"case {number}"].values() for test in tests]
        shown = "; ".join(dict.fromkeys(sentences))
        lines.append(f"| {number} | {shown} |")
    return "\n".join(lines) + "\n"


def _count(places: dict[str, list[str]]) -> int:
    return sum(map(len, places.values()))


def _places(places: dict[str, list[str]]) -> str:
    """The files with most of them, and how many more there are."""
    order = sorted(places, key=lambda path: (-len(places[path]), path))
    shown = ", ".join(f"`{path.removeprefix('tests/')}`" for path in order[:4])
    return shown if len(order) <= 4 else f"{shown} and {len(order) - 4} more"


def _sentence(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


def main() -> int:
    """Write the page, or check it."""
    found = find_tests()
    without = missing(found)
    if without:
        print(f"no test names: {', '.join(without)}")
        return 1
    text = page(found)
    if "--check" in sys.argv:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print("docs/conformance.md is up to date" if current else "docs/conformance.md is not: run `make conformance`")
        return 0 if current else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(ROWS)} rows, {len(CASES)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
