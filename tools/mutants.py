"""Change the package in small random ways, one at a time, and see which of these mutants the tests miss.

A mutant is a copy of the package with one change: a comparison flipped, a condition negated, a statement removed. The
tests run against it until one fails: those named after the changed module, those of its folder and room, then the
conformance tests. A mutant that passes them all survives: either the change makes no difference, or a test is missing.

Run as ``python -m tools.mutants --seed 1 --count 40`` in an environment that has what the tests need but not greenroom
(`make mutants` does). The same seed chooses the same mutants as long as the sources stay the same; ``--replay`` takes
the id of one. Only the plain-Python build is tested.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from zlib import crc32

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "greenroom"
SCRATCH = ROOT / "build" / "mutants"
PATIENCE = 60.0
"""Seconds without a finished test, after which a run hangs."""
MINUTES_EACH = 2
"""What a mutant takes on average: seconds if a test finds it soon, several minutes if none does."""


class Mutant(NamedTuple):
    """One change: `text` instead of the bytes from `start` to `end` of a module."""

    id: str
    start: int
    end: int
    text: str

    @property
    def path(self) -> str:
        """The module's path below the package."""
        return self.id.split(":", maxsplit=1)[0]

    @property
    def kind(self) -> str:
        """The kind of change, such as `compare`."""
        return self.id.split(":")[3]

    @property
    def room(self) -> str:
        """The room that the module lies in, or its own name."""
        return self.path.split("/", maxsplit=1)[0].removesuffix(".py")

    def apply(self, source: str) -> str:
        """The module's text with the change."""
        raw = source.encode()
        return (raw[: self.start] + self.text.encode() + raw[self.end :]).decode()

    def diff(self, source: str) -> str:
        """The change as a unified diff."""
        before, after = source.splitlines(keepends=True), self.apply(source).splitlines(keepends=True)
        name = f"src/greenroom/{self.path}"
        return "".join(difflib.unified_diff(before, after, name, name, n=2))


# -- what may be changed, and into what

