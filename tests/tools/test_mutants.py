"""How `make mutants` changes the package: each kind of change, what is left alone, which are chosen, what is run."""

from __future__ import annotations

import ast
import doctest
import os
import sys
from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import ELSEWHERE, PACKAGE, Mutant, choose, main, mutants_of, plant, run, stages


def made_of(source: str) -> list[tuple[str, str]]:
    """The kind of every change of a source, and the source with it."""
    return [(mutant.kind, mutant.apply(source)) for mutant in mutants_of("room/module.py", source)]


@pytest.mark.parametrize(
    ("source", "kind", "changed"),
    [
        ("a == b", "compare", ["a != b"]),
        ("a != b", "compare", ["a == b"]),
        ("a is b", "compare", ["a is not b"]),
        ("a not in b", "compare", ["a in b"]),
        ("a < b", "compare", ["a <= b"]),
        ("a >= b", "compare", ["a > b"]),
        ("a < b <= c", "compare", ["a <= b <= c", "a < b < c"]),
        ("a if b else c", "condition", ["a if not (b) else c"]),
        ("while a and b: pass", "condition", ["while not (a and b): pass"]),
        ("if a: b", "condition", ["if not (a): b"]),
        ("if a == b: c", "condition", []),
        ("if not a: b", "condition", []),
        ("a and not (b or c)", "not", ["a and (b or c)"]),
        ("a and b and c", "and-or", ["(a or b or c)"]),
        ("a or b and c", "and-or", ["(a and (b and c))", "a or (b or c)"]),
        ("a - b - c", "plus-minus", ["a - b + c", "a + b - c"]),
        ("a += b", "plus-minus", ["a -= b"]),
        ("'a' + b", "plus-minus", []),
        ("a(7)", "constant", ["a(8)", "a((6))"]),
        ("a(True, 1.5, 1000)", "constant", ["a(False, 1.5, 1000)"]),
        ("a = b, c, d", "tuple", ["a = (c, d)", "a = (b, d)", "a = (b, c)"]),
        ("a, b = c, d", "tuple", []),
        ("def a(): return b", "return", ["def a(): return None"]),
        ("def a(): return None", "return", []),
        ("a(b)", "call", ["pass"]),
        ("async def a(): await b()", "call", ["async def a(): pass"]),
        ("a << b", "statement", ["pass"]),
        ("a.b = c", "statement", ["pass"]),
        ("a.b: int = c", "statement", ["pass"]),
        ("a += 'b'", "statement", ["pass"]),
        ("del a", "statement", ["pass"]),
        ("a = b", "statement", []),
        ("for a in b: continue", "statement", ["for a in b: pass"]),
        ("def a():\n    if b: return\n    c()", "statement", ["def a():\n    if b: pass\n    c()"]),
    ],
)
def test_a_kind_of_change(source: str, kind: str, changed: list[str]) -> None:
    assert [text for done, text in made_of(source) if done == kind] == changed


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 3 words."""',
        "class A:\n    __slots__ = ('a', 'b')",
        "__all__ = ['a', 'b']",
        "a: dict[str, Literal[1, 2]]",
        "def a(b: Literal[1, 2] | None) -> Literal[3]: ...",
        "@a(1, True)\ndef b(): ...",
        "a = f'{b + 1} of {c - 1}'",
        "if TYPE_CHECKING:\n    a(1)",
        "if COMPILED:\n    a(1)",
        "a = b(1) if COMPILED else c",
        "a = dict[str, int]",
        "def a():\n    return None",
    ],
)
def test_what_does_not_count_at_run_time_is_left_alone(source: str) -> None:
    assert made_of(source) == []


def test_the_text_of_an_error_or_a_log_record_is_left_alone() -> None:
    assert made_of("raise A('%d' % (b + 1))") == [("statement", "pass")]
    assert made_of("_log.info('%d of %d', b + 1, not c)") == [("call", "pass")]


def test_an_id_says_where_the_change_is_and_tells_those_of_one_place_apart() -> None:
    ids = [mutant.id for mutant in mutants_of("room/module.py", "def a():\n    b = c - d - 1\n")]
    assert ids == [
        "room/module.py:2:8:plus-minus:0",
        "room/module.py:2:8:plus-minus:1",
        "room/module.py:2:16:constant:0",
        "room/module.py:2:16:constant:1",
    ]


def test_a_change_behind_letters_of_several_bytes_is_at_its_place() -> None:
    assert made_of("é = 'ü', a == b")[-1] == ("compare", "é = 'ü', a != b")


def test_every_mutant_of_a_module_is_another_program() -> None:
    source = (PACKAGE / "policy" / "children.py").read_text(encoding="utf-8")
    whole = ast.dump(ast.parse(source))
    made = mutants_of("policy/children.py", source)
    assert len({mutant.id for mutant in made}) == len(made) > 20
    assert all(ast.dump(ast.parse(mutant.apply(source))) != whole for mutant in made)


MANY = [
    Mutant(f"{room}/a.py:{line}:0:{kind}:0", 0, 0, "")
    for room, size in (("_core", 300), ("policy", 100))
    for kind in ("call", "compare")
    for line in range(size // 2)
]


def test_a_seed_chooses_the_same_mutants_every_time_and_another_seed_others() -> None:
    assert choose(MANY, 20, seed=1) == choose(MANY, 20, seed=1)
    assert set(choose(MANY, 20, seed=1)) != set(choose(MANY, 20, seed=2))


@pytest.mark.parametrize("seed", range(5))
def test_mutants_are_chosen_by_the_size_of_a_room_and_of_a_kind(seed: int) -> None:
    chosen = choose(MANY, 40, seed)
    assert len(set(chosen)) == 40
    assert sum(mutant.room == "_core" for mutant in chosen) == 30
    assert sum(mutant.kind == "call" for mutant in chosen) == 20


def test_no_mutant_is_chosen_twice_when_there_are_few() -> None:
    assert sorted(choose(MANY[:3], 10, seed=1)) == sorted(MANY[:3])


def test_the_tests_that_are_nearest_run_first(tmp_path: Path) -> None:
    for name in ("core/test_ring.py", "core/test_ring_model.py", "core/test_rings.py", "conformance/test_ask.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    named = [str(tmp_path / "core" / name) for name in ("test_ring.py", "test_ring_model.py")]
    without = [f"--ignore={file}" for file in named]
    core, conformance = str(tmp_path / "core"), str(tmp_path / "conformance")
    near = [
        ["--matrix=all", *named],
        ["--matrix=pairs", core, *without],
        ["--matrix=pairs", conformance, *without, f"--ignore={core}"],
        ["--matrix=rest", core, *without],
    ]
    assert list(stages("_core/mailbox/ring.py", tmp_path)) == near
    assert list(stages("_core/mailbox/ring.py", tmp_path, whole=True)) == [
        *near,
        ["--matrix=pairs", str(tmp_path), *without, f"--ignore={core}", f"--ignore={conformance}"],
        ["--matrix=rest", str(tmp_path), *without, f"--ignore={core}"],
    ]
    assert list(stages("clock.py", tmp_path)) == [["--matrix=pairs", conformance]]


@pytest.mark.parametrize(("folder", "pattern"), ELSEWHERE.items())
def test_tests_that_lie_elsewhere_are_found(folder: str, pattern: str) -> None:
    assert (PACKAGE / folder).is_dir()
    first = next(stages(f"{folder}module.py", PACKAGE.parents[1] / "tests"))
    assert first[0] == "--matrix=all"
    assert first[1:]


def test_a_mutant_is_planted_in_a_copy(tmp_path: Path) -> None:
    file = PACKAGE / "policy" / "plan.py"
    source = file.read_text(encoding="utf-8")
    mutant = mutants_of("policy/plan.py", source)[0]
    place = plant(mutant, tmp_path / "copy")
    assert (place / "greenroom" / "policy" / "plan.py").read_text(encoding="utf-8") == mutant.apply(source)
    assert file.read_text(encoding="utf-8") == source


def test_a_run_ends_with_its_exit_code_and_what_it_has_printed(tmp_path: Path) -> None:
    assert run([sys.executable, "-c", "print('a'); raise SystemExit(3)"], tmp_path) == (3, "a\n")


@pytest.mark.skipif(sys.platform == "win32", reason="the tool needs process groups")
def test_a_run_that_hangs_is_ended_together_with_what_it_has_started(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    fifo = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    child = f"import time; file = open({str(tmp_path / 'fifo')!r}, 'w'); time.sleep(900)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    assert run([sys.executable, "-c", program], tmp_path, patience=2.0)[0] is None
    os.set_blocking(fifo, True)
    assert os.read(fifo, 1) == b""  # no process has it open any more
    os.close(fifo)


def test_an_id_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--replay", "_core/nothing.py:1:0:call:0"])
    assert "no such mutant: _core/nothing.py:1:0:call:0" in capsys.readouterr().err


def test_the_examples_are_true() -> None:
    assert doctest.testmod(mutants).failed == 0
