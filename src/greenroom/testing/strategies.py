"""Hypothesis strategies for simulations: schedules and faults that shrink. Needs `hypothesis`.

    from hypothesis import given
    from greenroom.testing import faults
    from greenroom.testing.strategies import simulations

    @given(simulations(faults=[faults.crash("worker-*"), faults.delay(by=(0.0, 1.0))]))
    def test_nothing_is_lost(simulation):
        simulation.run(program)

A failure is shrunk to few deviations from first come, first served, and few faults. The falsifying example is the call
that repeats the run, followed by its trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from hypothesis.control import current_build_context
from hypothesis.strategies import SearchStrategy

from greenroom.errors import ConfigError
from greenroom.system.config import SystemConfig
from greenroom.testing.faults import Fault, Stop
from greenroom.testing.simulatedprogram import silence_logs
from greenroom.testing.simulation import Fatal, Program, Simulation
from greenroom.testing.trace import Trace
from greenroom.validation import require_whole

if TYPE_CHECKING:
    from hypothesis.vendor.pretty import RepresentationPrinter

T = TypeVar("T")
Choices = dict[int, tuple[int, int, int]]

_SEEDS = st.integers(0, 0xFFFF)
_SHOWN = 60
"""How many events of a failing run are shown."""
_GRAIN = 1000
"""Seconds are drawn on a grid of so many steps: 0.25 is easier to read than 0.2500000000000001."""


def schedules(*, steps: int = 512, deviations: int = 48) -> SearchStrategy[Choices]:
    """Schedules for `Simulation(schedule=...)`: deviations from first come, first served.

    A schedule has up to `deviations`, within the first `steps`, most of them early. It shrinks to fewer deviations,
    and each deviation to a single change: another actor first, fewer messages, or a pause.
    """
    require_whole("steps", steps, "a whole number, 1 or more", 1)
    require_whole("deviations", deviations, "a whole number, 1 or more", 1)
    deviation = st.tuples(st.sampled_from(_spread(steps)), st.sampled_from(_CHOICES))
    few = st.lists(deviation, max_size=deviations)
    # Hypothesis rarely draws long lists by itself. This strategy shrinks into the other.
    many = st.lists(deviation, min_size=min(steps, deviations) // 3, max_size=deviations)
    return st.one_of(few, many).map(lambda drawn: dict(sorted(dict(drawn).items())))


def _spread(steps: int) -> list[int]:
    """The steps to draw from, with early steps repeated: we do not know how long a program runs, and most end soon.

    The first 8, the first 32, the first 128 and all steps have the same weight. It is one sorted list because
    Hypothesis takes five times as long to shrink draws that depend on each other, by `flatmap`.
    """
    ends = [*(end for end in (8, 32, 128) if end < steps), steps]
    return sorted(step for end in ends for step in range(1, end + 1) for _ in range(steps // end))


def _all_choices() -> list[tuple[int, int, int]]:
    """All choices at a step, the simplest first. One list means one draw, and draws are slower than steps."""
    positions = [1, 2, 3, 4, 5, 6, 7, 15, 31, 63]
    budgets = range(1, 9)
    single = [*((position, 0, 0) for position in positions), *((0, budget, 0) for budget in budgets), (0, 0, 1)]
    several = [(position, budget, pause) for position in positions for budget in (0, 1, 2) for pause in (0, 1)]
    return single + [choice for choice in several if choice not in single]


_CHOICES = _all_choices()


def fault_lists(*declared: Fault) -> SearchStrategy[list[Fault]]:
    """Lists of these faults, in order: each is left out (the simplest case), or has its open values drawn.

    If `at` is a pair or None, a number is drawn; it shrinks to small ones. `lasting` becomes a number of seconds. `by`
    becomes a number of seconds or a narrower pair: messages that are all delayed by the same time keep their order. A
    fault that still draws by itself gets its own seed, so that leaving out another fault does not change it.
    """
    for fault in declared:
        if not isinstance(fault, Fault):
            raise ConfigError("declared", fault, "must be faults, as `greenroom.testing.faults` makes them")
    drawn = st.tuples(*(st.none() | _certain(fault) for fault in declared))
    return drawn.map(lambda faults: [fault for fault in faults if fault is not None])


def _certain(fault: Fault) -> SearchStrategy[Fault]:
    """`fault` with its open values drawn."""
    drawn: dict[str, SearchStrategy[Any]] = {}
    at, lasting, by = (getattr(fault, name, 1) for name in ("at", "lasting", "by"))
    if not isinstance(at, int):
        drawn["at"] = st.integers(1, 10) | st.integers(1, 100) if at is None else st.integers(*at)
    if isinstance(lasting, tuple):
        drawn["lasting"] = _seconds(*lasting)
    if isinstance(by, tuple):
        drawn["by"] = _seconds(*by) | st.tuples(st.just(by[0]), _seconds(*by))
    made = st.fixed_dictionaries(drawn).map(lambda values: replace(fault, **values))
    return st.builds(_seeded, made, _SEEDS) if _may_draw(fault) else made


def _seconds(low: float, high: float) -> SearchStrategy[float]:
    return st.integers(0, _GRAIN).map(lambda part: round(low + (high - low) * part / _GRAIN, 9))


def _seeded(fault: Fault, seed: int) -> Fault:
    return fault.with_seed(seed) if _may_draw(fault) else fault


def _may_draw(fault: Fault) -> bool:
    """Whether the fault still draws something by itself."""
    draws = fault.chance < 1.0 or isinstance(getattr(fault, "by", None), tuple) or isinstance(fault, Stop)
    return draws and fault.seed is None


def simulations(
    *,
    faults: Iterable[Fault] = (),
    config: SystemConfig | None = None,
    steps: int = 512,
    deviations: int = 48,
    max_steps: int = 1_000_000,
    fatal: Fatal = AssertionError,
) -> SearchStrategy[Simulation]:
    """Simulations with this `config`, each with a seed, a schedule and some of these faults.

    `steps` and `deviations` are as for `schedules`, and faults are drawn as by `fault_lists`. Hypothesis shows the
    trace of a failing run with the falsifying example.
    """
    return st.builds(
        _Noted,
        _SEEDS,
        schedule=schedules(steps=steps, deviations=deviations),
        faults=fault_lists(*faults),
        config=st.just(config),
        max_steps=st.just(max_steps),
        fatal=st.just(fatal),
    )


class _Noted(Simulation):
    """A simulation that notes its trace, for Hypothesis to show if the test fails."""

    def run(self, program: Program[T]) -> T:
        __tracebackhide__ = True
        try:
            with quiet_until_shown():
                return super().run(program)
        finally:
            # Only here, not in `run_main`: a test is about the system of `run`, and that has one trace.
            if self.has_run and currently_in_test_context():
                note(TraceNote(self.trace))

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        # Otherwise Hypothesis would show a call of this class with every default.
        printer.text(repr(self))


def quiet_until_shown() -> AbstractContextManager[None]:
    """Keep Greenroom's logs from the root logger's handlers, except in the run that Hypothesis shows at the end."""
    if currently_in_test_context() and not current_build_context().is_final:
        return silence_logs()
    return nullcontext()


class TraceNote:
    """A trace for `hypothesis.note`, formatted only if it is shown."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __repr__(self) -> str:
        trace = self._trace
        return f"What happened ({trace.steps} steps, {trace.seconds:g} s of virtual time):\n{trace.tail(_SHOWN)}"
