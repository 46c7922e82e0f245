"""``python -m benchmarks``: measure the rows, print the table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import facts as machine
from benchmarks.harness import measure_all
from benchmarks.model import Setting
from benchmarks.plot import draw
from benchmarks.progress import Progress
from benchmarks.report import as_json, listing, render
from benchmarks.results import Mark
from benchmarks.rows import UnknownRow, select, uses_erlang

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 when one of our own programs failed; a missed target is a finding, not a failure."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        rows = select(options.only)
    except UnknownRow as error:
        parser.error(str(error))
    if options.list:
        print(listing(rows))
        return 0

    compiled = machine.is_compiled()
    facts = machine.collect(compiled=compiled, with_erlang=uses_erlang(rows))
    facts["sizes"] = "quick: small works, few rounds; for orientation" if options.quick else "full"
    # Not resolved: a virtual environment's interpreter is a link, and is found by where it stands.
    pure, gil = (str(Path(path).absolute()) if path else None for path in (options.pure_python, options.gil_python))
    setting = Setting(sys.executable, bool(compiled), pure, gil, options.quick)
    results = measure_all(rows, setting, Progress())

    if options.json == "-":
        print(as_json(facts, results, quick=options.quick))
    else:
        print(render(facts, results))
        if options.json:
            Path(options.json).write_text(as_json(facts, results, quick=options.quick) + "\n", encoding="utf-8")
    if options.svg:
        Path(options.svg).write_text(draw(facts, results), encoding="utf-8")
    return int(any(line.mark is Mark.FAILED for result in results for line in result.lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Greenroom against its peers.")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: a minute or two in all")
    parser.add_argument("--json", metavar="FILE", help="also write the results as JSON (-: print them, and no table)")
    parser.add_argument("--svg", metavar="FILE", help="also draw the targets as a bar plot")
    parser.add_argument("--only", metavar="IDS", help="measure only these rows, as in P1,P3; P18 for all programs")
    parser.add_argument("--list", action="store_true", help="list the rows and their targets, measure nothing")
    parser.add_argument(
        "--pure-python", metavar="PATH", help="an interpreter that has the plain-Python build, for P12 and P12A"
    )
    parser.add_argument("--gil-python", metavar="PATH", help="one with the GIL and the compiled build, for P19")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
