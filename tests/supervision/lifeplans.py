"""What actors of the model test are like and what they do, as values, and as Hypothesis draws them (R5)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, TypeVar

from hypothesis import strategies as st

from greenroom import Directive

__all__ = ["ANYBODY", "BONDED", "Act", "Letter", "Op", "Plan", "acts", "bonds", "names", "orders", "plans", "who"]

T = TypeVar("T")
Op = tuple[Any, ...]
"""A verb, the number of whom it is about, and what else it takes."""

BONDED = 6
"""Numbers from here on are for actors to whom others are bound."""
ANYBODY = 10
"""And from here on for the dead too."""


class Short:
    """Shows itself as the call that makes it, without what is as usual: falsifying examples are made of these."""

    def __repr__(self) -> str:
        values = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}  # type: ignore[arg-type]
        shown = [f"{name}={value if isinstance(value, Enum) else repr(value)}" for name, value in values.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(frozen=True, repr=False)
class Act(Short):
    """What a handler or hook does: some operations, and then it is to `"return"`, `"raise"`, `"panic"` or `"stop"`.

    `hangs`, if it is async, before that and until the gate is opened: `"weakly"` it lets itself be cancelled, `"once"`
    it returns when it is, and `"stubbornly"` it takes no notice.
    """

    do: tuple[Op, ...] = ()
    then: str = "return"
    hangs: str = ""


@dataclass(frozen=True, repr=False)
class Plan(Short):
    """What an actor is like: its supervision, and the acts of its hooks, by name and number of the instance."""

    suspends: bool = False
    """Whether all its hooks and its handler are async."""
    directive: Directive = Directive.RESTART
    limit: int | None = None
    backoff: float = 0.0
    clears: bool = False
    """Whether a restart empties its mailbox."""
    pact: bool = False
    """Whether it has no `on_terminated`, so that whomever it watches takes it along."""
    hooks: tuple[tuple[str, int, Act], ...] = ()

    def act(self, name: str, instance: int) -> Act:
        return next((act for hook, number, act in self.hooks if (hook, number) == (name, instance)), Act())


class Letter:
    """A message: what to do."""

    def __init__(self, number: int, act: Act) -> None:
        self.number = number
        self.act = act

    def __repr__(self) -> str:
        return f"<letter {self.number}: {self.act}>"


MAKING = ["watch", "watch", "note", "monitor", "monitor", "link", "link", "link", "trap"]
UNDOING = ["unwatch", "demonitor", "leave", "unlink", "untrap"]
BONDS = [*MAKING, *MAKING, *UNDOING]
ORDERS = ["restart", "restart", "fail", "fail", "stop", "finish", "kill"]
ENDS = [*["return"] * 7, "raise", "raise", "panic", "stop"]
HANGS = ["weakly", "once", "stubbornly"]
STARTING = ["init", "pre_start", "restore", "post_restart", "post_start"]
LEAVING = ["pre_restart", "snapshot", "pre_stop", "post_stop"]
PLANS = [
    Plan(suspends, directive, limit, backoff, clears, pact)
    for suspends in (False, True, True)
    for directive in (Directive.RESTART, *Directive)
    for limit in (None, None, 1, 2)
    for backoff in (0.0, 0.0, 0.6)
    for clears in (False, True)
    for pact in (False, True)
]

who = st.integers(0, 11)
names = st.sampled_from([None, "a", "b"])


# Composites, and not `map`, so that examples show the values and not how they were come by.


def _one_of(cases: list[T]) -> st.SearchStrategy[T]:
    """One draw from a long list, not several from short ones: a draw takes longer than a step of the simulation."""

    @st.composite
    def case(draw: st.DrawFn) -> T:
        return cases[draw(st.integers(0, len(cases) - 1))]

    return case()


def _ops(verbs: list[str]) -> st.SearchStrategy[Op]:
    return _one_of([(verb, number) for verb in verbs for number in range(12)])


def _acts(ops: st.SearchStrategy[Op], most: int, hangs: list[str]) -> st.SearchStrategy[Act]:
    lists = st.lists(ops, max_size=most)
    ends = _one_of([(then, hang) for then in ENDS for hang in hangs])

    @st.composite
    def act(draw: st.DrawFn) -> Act:
        return Act(tuple(draw(lists)), *draw(ends))

    return act()


@st.composite
def _plans(draw: st.DrawFn) -> Plan:
    hooks = [(*draw(hook_places), draw(hook_acts)) for _ in range(draw(st.integers(0, 2)))]
    return replace(draw(_one_of(PLANS)), hooks=tuple(hooks))


bonds = _ops(BONDS)
orders = _ops(ORDERS)
simple_ops = _ops([*BONDS, *BONDS, *ORDERS])
# A hook has its turn once in a life or so, a handler again and again: so that is how often they hang.
hook_acts = _acts(simple_ops, 2, [*[""] * 4, *HANGS])
hook_places = _one_of(
    [(name, instance) for name in [*STARTING, *LEAVING, *LEAVING, "on_terminated"] for instance in (1, 1, 2, 2, 3)]
)
plans = _plans()
tells = st.tuples(st.just("tell"), who, _acts(simple_ops, 2, [*[""] * 9, *HANGS]))
spawns = st.tuples(st.just("spawn"), plans, names)
acts = _acts(st.one_of(simple_ops, simple_ops, tells, spawns), 3, [*[""] * 9, *HANGS])
