"""Write docs/bugs.md and its pictures: planted bugs, and how a simulation finds them.

The page shows what the programs print. That is the same on every machine and in both builds, so a test can compare it.

Run as ``python -m tools.bug_page`` to write the page.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from examples.bugs import ask_cycle, late_message, lost_update, rare_order
from greenroom.testing import Failure, Report, explore

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "bugs.md"
IMAGES = ROOT / "docs" / "images"

SHOWN = {
    "A lost update": lost_update,
    "An ask cycle under load": ask_cycle,
    "A message to an actor that is stopping": late_message,
}
RANDOM_RUNS = 2000

HEAD = """# Bugs that only some orders show

Three classic concurrency bugs, each planted in a short program, and what `explore` prints when it finds them. A fourth
is so rare that the choice of schedule matters. All four programs pass in an ordinary run, on asyncio and on uvloop,
because their messages then arrive in a harmless order.

The output below is real: `make bug-page` writes it, and a test compares it in both builds. The pictures are
`failure.shortest.trace.svg()`. The page [Simulation](simulation.md) explains how simulations work.
"""


def find(module: ModuleType) -> tuple[Report, str]:
    """What `explore` finds and prints."""
    output = io.StringIO()
    report = explore(module.program, check=getattr(module, "is_right", None), output=output)
    # The last line says how long it took, which differs each time.
    return report, "\n".join(line for line in output.getvalue().splitlines() if not line.startswith("("))


def failure_of(report: Report) -> Failure:
    """The failure that must have been found."""
    if report.failure is None:
        raise RuntimeError("the planted bug was not found")
    return report.failure


def section(title: str, module: ModuleType) -> tuple[str, str]:
    """The text of one bug, and its picture."""
    report, printed = find(module)
    shortest: Any = failure_of(report).shortest
    name = module.__name__.rpartition(".")[2]
    lines = [
        f"## {title}",
        "",
        *_paragraphs(module),
        "",
        f"```text\n$ python -m {module.__name__}\n{printed}\n```",
        "",
        f"![The messages of the run above, as a sequence diagram](images/bug-{name}.svg)",
        "",
    ]
    return "\n".join(lines), shortest.trace.svg()


def _paragraphs(module: ModuleType) -> Iterator[str]:
    """The docstring of the program, and where to find it."""
    yield inspect.cleandoc(module.__doc__ or "")
    yield ""
    yield f"The program: `{module.__name__.replace('.', '/')}.py`."


def rare_section() -> str:
    """The bug for which the schedule matters."""
    program, config = rare_order.program, rare_order.ONE_BY_ONE
    pct = explore(program, runs=5000, schedule="pct", config=config, output=None, shrinks=False)
    random = explore(program, runs=RANDOM_RUNS, config=config, output=None, shrinks=False)
    seed = failure_of(pct).seed
    by_chance = "none of them" if random.failure is None else f"seed {random.failure.seed}"
    return "\n".join(
        [
            "## A rare order",
            "",
            *_paragraphs(rare_order),
            "",
            "| schedule | seeds tried | fails at |",
            "|---|---|---|",
            f'| `"pct"` | {seed + 1} | seed {seed} |',
            f'| `"random"` | {RANDOM_RUNS} | {by_chance} |',
            "",
        ]
    )


def write() -> tuple[str, dict[Path, str]]:
    """The page, and the pictures by their files."""
    texts, pictures = [HEAD], {}
    for title, module in SHOWN.items():
        text, picture = section(title, module)
        texts.append(text)
        pictures[IMAGES / f"bug-{module.__name__.rpartition('.')[2]}.svg"] = picture
    texts.append(rare_section())
    return "\n".join(texts), pictures


def main() -> None:
    """Write the page and its pictures."""
    text, pictures = write()
    PAGE.write_text(text, encoding="utf-8")
    for path, picture in pictures.items():
        path.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
