"""Simulations as Hypothesis draws them: schedules and faults that shrink. Needs `hypothesis`.

    from hypothesis import given
    from greenroom.testing import faults
    from greenroom.testing.strategies import simulations

    @given(simulations(faults=[faults.crash("worker-*"), faults.delay(by=(0.0, 1.0))]))
    def test_nothing_is_lost(simulation):
        simulation.run(program)

A failure is reduced to as few deviations from first come, first served and as few faults as it takes. The falsifying
example is the call that runs it again, with what happened then below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from hypothesis.control import current_build_context
from hypothesis.strategies import SearchStrategy

from greenroom.errors import ConfigError
from greenroom.system.config import SystemConfig
from greenroom.testing.exploring.silencelogs import silence_logs
from greenroom.testing.faults import Fault, Stop
from greenroom.testing.simulating.simulation import Fatal, Program, Simulation
from greenroom.testing.tracing.trace import Trace

if TYPE_CHECKING:
    from hypothesis.vendor.pretty import RepresentationPrinter

__all__ = ["TraceNote", "fault_lists", "quiet_until_shown", "schedules", "simulations"]

T = TypeVar("T")
Choices = dict[int, tuple[int, int, int]]

_SEEDS = st.integers(0, 0xFFFF)
_SHOWN = 60
"""Events of a failing run that are shown."""
_GRAIN = 1000
"""Seconds are drawn in so many steps between the ends of their range: 0.25 says more than 0.2500000000000001."""


def schedules(*, steps: int = 512, deviations: int = 48) -> SearchStrategy[Choices]:
    """Schedules as `Simulation(schedule=...)` takes them: what is otherwise than first come, first served.

    There are up to `deviations`, anywhere in the first `steps`, and more of them in the first few. They shrink towards
    none at all, and each towards a single change: somebody else first, fewer messages, or a pause.
    """
    _require("steps", steps)
    _require("deviations", deviations)
    deviation = st.tuples(st.sampled_from(_spread(steps)), st.sampled_from(_CHOICES))
    few = st.lists(deviation, max_size=deviations)
    # Hypothesis makes a list long only if it must; this one shrinks into the other.
    many = st.lists(deviation, min_size=min(steps, deviations) // 3, max_size=deviations)
    return st.one_of(few, many).map(lambda drawn: dict(sorted(dict(drawn).items())))


def _spread(steps: int) -> list[int]:
    """The steps to draw from, early ones many times over: how long a program runs is not known, and most end soon.

    As many draws are among the first 8 as among the first 32, among the first 128, and among all. They are in one
    list, in rising order: a draw that depends on another, by `flatmap`, takes Hypothesis five times as long to shrink.
    """
    ends = [*(end for end in (8, 32, 128) if end < steps), steps]
    return sorted(step for end in ends for step in range(1, end + 1) for _ in range(steps // end))


def _all_choices() -> list[tuple[int, int, int]]:
    """What may be done at a step, the simplest first: one list, for a draw takes longer than a step does."""
    positions = [1, 2, 3, 4, 5, 6, 7, 15, 31, 63]
    budgets = range(1, 9)
    single = [*((position, 0, 0) for position in positions), *((0, budget, 0) for budget in budgets), (0, 0, 1)]
    several = [(position, budget, pause) for position in positions for budget in (0, 1, 2) for pause in (0, 1)]
    return single + [choice for choice in several if choice not in single]


_CHOICES = _all_choices()


def fault_lists(*declared: Fault) -> SearchStrategy[list[Fault]]:
    """Lists of these faults, in their order: each as one certain fault, or left out, and that is simplest.

    Where `at` is a pair or None, a number is drawn, small ones first; `lasting` becomes a number of seconds. `by`
    becomes a number of seconds too, or a narrower pair, for messages that are all as late keep their order. A fault
    that has still something to draw for itself gets a seed of its own, so that leaving out another changes nothing.
    """
    for fault in declared:
        if not isinstance(fault, Fault):
            raise ConfigError("declared", fault, "must be faults, as `greenroom.testing.faults` makes them")
    drawn = st.tuples(*(st.none() | _certain(fault) for fault in declared))
    return drawn.map(lambda faults: [fault for fault in faults if fault is not None])


def _certain(fault: Fault) -> SearchStrategy[Fault]:
    """`fault` with everything drawn that is left open."""
    fields: dict[str, SearchStrategy[object]] = {}
    for name in type(fault).__slots__:
        value = getattr(fault, name)
        if name == "at" and not isinstance(value, int):
            fields[name] = st.integers(1, 10) | st.integers(1, 100) if value is None else st.integers(*value)
        elif name == "lasting" and isinstance(value, tuple):
            fields[name] = _seconds(*value)
        elif name == "by" and isinstance(value, tuple):
            fields[name] = _seconds(*value) | st.tuples(st.just(value[0]), _seconds(*value))
        else:
            fields[name] = st.just(value)
    kind = type(fault)
    made = st.fixed_dictionaries(fields).map(lambda values: kind(**values))
    return st.builds(_seeded, made, _SEEDS) if _may_draw(fault) else made


def _seconds(low: float, high: float) -> SearchStrategy[float]:
    return st.integers(0, _GRAIN).map(lambda part: round(low + (high - low) * part / _GRAIN, 9))


def _seeded(fault: Fault, seed: int) -> Fault:
    return fault.with_seed(seed) if _may_draw(fault) else fault


def _may_draw(fault: Fault) -> bool:
    """Whether something is left for the fault to draw by itself."""
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
    """Simulations of `SystemConfig` `config`, each with a seed, a schedule and some of these faults.

    `steps` and `deviations` are those of `schedules`, and the faults are drawn as by `fault_lists`. What happened in a
    run is noted: Hypothesis shows it with the falsifying example.
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
    """Tells Hypothesis what happened, which shows it if the test fails."""

    def run(self, program: Program[T]) -> T:
        """As ever, with a note."""
        __tracebackhide__ = True
        try:
            with quiet_until_shown():
                return super().run(program)
        finally:
            # Not in `run_main`: the system of `run` is what the test is about, and there is one trace of it.
            if self.has_run and currently_in_test_context():
                note(TraceNote(self.trace))

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        # Else Hypothesis would show the call of this class, with every default.
        printer.text(repr(self))


def quiet_until_shown() -> AbstractContextManager[None]:
    """Keep what Greenroom logs from the root's handlers, but for the run that Hypothesis shows in the end."""
    if currently_in_test_context() and not current_build_context().is_final:
        return silence_logs()
    return nullcontext()


class TraceNote:
    """What happened in a run, for `hypothesis.note`: put into words only if it is shown."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __repr__(self) -> str:
        trace = self._trace
        return f"What happened ({trace.steps} steps, {trace.seconds:g} s of virtual time):\n{trace.tail(_SHOWN)}"


def _require(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(name, value, "must be a whole number, 1 or more")
