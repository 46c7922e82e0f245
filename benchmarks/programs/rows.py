"""The rows of the whole programs. Each has one target: 0.8 of what Erlang does on one scheduler, in CPU time.

Sizes are messages, or lives where there are many: about a second's work in full, a quarter of that in quick. Pykka's
actors are threads, and slow to switch: it gets far less to do.
"""

from __future__ import annotations

from functools import partial

from benchmarks.contenders import ERLANG, OURS, pykka, python_peer, python_program
from benchmarks.erlang import launch_program, launch_program_on_all_schedulers
from benchmarks.model import RATE, SHARE, Comparison, Program, Row, Setting, Target, at_least, at_most
from benchmarks.program import Unavailable

TARGET = at_least(0.8)

TWO_LOOPS = at_least(1.7)
WITH_GIL = at_least(1.2)
TWO_PROCESSES = at_least(0.9)
BETWEEN_LOOPS = at_least(1_000_000)

BARE = "bare Python"
# The programs of which the interpreter alone takes the most.
WITH_BARE = frozenset(("counting", "throughput", "bank", "philosophers"))

Sizes = tuple[int, int]

MESSAGES: Sizes = (3_000_000, 800_000)
POURED: Sizes = (6_000_000, 1_200_000)
LIVES: Sizes = (300_000, 80_000)
PYKKA_MESSAGES: Sizes = (60_000, 15_000)
PYKKA_LIVES: Sizes = (2_000, 500)


def _row(
    row_id: str,
    work: str,
    module: str,
    program: str,
    peers: str,
    sizes: Sizes = MESSAGES,
    pykka_sizes: Sizes = PYKKA_MESSAGES,
) -> Row:
    everywhere = partial(launch_program_on_all_schedulers, program)
    bare = [Comparison(python_peer(BARE, "bare_programs", (program,), *sizes))] if program in WITH_BARE else []
    return Row(
        row_id,
        work,
        RATE,
        python_program(OURS, f"programs.{module}", (program,), *sizes),
        (
            Comparison(Program(ERLANG, partial(launch_program, program), *sizes), TARGET),
            # By the wall clock, and without a target: a loop of ours has one thread.
            Comparison(Program(f"{ERLANG}, all schedulers", everywhere, *sizes)),
            Comparison(pykka(program, *pykka_sizes, module=f"pykka_{peers}")),
            *bare,
        ),
        rounds=3,
        quick_rounds=1,
    )


def _with_gil(program: str, setting: Setting, size: int) -> list[str]:
    if setting.gil_python is None:
        raise Unavailable("needs a Python with the GIL (--gil-python PATH names one that has the compiled build)")
    return [setting.gil_python, "-m", "benchmarks.programs.loops", program, "1", "--n", str(size)]


def _loops_row(row_id: str, work: str, program: str, of_erlang: Target | None) -> Row:
    module = "programs.loops"
    everywhere = partial(launch_program_on_all_schedulers, program)
    return Row(
        row_id,
        work,
        RATE,
        python_program(OURS, module, (program, "2"), *POURED),
        (
            Comparison(python_program("one loop", module, (program, "1"), *POURED), TWO_LOOPS),
            Comparison(python_program("two processes", module, (program, "0"), *POURED), TWO_PROCESSES),
            Comparison(Program("one loop, GIL", partial(_with_gil, program), *POURED), WITH_GIL),
            Comparison(Program(f"{ERLANG}, all schedulers", everywhere, *POURED), of_erlang),
        ),
        rounds=5,
        quick_rounds=1,
    )


LOOPS: tuple[Row, ...] = (
    _loops_row("P19P", "64 ping-pong pairs, two loops", "pairs", at_least(1.0)),
    _loops_row("P19R", "100 rings of 100, two loops", "rings", None),
    Row(
        "P19M",
        "256 ping-pong pairs across two loops",
        RATE,
        python_program(OURS, "programs.loops", ("crossing", "2"), *MESSAGES),
        (
            Comparison(None, BETWEEN_LOOPS),
            Comparison(python_program("on one loop", "programs.loops", ("crossing", "1"), *MESSAGES)),
        ),
        rounds=5,
        quick_rounds=1,
    ),
    Row(
        "P19C",
        "two busy actors on two loops, over one by one",
        SHARE,
        python_program(OURS, "programs.loops", ("busy", "2"), 10_000_000, 3_000_000),
        (Comparison(None, at_most(0.6)),),
    ),
)


PROGRAMS: tuple[Row, ...] = (
    _row("P18R", "thread ring, 100 actors", "passing", "ring", "messages"),
    _row("P18A", "big: pings from all to all, 120 actors", "passing", "big", "messages"),
    _row("P18C", "chameneos, 100 creatures", "chameneos", "chameneos", "messages"),
    _row("P18P", "20 dining philosophers, an arbiter", "philosophers", "philosophers", "messages"),
    _row("P18N", "counting: one producer, one counter", "pouring", "counting", "messages", POURED),
    _row("P18T", "fork-join throughput, 60 workers", "pouring", "throughput", "messages", POURED),
    _row("P18L", "fork-join create", "lives", "create", "lives", LIVES, PYKKA_LIVES),
    _row("P18F", "Fibonacci, an actor per call", "lives", "fibonacci", "lives", LIVES, PYKKA_LIVES),
    _row("P18B", "bank, 1000 accounts", "bank", "bank", "services"),
    _row("P18D", "concurrent dictionary, 20 workers", "dictionary", "dictionary", "services"),
    _row("P18Q", "bounded buffer, 40 producers, 40 consumers", "buffer", "buffer", "services"),
    _row("P18U", "unbalanced cobwebbed tree", "tree", "tree", "lives", (1_200_000, 300_000), (10_000, 3_000)),
)
