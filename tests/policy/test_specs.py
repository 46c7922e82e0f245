"""What users say about supervision: the defaults, what is accepted, and what is refused by which name."""

from __future__ import annotations

import dataclasses
import math
import re
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

import pytest

from greenroom.errors import ConfigError, InvalidName
from greenroom.lanes import MailboxConfig
from greenroom.policy.backoff import Backoff
from greenroom.policy.children import AutoShutdown, ChildSpec, DynamicSpec, Restart, Shutdown, SupervisorSpec
from greenroom.policy.directives import Directive, OnRestart, Scope
from greenroom.policy.specs import Supervision

Settings = dict[str, Any]

NO_PERIODS: list[Any] = [
    *(-1, -0.001, math.inf, -math.inf, math.nan),
    *(True, False, None, "1", [1.0], Decimal(1), Fraction(1), 1j),
]
NO_LIMITS: list[Any] = [-1, 1.0, 0.5, math.inf, math.nan, True, False, "3", [3], Decimal(3)]
NO_BACKOFFS: list[Any] = [0, 0.1, "0.1", True, False, {}, (0.01, 1.0), Backoff]
NO_SCOPES: list[Any] = ["one_for_one", None, 0, Scope, Restart.PERMANENT]
NO_NAMES: list[Any] = ["", "/", "a/b", "/a", "a/", "$", "$a", "a$1", None, 1, b"a", ("a",)]


def child(name: str = "a", **settings: Any) -> ChildSpec:
    return ChildSpec(name, dict, **settings)


def significant(name: str = "a") -> ChildSpec:
    return child(name, restart=Restart.TRANSIENT, significant=True)


def refused(**fields: list[Any]) -> list[tuple[str, Settings]]:
    return [(field, {field: value}) for field, values in fields.items() for value in values]


