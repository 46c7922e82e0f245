"""The house stands: imports go only downward at run time, every module imports alone, and the right build is installed.

All of it is asked of the installed package, never of src/.
"""

import ast
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

import pytest

import greenroom

HOUSE = Path(greenroom.__file__).parent
REPOSITORY = Path(__file__).parents[1]

# From the ground up. At run time a room imports from the floors below it and from itself; rooms on one floor are
# strangers. An import for type checkers is free: it ties no code to code.
FLOORS = [
    ["ground"],  # errors, clock, lanes, ledger, exits, frozen, validation: the files that lie directly in the package
    ["_core", "policy"],
    ["actor", "wire"],
    ["supervision"],
    ["system"],
    ["pods", "meta", "toolkit"],
    ["cluster", "observe", "testing"],
    ["face"],  # greenroom/__init__.py
    ["cli"],
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# The rooms of the test kit, likewise; "faults" and its kind are the files that lie directly in it.
KIT_FLOORS = [
    ["checks", "events", "faults", "patches", "probing"],
    ["diagrams", "effects", "eventloop", "injection"],
    ["trace"],
    ["recording", "simulation"],
    ["fakepeer", "harness", "simulatedprogram"],
    ["workerpool"],
    ["shrinking"],
    ["exploration"],
    ["seeds", "strategies"],
    ["machine", "plugin"],
    ["testing"],  # greenroom/testing/__init__.py
]
# The rooms of the core and of the actors' floor, likewise; a file that lies directly in one is a room of its own.
CORE_FLOORS = [
    ["behavior", "flags", "itemkinds", "limits", "observerhooks", "world"],
    ["receipt"],
    ["build"],
    ["runqueue"],
    ["mailbox"],
    ["current"],
    ["timing"],
    ["simulation"],
    ["delivery"],
    ["connections"],
    ["scheduler"],
    ["handoff"],
]
ACTOR_FLOORS = [
    ["records"],
    ["messaging"],
    ["relations"],
    ["api"],
    ["life", "offload"],
    ["failure"],
    ["lifecycle"],
    ["spawner"],
]
IN_ORDER = {"greenroom.testing": KIT_FLOORS, "greenroom._core": CORE_FLOORS, "greenroom.actor": ACTOR_FLOORS}
GROUND = {
    "errors",
    "errortext",
    "clock",
    "exits",
    "lanes",
    "ledger",
    "frozen",
    "validation",
    "seededrandom",
    "originaldir",
    "runtimelog",
    "tracebacks",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(HOUSE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(HOUSE.rglob("*.py"))}


def room_of(module: str) -> str:
    _, _, inside = module.partition(".")
    first = inside.partition(".")[0]
    return "ground" if first in GROUND else first or "face"


class Import(NamedTuple):
    importer: str
    imported: str
    line: int


def imports_of(module: str) -> Iterator[Import]:
    """Every run-time import of another module of the house, wherever in the file it stands."""
    tree = ast.parse(MODULES[module].read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        for name in imported_names(module, node):
            if name.partition(".")[0] == "greenroom":
                yield Import(module, name, node.lineno)  # type: ignore[attr-defined]


def imported_names(module: str, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    source = node.module or ""
    if node.level:
        is_package = MODULES[module].name == "__init__.py"
        home = module.split(".")[: len(module.split(".")) - node.level + is_package]
        source = ".".join([*home, *filter(None, [node.module])])
    # `from package import name` reaches into a module when name is one.
    return [inner if (inner := f"{source}.{alias.name}") in MODULES else source for alias in node.names]


@cache
def all_imports() -> list[Import]:
    return [found for module in MODULES for found in imports_of(module)]


def test_the_package_under_test_is_the_installed_one():
    assert not HOUSE.is_relative_to(REPOSITORY / "src")


def test_every_module_has_a_floor():
    assert {room_of(module) for module in MODULES} <= FLOOR_OF.keys()


def test_imports_go_only_downward():
    def allowed(found: Import) -> bool:
        here, there = room_of(found.importer), room_of(found.imported)
        return here == there or FLOOR_OF[there] < FLOOR_OF[here]

    wrong = [f"{i.importer}:{i.line} imports {i.imported}" for i in all_imports() if not allowed(i)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", IN_ORDER)
def test_imports_go_only_downward_among_the_rooms_of(package):
    order = {room: floor for floor, rooms in enumerate(IN_ORDER[package]) for room in rooms}

    def room(module: str) -> str:
        return module.removeprefix(f"{package}.").partition(".")[0].rpartition("greenroom.")[2]

    def allowed(found: Import) -> bool:
        here, there = room(found.importer), room(found.imported)
        # The package itself is its face, above all its rooms.
        return here == there or found.importer == package or order[there] < order[here]

    def is_inside(module: str) -> bool:
        return module == package or module.startswith(f"{package}.")

    inside = [i for i in all_imports() if is_inside(i.importer) and is_inside(i.imported)]
    wrong = [f"{i.importer}:{i.line} imports {i.imported}" for i in inside if not allowed(i)]
    assert len(inside) > 50
    assert not wrong, "\n".join(wrong)


def test_no_folder_holds_an_import_cycle():
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in all_imports():
        # A package's __init__ is what its files look like from outside, so a file that names it is a cycle of its own.
        graph[found.importer].add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" imports ".join(reversed(cycle.args[1])))


def run_alone(code: str) -> str:
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Processes that have imported none of our modules, but what those import of the standard library: that takes longest.
FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(["asyncio", "concurrent.futures", "dataclasses", "inspect", "logging", "random", "typing"])


@pytest.mark.parametrize("module", MODULES)
def test_every_module_imports_alone(module, capfd):
    alone = FRESH.Process(target=import_module, args=(module,))
    alone.start()
    alone.join(120)
    assert alone.exitcode == 0, capfd.readouterr().err


@pytest.mark.parametrize("package", ["greenroom", "greenroom.testing"])
def test_names_that_are_imported_when_they_are_used_are_those_that_type_checkers_see(package):
    for_types = {
        alias.name: node.module
        for node in ast.walk(ast.parse(MODULES[package].read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    module = import_module(package)
    for name in module.__all__:
        origin = import_module(for_types[name])
        assert getattr(module, name) is getattr(origin, name)


def test_importing_greenroom_imports_nothing_third_party():
    # Modules without a file are made by the compiled code itself, at run time.
    code = """
import sys
before = set(sys.modules)
import greenroom
print(*sorted({
    name.partition(".")[0]
    for name in set(sys.modules) - before
    if getattr(sys.modules[name], "__file__", None)
} - sys.stdlib_module_names))
"""
    assert run_alone(code).split() == ["greenroom"]


def test_compiled_modules_with_generators_are_spared_a_crash_of_cythons():
    def makes_generators(path: Path) -> bool:
        kinds = (ast.Yield, ast.YieldFrom, ast.AsyncFunctionDef, ast.GeneratorExp)
        return any(isinstance(node, kinds) for node in ast.walk(ast.parse(path.read_text())))

    hot = {pxd: pxd.with_suffix(".py") for pxd in HOUSE.rglob("*.pxd") if pxd.with_suffix(".py").exists()}
    those = [pxd for pxd, source in hot.items() if makes_generators(source)]
    assert those
    assert [pxd.stem for pxd in those if "cimport greenroom._core.generators" not in pxd.read_text()] == []


def test_hot_modules_are_all_compiled_or_none_is():
    hot = [pxd.with_suffix("") for pxd in HOUSE.rglob("*.pxd") if pxd.with_suffix(".py").exists()]
    compiled = [path for path in hot if any(path.with_name(path.name + end).exists() for end in EXTENSION_SUFFIXES)]
    assert compiled == (hot if greenroom.COMPILED else [])


@pytest.mark.skipif("GREENROOM_EXPECT" not in os.environ, reason="make test says which build it installed")
def test_the_installed_build_is_the_expected_one():
    assert os.environ["GREENROOM_EXPECT"] == ("compiled" if greenroom.COMPILED else "pure")