_PAIRS = ((ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
SMALL = 100
"""Integers up to here are changed by one; larger ones are sizes and salts."""
NEVER = {"TYPE_CHECKING", "COMPILED"}
"""Conditions that are false in the plain-Python build: what they guard does not run."""

Change = tuple[str, ast.expr | ast.stmt, str]
"""The kind of a change, the node that it replaces, and the new text."""


def changes(node: ast.AST) -> Iterator[Change]:
    """What can be made of one node."""
    match node:
        case ast.Compare(left, ops, comparators):
            for number, op in enumerate(ops):
                flipped = [*ops[:number], FLIPS[type(op)](), *ops[number + 1 :]]
                yield "compare", node, ast.unparse(ast.Compare(left, flipped, comparators))
        case ast.UnaryOp(ast.Not(), operand):
            yield "not", node, f"({ast.unparse(operand)})"
        case ast.BoolOp(op, values):
            swapped = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and-or", node, f"({ast.unparse(ast.BoolOp(swapped, values))})"
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right) if not (_is_text(left) or _is_text(right)):
            yield "plus-minus", node, ast.unparse(ast.BinOp(left, _other_sign(op), right))
        case ast.Constant(bool() as value):
            yield "constant", node, repr(not value)
        case ast.Constant(int() as value) if value <= SMALL:
            yield "constant", node, repr(value + 1)
            yield "constant", node, f"({value - 1})"
        case ast.Tuple(elements, ast.Load()) if len(elements) > 1:
            for number in range(len(elements)):
                rest = [*elements[:number], *elements[number + 1 :]]
                yield "tuple", node, ast.unparse(ast.Tuple(rest, ast.Load()))
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            if not isinstance(test, ast.Compare | ast.Constant | ast.UnaryOp):  # they have changes of their own
                yield "condition", test, f"not ({ast.unparse(test)})"
        case ast.Return(ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", node, "return None"
        case ast.Expr(ast.Call() | ast.Await(ast.Call())):
            yield "call", node, "pass"
        case ast.AugAssign(target, op, value):
            if isinstance(op, ast.Add | ast.Sub):
                yield "plus-minus", node, ast.unparse(ast.AugAssign(target, _other_sign(op), value))
            yield "statement", node, "pass"
        case ast.Assign(targets) if not all(isinstance(target, ast.Name) for target in targets):
            yield "statement", node, "pass"
        case ast.AnnAssign(ast.Attribute(), _, ast.expr()):
            yield "statement", node, "pass"
        case ast.Expr() | ast.Delete() | ast.Raise() | ast.Break() | ast.Continue() | ast.Return():
            yield "statement", node, "pass"


def _other_sign(op: ast.Add | ast.Sub) -> ast.operator:
    return ast.Sub() if isinstance(op, ast.Add) else ast.Add()


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def changeable(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one that count at run time, but for texts: no annotations, docstrings, errors or log records."""
    last = node.body[-1] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            match child:
                case ast.Expr(ast.Constant()) | ast.JoinedStr() | ast.Assign([ast.Name("__slots__" | "__all__")]):
                    continue
                case ast.Return(ast.Constant(None)) if child is last:  # it makes no difference
                    continue
                case ast.Raise() | ast.Expr(ast.Call(ast.Attribute(ast.Name("_log")))):
                    yield child
                case ast.If(ast.Name(name), _, otherwise) if name in NEVER:
                    yield from changeable(ast.Module(otherwise, []))
                case ast.IfExp(ast.Name(name), _, otherwise) if name in NEVER:
                    yield from changeable(ast.Expr(otherwise))
                case ast.Subscript(value=of, slice=ast.Tuple()):  # `dict[str, int]` is no pair
                    yield from changeable(ast.Expr(of))
                case ast.Assign([ast.Tuple() as target], ast.Tuple(elements)):  # each needs the other's length
                    yield from changeable(ast.Tuple([target, *elements]))
                case ast.AST():
                    yield child
                    yield from changeable(child)


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of a module; `path` is below the package."""
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    numbers: Counter[str] = Counter()
    found = []
    for node in changeable(ast.parse(source)):
        for kind, place, text in changes(node):
            name = f"{path}:{place.lineno}:{place.col_offset}:{kind}"
            end_line, end_column = place.end_lineno, place.end_col_offset
            assert end_line is not None
            assert end_column is not None
            start, end = lines[place.lineno - 1] + place.col_offset, lines[end_line - 1] + end_column
            found.append(Mutant(f"{name}:{numbers[name]}", start, end, text))
            numbers[name] += 1
    return found


def choose(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Some of them at random: of each room, and of each kind in it, as many as its share is."""
    chance = random.Random(seed)
    order = sorted(mutants, key=lambda mutant: (mutant.room, mutant.kind, chance.random()))
    count = min(count, len(order))
    offset = chance.random()
    chosen = [order[int((number + offset) * len(order) / count)] for number in range(count)]
    chance.shuffle(chosen)
    return chosen


# -- which tests are run, and what comes of them

ELSEWHERE = {
    "_core/simulation/": "testing/simulating",
    "meta/simulated/": "testing/test_fake*.py",
    "wire/": "system/dispatchers/processes",
}
"""Folders of the package whose own tests are of the rooms above, and which those are."""


def stages(path: str, tests: Path, *, whole: bool = False) -> Iterator[list[str]]:
    """What pytest is to run for a change in a module: first what finds most in the shortest time."""
    module = PurePosixPath(path)
    name = module.parent.name if module.stem == "__init__" else module.stem
    elsewhere = (pattern for folder, pattern in ELSEWHERE.items() if path.startswith(folder))
    patterns = [f"test_{name}.py", f"test_{name}_*.py", *elsewhere]
    named = sorted({file for pattern in patterns for file in tests.rglob(pattern)})
    folder = tests.joinpath(*(part.lstrip("_") for part in module.parts[:-1]))
    while not folder.is_dir():
        folder = folder.parent
    room = [tests / part for part in folder.relative_to(tests).parts[:1]]
    places = [*(room if folder in (tests, *room) else [folder, *room]), tests / "conformance"]
    if named:
        yield ["--matrix=all", *map(str, named)]
    for number, place in enumerate(places):
        yield ["--matrix=pairs", str(place), *_without([*named, *places[:number]])]
    if room:
        yield ["--matrix=rest", str(folder), *_without(named)]
    if whole:
        yield ["--matrix=pairs", str(tests), *_without([*named, *places])]
        yield ["--matrix=rest", str(tests), *_without([*named, folder] if room else named)]


def _without(places: Iterable[Path]) -> list[str]:
    return [f"--ignore={place}" for place in places]


class Result(NamedTuple):
    """A mutant and what has killed it: a test, or in brackets something else; nothing if it survives."""

    mutant: Mutant
    killer: str | None
    seconds: float


def run(command: list[str], sources: Path, patience: float = PATIENCE) -> tuple[int | None, str]:
    """Run a command with the package in a folder: the exit code, none if it hangs, and what it has printed."""
    environ = {**os.environ, "PYTHONPATH": str(sources), "HYPOTHESIS_STORAGE_DIRECTORY": str(SCRATCH / "hypothesis")}
    # Installed, the package would bring its plugin to every run, also of a test's own.
    environ["PYTEST_PLUGINS"] = "greenroom.testing.plugin"
    environ.pop("GREENROOM_EXPECT", None)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:
        assert process.stdout is not None
        said = b""
        try:
            while select.select([process.stdout], [], [], patience)[0]:
                piece = os.read(process.stdout.fileno(), 65536)
                if not piece:
                    return process.wait(), said.decode(errors="replace")
                said += piece
            return process.poll(), said.decode(errors="replace")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def first_failure(arguments: list[str], sources: Path) -> str | None:
    """Run tests until one fails or hangs; its id, or in brackets what else has ended the run."""
    command = [sys.executable, "-m", "pytest", "-x", "-v", "-m", "not slow", "--tb=no", "-rfE"]
    command += [f"--basetemp={SCRATCH / 'tmp'}", "-o", f"cache_dir={SCRATCH / 'cache'}", *arguments]
    return failure_in(*run(command, sources))


def failure_in(code: int | None, said: str) -> str | None:
    """The test that has failed, or hangs, by the exit code of pytest and what it has printed.

    >>> failure_in(1, "FAILED tests/test_ring.py::test_it[a b] - assert 1 == 2\\n")
    'tests/test_ring.py::test_it[a b]'
    >>> failure_in(None, "tests/test_ring.py::test_it PASSED\\ntests/test_ring.py::test_that[a b] ")
    'tests/test_ring.py::test_that[a b] (hangs)'
    """
    if code in (0, 5):  # 5: there is no test
        return None
    if code is None:
        hanging = said.rpartition("\n")[2].strip()
        return f"{hanging} (hangs)" if "::" in hanging else "(hangs)"
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, re.MULTILINE)
    return found[1] if found else f"(exit {code})"


def plant(mutant: Mutant | None, place: Path) -> Path:
    """Copy the package, with a change; the folder for the path."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(PACKAGE, place / "greenroom", ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        file = place / "greenroom" / mutant.path
        text = mutant.apply(file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")
        # Bytecode is known by the time and the size of its source: no two mutants may share both.
        os.utime(file, (0, crc32(text.encode())))
    return place


def killer_of(mutant: Mutant, unfit: list[str], *, whole: bool) -> str | None:
    """What kills a mutant, if anything does. Tests that fail without any change too join the `unfit` ones."""
    sources = plant(mutant, SCRATCH / "mutant")
    module = ".".join(["greenroom", *PurePosixPath(mutant.path).with_suffix("").parts]).removesuffix(".__init__")
    if run([sys.executable, "-c", f"import greenroom, greenroom.testing.plugin, {module}"], sources)[0] != 0:
        return "(import)"
    for arguments in stages(mutant.path, ROOT / "tests", whole=whole):
        while killer := first_failure([*arguments, *(f"--deselect={test}" for test in unfit)], sources):
            test = killer.removesuffix(" (hangs)")
            if "::" not in test or first_failure([test], SCRATCH / "clean") is None:
                return killer
            print(f"Fails without any change too, and is left out from here on: {test}", flush=True)
            unfit.append(test)
    return None


# -- the report


def table(results: Iterable[Result]) -> str:
    """How many of each room's mutants the tests have killed.

    >>> mutant = Mutant("_core/ring.py:1:0:call:0", 0, 0, "")
    >>> print(table([Result(mutant, "a test", 1.0), Result(mutant, None, 1.0)]))
    | package | mutants | killed |
    |---|---|---|
    | _core | 2 | 50 % |
    | all | 2 | 50 % |
    """
    killed: dict[str, list[bool]] = {}
    for result in sorted(results, key=lambda result: result.mutant.room):
        killed.setdefault(result.mutant.room, []).append(result.killer is not None)
    killed["all"] = [one for room in killed.values() for one in room]
    rows = [f"| {room} | {len(ones)} | {100 * sum(ones) // max(len(ones), 1)} % |" for room, ones in killed.items()]
    return "\n".join(["| package | mutants | killed |", "|---|---|---|", *rows])


def main(arguments: list[str] | None = None) -> int:
    """Try some mutants, and report those that survive; 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Faults that the tests miss.")
    parser.add_argument("--seed", type=int, help="of the choice; a random one if none is given")
    parser.add_argument("--count", type=int, default=40, help="how many mutants (default: 40)")
    parser.add_argument("--package", metavar="ROOM", help="of this room alone, such as _core or policy")
    parser.add_argument("--replay", metavar="ID", nargs="+", help="try these mutants, and no others")
    parser.add_argument("--whole", action="store_true", help="run all other tests too, on what else survives")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well, one by one")
    given = parser.parse_args(arguments)
    sources = {file.relative_to(PACKAGE).as_posix(): file.read_text("utf-8") for file in sorted(PACKAGE.rglob("*.py"))}
    every = {mutant.id: mutant for path, source in sources.items() for mutant in mutants_of(path, source)}
    if unknown := [name for name in given.replay or () if name not in every]:
        parser.error(f"no such mutant: {', '.join(unknown)}")
    if given.package not in {None, *(mutant.room for mutant in every.values())}:
        parser.error(f"no such package: {given.package}")
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    within = [mutant for mutant in every.values() if given.package in (None, mutant.room)]
    chosen = [every[name] for name in given.replay] if given.replay else choose(within, given.count, seed)
    print(
        f"Changes the package in {len(chosen)} of {len(within)} places, one at a time, and runs tests until one fails:"
        f" about {len(chosen) * MINUTES_EACH} minutes.{'' if given.replay else f' Seed {seed}.'}",
        flush=True,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plant(None, SCRATCH / "clean")
    unfit: list[str] = []
    results: list[Result] = []
    with suppress(KeyboardInterrupt):  # what came of those until then is told all the same
        for number, mutant in enumerate(chosen, 1):
            began = time.monotonic()
            killer = killer_of(mutant, unfit, whole=given.whole)
            results.append(Result(mutant, killer, round(time.monotonic() - began, 1)))
            outcome = "SURVIVES" if killer is None else f"killed by {killer}"
            print(f"[{number}/{len(chosen)}] {results[-1].seconds:4.0f} s  {mutant.id}  {outcome}", flush=True)
            if given.json is not None:
                told = [{**one._asdict(), "mutant": one.mutant.id, "seed": seed} for one in results]
                given.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    survivors = [result.mutant for result in results if result.killer is None]
    for mutant in survivors:
        print(f"\n{mutant.id} survives:\n{mutant.diff(sources[mutant.path])}", end="")
    print(f"\n{table(results)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
