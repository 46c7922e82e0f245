"""What is done about an exit: who is stopped and started, in which order, and when a supervisor is through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.exits import ExitKind
from greenroom.policy.children import AutoShutdown, Restart
from greenroom.policy.directives import Directive, Scope, group_of
from greenroom.policy.plan import (
    Action,
    Child,
    Forget,
    GiveUp,
    ShutDown,
    Start,
    Stop,
    plan,
    wants_restart,
)
from greenroom.policy.specs import Supervision

ONE_FOR_ONE, ONE_FOR_ALL, REST_FOR_ONE = Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE
PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY
NORMAL, SHUTDOWN, FAIL, PANIC, KILLED = ExitKind
NEVER, ANY, ALL = AutoShutdown

# The ends after which each comes back.
COMES_BACK = {
    PERMANENT: {NORMAL, SHUTDOWN, FAIL, PANIC, KILLED},
    TRANSIENT: {FAIL, PANIC, KILLED},
    TEMPORARY: set[ExitKind](),
}


@dataclass(frozen=True)
class Exit:
    """All that a plan is made of."""

    scope: Scope
    auto_shutdown: AutoShutdown
    children: tuple[Child, ...]
    exited: int
    kind: ExitKind
    within_limit: bool

    def plan(self) -> tuple[Action, ...]:
        return plan(self.scope, self.auto_shutdown, self.children, self.exited, self.kind, self.within_limit)

    @property
    def child(self) -> Child:
        return self.children[self.exited]

    @property
    def wanted(self) -> bool:
        return self.kind in COMES_BACK[self.child.restart]

    def place(self, name: str) -> int:
        return [child.name for child in self.children].index(name)

    def living(self) -> set[str]:
        """Those that are there, but for the one that has just ended."""
        return {child.name for child in self.children if child.present} - {self.child.name}

    def temporary(self) -> set[str]:
        return {child.name for child in self.children if child.restart is TEMPORARY}


def stopped(actions: tuple[Action, ...]) -> list[str]:
    return [name for action in actions if isinstance(action, Stop) for name in action.names]


def started(actions: tuple[Action, ...]) -> list[str]:
    return [name for action in actions if isinstance(action, Start) for name in action.names]


def forgotten(actions: tuple[Action, ...]) -> list[str]:
    return [action.name for action in actions if isinstance(action, Forget)]


def touched(actions: tuple[Action, ...]) -> set[str]:
    return {*stopped(actions), *started(actions), *forgotten(actions)}


def is_over(actions: tuple[Action, ...]) -> bool:
    return any(isinstance(action, GiveUp | ShutDown) for action in actions)


@st.composite
def some_children(draw: st.DrawFn, exited: int, count: int) -> tuple[Child, ...]:
    """Any that specs allow. Whoever has just ended was there until then."""
    children = []
    for number in range(count):
        restart = draw(st.sampled_from(Restart))
        present = number == exited or draw(st.booleans())
        significant = restart is not PERMANENT and draw(st.booleans())
        children.append(Child("abcdef"[number], restart, present, significant))
    return tuple(children)


@st.composite
def exits(draw: st.DrawFn) -> Exit:
    count = draw(st.integers(1, 6))
    exited = draw(st.integers(0, count - 1))
    return Exit(
        scope=draw(st.sampled_from(Scope)),
        auto_shutdown=draw(st.sampled_from(AutoShutdown)),
        children=draw(some_children(exited, count)),
        exited=exited,
        kind=draw(st.sampled_from(ExitKind)),
        within_limit=draw(st.booleans()),
    )


whatever_happens = settings(max_examples=150, deadline=None)


@pytest.mark.parametrize(("restart", "kind"), list(product(Restart, ExitKind)))
def test_a_child_comes_back_after_the_ends_that_are_its_own(restart: Restart, kind: ExitKind) -> None:  # J10, case 35
    assert wants_restart(restart, kind) is (kind in COMES_BACK[restart])


@pytest.mark.parametrize(
    ("scope", "count", "failed", "group"),
    [
        (ONE_FOR_ONE, 1, 0, [0]),
        (ONE_FOR_ONE, 4, 0, [0]),
        (ONE_FOR_ONE, 4, 2, [2]),
        (ONE_FOR_ONE, 4, 3, [3]),
        (ONE_FOR_ALL, 1, 0, [0]),
        (ONE_FOR_ALL, 4, 0, [0, 1, 2, 3]),
        (ONE_FOR_ALL, 4, 3, [0, 1, 2, 3]),
        (REST_FOR_ONE, 1, 0, [0]),
        (REST_FOR_ONE, 4, 0, [0, 1, 2, 3]),
        (REST_FOR_ONE, 4, 2, [2, 3]),
        (REST_FOR_ONE, 4, 3, [3]),
    ],
)
def test_a_scope_says_who_goes_along(scope: Scope, count: int, failed: int, group: list[int]) -> None:  # J10, M7
    assert list(group_of(scope, count, failed)) == group


def abc(restart: Restart = PERMANENT) -> list[Child]:
    return [Child(name, restart) for name in "abc"]


# Of three permanent children, what each scope does when one of them fails.
GROUPS: list[tuple[Scope, int, tuple[Action, ...]]] = [
    (ONE_FOR_ONE, 0, (Start(("a",)),)),
    (ONE_FOR_ONE, 1, (Start(("b",)),)),
    (ONE_FOR_ONE, 2, (Start(("c",)),)),
    (ONE_FOR_ALL, 0, (Stop(("c", "b")), Start(("a", "b", "c")))),
    (ONE_FOR_ALL, 1, (Stop(("c", "a")), Start(("a", "b", "c")))),
    (ONE_FOR_ALL, 2, (Stop(("b", "a")), Start(("a", "b", "c")))),
    (REST_FOR_ONE, 0, (Stop(("c", "b")), Start(("a", "b", "c")))),
    (REST_FOR_ONE, 2, (Start(("c",)),)),
]


@pytest.mark.parametrize(("scope", "exited", "actions"), GROUPS)
def test_the_siblings_in_scope_stop_in_reverse_and_start_in_order(  # J10, case 34
    scope: Scope, exited: int, actions: tuple[Action, ...]
) -> None:
    assert plan(scope, NEVER, abc(), exited, FAIL) == actions


def test_rest_for_one_leaves_those_alone_that_were_started_before() -> None:  # J10, case 33
    assert plan(REST_FOR_ONE, NEVER, abc(), 1, FAIL) == (Stop(("c",)), Start(("b", "c")))


def test_a_plan_stays_within_the_limit_unless_told_otherwise() -> None:
    assert plan(ONE_FOR_ONE, NEVER, abc(), 0, FAIL) == plan(ONE_FOR_ONE, NEVER, abc(), 0, FAIL, within_limit=True)


@pytest.mark.parametrize("scope", Scope)
def test_one_restart_too_many_stops_everybody_else_and_gives_up(scope: Scope) -> None:  # J10, case 37
    assert plan(scope, NEVER, abc(), 1, FAIL, within_limit=False) == (Stop(("c", "a")), GiveUp())
    assert plan(scope, NEVER, abc()[:1], 0, FAIL, within_limit=False) == (GiveUp(),)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("within_limit", [True, False])
@pytest.mark.parametrize("kind", [NORMAL, SHUTDOWN])
def test_an_orderly_end_of_a_transient_child_touches_nobody(  # J10, case 35
    scope: Scope, kind: ExitKind, within_limit: bool
) -> None:
    assert plan(scope, NEVER, abc(TRANSIENT), 1, kind, within_limit) == ()


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("within_limit", [True, False])
@pytest.mark.parametrize("kind", ExitKind)
def test_a_temporary_child_is_forgotten_and_nobody_goes_along(  # J10, case 35
    scope: Scope, kind: ExitKind, within_limit: bool
) -> None:
    assert plan(scope, NEVER, abc(TEMPORARY), 1, kind, within_limit) == (Forget("b"),)


def troupe(*others_left: bool) -> list[Child]:
    """A significant child, a permanent one, and other significant ones that are there or have finished."""
    others = [Child(f"other{number}", TRANSIENT, left, True) for number, left in enumerate(others_left)]
    return [Child("lead", TRANSIENT, significant=True), Child("rest", PERMANENT), *others]


@pytest.mark.parametrize(
    ("auto_shutdown", "others_left", "over"),
    [
        (NEVER, [], False),
        (NEVER, [False], False),
        (ANY, [], True),
        (ANY, [True], True),
        (ANY, [False], True),
        (ALL, [], True),
        (ALL, [True], False),
        (ALL, [False], True),
        (ALL, [False, True], False),
        (ALL, [False, False], True),
    ],
)
def test_a_supervisor_ends_with_any_or_with_the_last_of_its_significant_children(  # J10, case 39
    auto_shutdown: AutoShutdown, others_left: list[bool], over: bool
) -> None:
    actions = plan(ONE_FOR_ONE, auto_shutdown, troupe(*others_left), 0, NORMAL)
    left = [f"other{number}" for number, there in enumerate(others_left) if there]
    assert actions == ((Stop((*reversed(left), "rest")), ShutDown()) if over else ())


@pytest.mark.parametrize("auto_shutdown", AutoShutdown)
def test_a_significant_child_that_comes_back_ends_nobody(auto_shutdown: AutoShutdown) -> None:  # case 39
    assert plan(ONE_FOR_ONE, auto_shutdown, troupe(), 0, FAIL) == (Start(("lead",)),)


@pytest.mark.parametrize("auto_shutdown", AutoShutdown)
def test_a_child_that_is_not_significant_ends_nobody(auto_shutdown: AutoShutdown) -> None:  # case 39
    children = [Child("a", TRANSIENT), Child("b", TRANSIENT)]
    assert plan(ONE_FOR_ONE, auto_shutdown, children, 0, NORMAL) == ()


@pytest.mark.parametrize("kind", ExitKind)
def test_a_significant_temporary_child_is_forgotten_before_the_supervisor_ends(kind: ExitKind) -> None:  # case 39
    children = [Child("a", PERMANENT), Child("b", TEMPORARY, significant=True)]
    assert plan(ONE_FOR_ONE, ANY, children, 1, kind) == (Forget("b"), Stop(("a",)), ShutDown())


def test_a_significant_sibling_that_is_stopped_for_a_group_has_not_ended_by_itself() -> None:  # case 39
    children = [Child("a", PERMANENT), Child("b", TEMPORARY, significant=True)]
    assert plan(ONE_FOR_ALL, ALL, children, 0, FAIL) == (Stop(("b",)), Forget("b"), Start(("a",)))


@given(exits())
@whatever_happens
def test_stops_go_in_reverse_order_and_starts_in_order(exit_: Exit) -> None:  # J10, case 34
    actions = exit_.plan()
    down = [exit_.place(name) for name in stopped(actions)]
    up = [exit_.place(name) for name in started(actions)]
    assert down == sorted(set(down), reverse=True)
    assert up == sorted(set(up))


@given(exits())
@whatever_happens
def test_all_stops_come_before_all_starts_and_none_is_empty(exit_: Exit) -> None:  # J10
    actions = exit_.plan()
    assert all(action.names for action in actions if isinstance(action, Stop | Start))
    kinds = [type(action) for action in actions]
    assert kinds.count(Stop) <= 1
    assert kinds.count(Start) <= 1
    assert Start not in kinds or kinds.index(Start) == len(kinds) - 1


@given(exits())
@whatever_happens
def test_the_one_that_has_ended_is_never_stopped(exit_: Exit) -> None:  # J10
    assert exit_.child.name not in stopped(exit_.plan())


@given(exits())
@whatever_happens
def test_one_that_has_stopped_or_finished_is_never_touched(exit_: Exit) -> None:  # J10
    absent = {child.name for child in exit_.children if not child.present}
    assert not absent & touched(exit_.plan())


@given(exits())
@whatever_happens
def test_a_temporary_child_is_never_started_and_is_forgotten_when_it_has_ended(exit_: Exit) -> None:  # case 35
    actions = exit_.plan()
    assert not exit_.temporary() & set(started(actions))
    assert len(forgotten(actions)) == len(set(forgotten(actions)))
    ended = {exit_.child.name} if is_over(actions) else {exit_.child.name, *stopped(actions)}
    assert set(forgotten(actions)) == exit_.temporary() & ended


GOES_ALONG: dict[Scope, Callable[[int, int], bool]] = {
    # Whether a sibling at the first place goes along with one that ended at the second.
    ONE_FOR_ONE: lambda sibling, exited: False,
    ONE_FOR_ALL: lambda sibling, exited: True,
    REST_FOR_ONE: lambda sibling, exited: sibling > exited,
}


@given(exits())
@whatever_happens
def test_unless_it_is_over_exactly_the_living_siblings_in_scope_are_stopped(exit_: Exit) -> None:  # J10, case 33
    actions = exit_.plan()
    if is_over(actions):
        return
    goes_along = GOES_ALONG[exit_.scope]
    along = {name for name in exit_.living() if exit_.wanted and goes_along(exit_.place(name), exit_.exited)}
    assert set(stopped(actions)) == along
    assert touched(actions) <= {*along, exit_.child.name}


@given(exits())
@whatever_happens
def test_after_a_restart_all_are_back_but_the_temporary_ones(exit_: Exit) -> None:  # J10, case 35
    actions = exit_.plan()
    if is_over(actions):
        assert started(actions) == []
        return
    before = {*stopped(actions), *({exit_.child.name} if exit_.wanted else set())}
    assert set(started(actions)) == before - exit_.temporary()


@given(exits())
@whatever_happens
def test_giving_up_is_for_a_wanted_restart_beyond_the_limit(exit_: Exit) -> None:  # J10, case 37
    actions = exit_.plan()
    assert (GiveUp() in actions) is (exit_.wanted and not exit_.within_limit)


@given(exits())
@whatever_happens
def test_when_it_is_over_everybody_living_is_stopped_first(exit_: Exit) -> None:  # J10, case 37, case 39
    actions = exit_.plan()
    if not is_over(actions):
        return
    assert is_over(actions[-1:])
    assert not is_over(actions[:-1])
    assert set(stopped(actions)) == exit_.living()


@given(exits())
@whatever_happens
def test_a_supervisor_shuts_down_for_significant_children_only(exit_: Exit) -> None:  # J10, case 39
    actions = exit_.plan()
    significant = {child.name for child in exit_.children if child.significant}
    if ShutDown() not in actions:
        ended_for_good = exit_.child.significant and not exit_.wanted
        still_there = bool(significant & exit_.living())
        assert not ended_for_good or exit_.auto_shutdown is NEVER or (exit_.auto_shutdown is ALL and still_there)
        return
    assert exit_.auto_shutdown is not NEVER
    assert exit_.child.name in significant
    assert not exit_.wanted
    assert exit_.auto_shutdown is ANY or not significant & exit_.living()


@given(exits())
@whatever_happens
def test_an_end_without_a_restart_does_not_look_at_scope_or_limit(exit_: Exit) -> None:  # case 35
    if exit_.wanted:
        return
    plans = [
        replace(exit_, scope=scope, within_limit=within_limit).plan()
        for scope, within_limit in product(Scope, (True, False))
    ]
    assert plans == [exit_.plan()] * len(plans)


@given(exits())
@whatever_happens
def test_a_plan_is_the_same_for_every_abnormal_end(exit_: Exit) -> None:  # J10
    failed, panicked, killed = (replace(exit_, kind=kind).plan() for kind in (FAIL, PANIC, KILLED))
    assert failed == panicked == killed


@given(exits())
@whatever_happens
def test_a_child_that_stays_away_changes_nothing_for_the_others(exit_: Exit) -> None:  # J10
    there = tuple(child for child in exit_.children if child.present)
    without = replace(exit_, children=there, exited=there.index(exit_.child))
    assert without.plan() == exit_.plan()


@pytest.mark.parametrize("directive", Directive)
def test_a_directive_is_the_answer_to_every_failure(directive: Directive) -> None:  # M7
    supervision = Supervision(directive)
    for cause in (ValueError(), KeyError(), GeneratorExit()):
        assert supervision.directive_for(cause) is directive


def by_type(cause: BaseException) -> Directive:
    if isinstance(cause, ValueError):
        return Directive.RESUME
    return Directive.STOP if isinstance(cause, LookupError) else Directive.ESCALATE


@pytest.mark.parametrize(
    ("cause", "directive"),
    [
        (ValueError(), Directive.RESUME),
        (UnicodeError(), Directive.RESUME),
        (KeyError(), Directive.STOP),
        (OSError(), Directive.ESCALATE),
        (GeneratorExit(), Directive.ESCALATE),
    ],
)
def test_a_function_chooses_by_the_exception(cause: BaseException, directive: Directive) -> None:  # M7
    assert Supervision(by_type).directive_for(cause) is directive


def test_a_function_is_given_the_very_exception() -> None:  # M7
    given_: list[BaseException] = []

    def note(cause: BaseException) -> Directive:
        given_.append(cause)
        return Directive.STOP

    cause = ValueError("bad")
    Supervision(note).directive_for(cause)
    assert len(given_) == 1
    assert given_[0] is cause


@pytest.mark.parametrize("said", [None, "restart", True, 0, Directive, Scope.ONE_FOR_ONE], ids=str)
def test_a_function_that_returns_no_directive_is_a_type_error_that_names_it(said: object) -> None:
    def decide(cause: BaseException) -> object:
        return said

    with pytest.raises(TypeError, match="decide") as caught:
        Supervision(decide).directive_for(ValueError())  # type: ignore[arg-type]
    assert repr(said) in str(caught.value)


def test_what_a_function_raises_is_not_hidden() -> None:
    def decide(cause: BaseException) -> Directive:
        raise ZeroDivisionError from cause

    with pytest.raises(ZeroDivisionError):
        Supervision(decide).directive_for(ValueError())