def in_short(value: object) -> str:
    """The same text in every process: pytest-xdist compares them."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:60]


def fields_of(value: Any) -> Settings:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def test_a_plain_supervision_restarts_one_alone_three_times_a_second() -> None:  # M7
    assert fields_of(Supervision()) == {
        "strategy": Directive.RESTART,
        "scope": Scope.ONE_FOR_ONE,
        "max_restarts": 3,
        "within": 1.0,
        "on_limit": Directive.STOP,
        "backoff": Backoff(min=0.01, max=1.0, factor=2.0, jitter=0.0),
        "mailbox": OnRestart.KEEP,
    }


def test_a_plain_child_is_permanent_and_has_five_seconds_to_stop() -> None:  # J10
    assert fields_of(ChildSpec("a", dict)) == {
        "name": "a",
        "factory": dict,
        "args": (),
        "kwargs": {},
        "restart": Restart.PERMANENT,
        "shutdown": 5.0,
        "backoff": None,
        "mailbox": None,
        "significant": False,
        "dispatcher": None,
    }


def test_a_plain_supervisor_allows_three_restarts_in_five_seconds() -> None:  # J10
    assert fields_of(SupervisorSpec()) == {
        "children": (),
        "scope": Scope.ONE_FOR_ONE,
        "intensity": 3,
        "period": 5.0,
        "auto_shutdown": AutoShutdown.NEVER,
        "backoff": None,
    }


def test_a_plain_dynamic_supervisor_takes_any_number_of_children() -> None:  # J10
    template = child()
    assert fields_of(DynamicSpec(template)) == {
        "template": template,
        "intensity": 3,
        "period": 5.0,
        "backoff": None,
        "max_children": None,
    }


ACCEPTED: list[tuple[Any, Settings]] = [
    *((Supervision, {"strategy": directive}) for directive in Directive),
    (Supervision, {"strategy": lambda cause: Directive.STOP}),
    *((Supervision, {"scope": scope}) for scope in Scope),
    *((Supervision, {"max_restarts": limit}) for limit in (0, 1, 10**9, None)),
    *((Supervision, {"within": period}) for period in (0, 0.0, 1, 0.001, 1e9)),
    *((Supervision, {"on_limit": directive}) for directive in (Directive.STOP, Directive.ESCALATE)),
    *((Supervision, {"backoff": backoff}) for backoff in (Backoff(min=1.0), None)),
    *((Supervision, {"mailbox": mailbox}) for mailbox in OnRestart),
    *((child, {"name": name}) for name in ("a", "a b", "a.b", "-", "0", "ünï", "..")),
    *((child, {"restart": restart}) for restart in Restart),
    *((child, {"shutdown": shutdown}) for shutdown in (0, 0.0, 1, 2.5, *Shutdown)),
    *((child, {"backoff": backoff}) for backoff in (Backoff(), None)),
    *((child, {"mailbox": mailbox}) for mailbox in (None, MailboxConfig(capacity=3), *OnRestart)),
    *((child, {"restart": restart, "significant": True}) for restart in (Restart.TRANSIENT, Restart.TEMPORARY)),
    *((SupervisorSpec, {"scope": scope}) for scope in Scope),
    *((SupervisorSpec, {"intensity": limit, "period": 0}) for limit in (0, 1, None)),
    *((SupervisorSpec, {"auto_shutdown": when, "children": (child(),)}) for when in AutoShutdown),
    *((SupervisorSpec, {"auto_shutdown": when, "children": (significant(),)}) for when in list(AutoShutdown)[1:]),
    (SupervisorSpec, {"children": (child("a"), child("b"), child("A"))}),
    (SupervisorSpec, {"backoff": Backoff()}),
    *((DynamicSpec, {"template": child(), "max_children": limit}) for limit in (0, 1, None)),
    *((DynamicSpec, {"template": child(restart=restart), "intensity": 0, "period": 0.5}) for restart in Restart),
    (DynamicSpec, {"template": child(), "backoff": Backoff()}),
]


@pytest.mark.parametrize(("spec", "settings"), ACCEPTED, ids=in_short)
def test_what_is_said_is_what_is_kept(spec: Any, settings: Settings) -> None:  # J10, M7
    made = fields_of(spec(**settings))
    assert {name: made[name] for name in settings} == settings


@pytest.mark.parametrize(
    ("field", "settings"),
    refused(
        strategy=["restart", None, 1, [Directive.RESTART]],
        scope=NO_SCOPES,
        max_restarts=NO_LIMITS,
        within=NO_PERIODS,
        on_limit=[Directive.RESTART, Directive.RESUME, "stop", None, Shutdown.KILL, lambda cause: Directive.STOP],
        backoff=NO_BACKOFFS,
        mailbox=["keep", None, True, MailboxConfig()],
    ),
    ids=in_short,
)
def test_a_supervision_refuses_a_bad_value_by_name(field: str, settings: Settings) -> None:  # J9
    with pytest.raises(ConfigError) as caught:
        Supervision(**settings)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}=")


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        *refused(
            args=[None, 1, "ab", b"ab"],
            kwargs=[None, 1, "ab", [("a", 1)], {"a"}],
            restart=["permanent", None, True, Restart, OnRestart.KEEP],
            shutdown=[*NO_PERIODS, "kill", Shutdown, Restart.PERMANENT],
            backoff=NO_BACKOFFS,
            mailbox=[10, "keep", True, False, MailboxConfig],
            significant=[None, "yes", 2, 0.5, []],
        ),
        ("significant", {"significant": True}),
        ("significant", {"significant": True, "restart": Restart.PERMANENT}),
    ],
    ids=in_short,
)
def test_a_child_refuses_a_bad_value_by_name(field: str, settings: Settings) -> None:  # J9, J10
    with pytest.raises(ConfigError) as caught:
        child(**settings)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}=")


@pytest.mark.parametrize("number", [0, 1, 0.0, 1.0])
def test_significant_is_yes_or_no_and_not_a_number(number: Any) -> None:  # J9
    with pytest.raises(ConfigError) as caught:
        child(restart=Restart.TEMPORARY, significant=number)
    assert caught.value.field == "significant"


@pytest.mark.parametrize("name", NO_NAMES, ids=str)
def test_a_child_needs_a_name_that_can_be_in_a_path(name: Any) -> None:  # J9
    with pytest.raises(InvalidName) as caught:
        child(name)
    assert caught.value.name == name


class Role(StrEnum):
    WORKER = "worker"


def test_a_child_may_be_named_after_a_member_of_an_enum() -> None:
    with pytest.raises(ConfigError, match="worker"):
        SupervisorSpec((child(Role.WORKER), child("worker")))


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        *refused(
            children=[
                *(None, 1, child(), "ab", b"ab"),
                *([None], [child(), dict], ["a"], {"a": child()}, [("a", dict)], [ChildSpec], [SupervisorSpec()]),
            ],
            scope=NO_SCOPES,
            intensity=NO_LIMITS,
            period=NO_PERIODS,
            auto_shutdown=["never", None, True, False, AutoShutdown, Shutdown.KILL],
            backoff=NO_BACKOFFS,
        ),
        ("children", {"children": [child("a"), child("a")]}),
        ("children", {"children": [child("a"), child("b"), child("a", restart=Restart.TEMPORARY)]}),
        ("significant", {"children": [significant()]}),
        ("significant", {"children": [child("b"), significant()], "auto_shutdown": AutoShutdown.NEVER}),
    ],
    ids=in_short,
)
def test_a_supervisor_refuses_a_bad_value_by_name(field: str, settings: Settings) -> None:  # J9, J10
    with pytest.raises(ConfigError) as caught:
        SupervisorSpec(**settings)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}=")


@pytest.mark.parametrize(
    ("field", "settings"),
    refused(
        template=[None, dict, "a", [child()], SupervisorSpec(), ChildSpec, significant()],
        intensity=NO_LIMITS,
        period=NO_PERIODS,
        backoff=NO_BACKOFFS,
        max_children=NO_LIMITS,
    ),
    ids=in_short,
)
def test_a_dynamic_supervisor_refuses_a_bad_value_by_name(field: str, settings: Settings) -> None:  # J9, J10
    with pytest.raises(ConfigError) as caught:
        DynamicSpec(**{"template": child(), **settings})
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}=")


def test_a_significant_child_needs_an_end_of_its_own_and_somebody_who_cares() -> None:  # case 39
    with pytest.raises(ConfigError, match="make it transient or temporary"):
        child(significant=True)
    with pytest.raises(ConfigError, match="'lead' is significant for nothing: auto_shutdown must be ANY or ALL"):
        SupervisorSpec([significant("lead")])  # type: ignore[arg-type]


def test_two_children_of_one_name_are_named_in_the_refusal() -> None:
    with pytest.raises(ConfigError, match="'twin': two children have this name"):
        SupervisorSpec((child("single"), child("twin"), child("twin")))


def test_a_child_that_fits_is_handed_back_and_one_that_does_not_is_refused() -> None:  # case 39
    fitting, spec = child("late"), SupervisorSpec()
    assert spec.require_fit(fitting) is fitting
    assert SupervisorSpec(auto_shutdown=AutoShutdown.ANY).require_fit(significant()) == significant()
    for field, unfit in (("children", "late"), ("significant", significant())):
        with pytest.raises(ConfigError) as caught:
            spec.require_fit(unfit)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("shutdown", "seconds"), [(5.0, 5.0), (0, 0.0), (0.25, 0.25), (Shutdown.KILL, 0.0), (Shutdown.INFINITY, math.inf)]
)
def test_the_patience_with_a_child_is_in_seconds(shutdown: float | Shutdown, seconds: float) -> None:  # J10
    assert child(shutdown=shutdown).patience == seconds


def test_all_for_one_is_another_name_for_one_for_all() -> None:  # M7
    assert Supervision(scope=Scope.ALL_FOR_ONE) == Supervision(scope=Scope.ONE_FOR_ALL)
    assert SupervisorSpec(scope=Scope.ALL_FOR_ONE) == SupervisorSpec(scope=Scope.ONE_FOR_ALL)


@pytest.mark.parametrize("collect", [iter, list, tuple])
def test_children_come_in_any_iterable_and_keep_their_order(collect: Any) -> None:  # J10
    assert SupervisorSpec(collect([child("b"), child("a")])).children == (child("b"), child("a"))


def test_a_spec_keeps_what_was_said_even_if_the_list_changes_later() -> None:  # J10
    args, kwargs, children = [1, 2], {"a": 1}, [child("a")]
    made = ChildSpec("x", dict, args=args, kwargs=kwargs)  # type: ignore[arg-type]
    spec = SupervisorSpec(children)  # type: ignore[arg-type]
    args.append(3)
    kwargs["b"] = 2
    children.append(child("b"))
    assert (made.args, made.kwargs) == ((1, 2), {"a": 1})
    assert spec.children == (child("a"),)


def test_two_children_do_not_share_their_arguments() -> None:
    assert child("a").kwargs is not child("b").kwargs


@pytest.mark.parametrize(
    "spec", [Supervision(), child(), SupervisorSpec(), DynamicSpec(child())], ids=lambda spec: type(spec).__name__
)
def test_a_spec_cannot_be_changed(spec: Any) -> None:
    for name, value in fields_of(spec).items():
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(spec, name, value)


def test_a_changed_copy_is_checked_like_a_new_one() -> None:
    assert dataclasses.replace(child("a"), name="b") == child("b")
    with pytest.raises(InvalidName):
        dataclasses.replace(child("a"), name="a/b")
    with pytest.raises(ConfigError):
        dataclasses.replace(Supervision(), within=-1.0)
