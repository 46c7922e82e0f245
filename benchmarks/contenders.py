"""Who takes part in a row: programs of ours and of the peers, as the rows write them down."""

from __future__ import annotations

from functools import partial

from benchmarks.erlang import launch_erlang
from benchmarks.model import Program, Setting
from benchmarks.program import Unavailable

OURS = "Greenroom"
ERLANG = "Erlang"
PYKKA = "Pykka"


def _launch_python(module: str, arguments: tuple[str, ...], setting: Setting, size: int) -> list[str]:
    return [setting.python, "-m", module, *arguments, "--n", str(size)]


def _launch_pure(module: str, setting: Setting, size: int) -> list[str]:
    if setting.pure_python is None and setting.compiled:
        raise Unavailable("needs the plain-Python build (--pure-python PATH names an interpreter that has it)")
    return [setting.pure_python or setting.python, "-m", module, "--n", str(size)]


def python_program(name: str, module: str, arguments: tuple[str, ...], size: int, quick_size: int) -> Program:
    """A module of this package, run by the interpreter that runs the harness."""
    return Program(name, partial(_launch_python, f"benchmarks.{module}", arguments), size, quick_size)


def ours(name: str, size: int, quick_size: int, *, arguments: tuple[str, ...] = ()) -> Program:
    """One of ours, in the build that is measured."""
    return python_program(OURS, f"ours.{name}", arguments, size, quick_size)


def ours_pure(name: str, size: int, quick_size: int) -> Program:
    """One of ours, in the plain-Python build."""
    return Program(OURS, partial(_launch_pure, f"benchmarks.ours.{name}"), size, quick_size)


def python_peer(name: str, module: str, work: tuple[str, ...], size: int, quick_size: int) -> Program:
    """A peer in Python."""
    return python_program(name, f"peers.{module}", work, size, quick_size)


def pykka(work: str, size: int, quick_size: int, *, module: str = "pykka_programs") -> Program:
    """Pykka."""
    return python_peer(PYKKA, module, (work,), size, quick_size)


def erlang(work: str, size: int, quick_size: int) -> Program:
    """Erlang, on one scheduler."""
    return Program(ERLANG, partial(launch_erlang, work), size, quick_size)
