"""What `help` and `inspect.signature` say of the public names, in both builds."""

import inspect
import pydoc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import greenroom
import greenroom.testing
from greenroom import ActorRef, ActorSystem, Asked, Context, Lane, Timer
from greenroom.actor.records.record import ActorRecord

POSITIONAL, ANY, KEYWORD = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
)
OPTIONS = ["name", "mailbox", "dispatcher", "supervision", "drain", "env"]


PUBLIC = {name: getattr(package, name) for package in (greenroom, greenroom.testing) for name in package.__all__}


def methods_of(kind: type) -> Iterator[tuple[str, Any]]:
    for attribute in inspect.classify_class_attrs(kind):
        ours = attribute.defining_class.__module__.startswith("greenroom.")
        if ours and not attribute.name.startswith("_") and attribute.kind.endswith("method"):
            yield attribute.name, getattr(kind, attribute.name)


@pytest.mark.parametrize("name", [name for name, found in PUBLIC.items() if callable(found)])
def test_everything_that_can_be_called_has_a_signature_and_a_docstring(name: str) -> None:
    found = PUBLIC[name]
    callables = {name: found, **(dict(methods_of(found)) if inspect.isclass(found) else {})}
    for shown, function in callables.items():
        assert str(inspect.signature(function)).startswith("("), shown
        assert inspect.getdoc(function), shown


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (ActorRef.tell, {"lane": Lane.DATA, "sender": None}),
        (ActorRef.ask, {"timeout": 5.0, "lane": Lane.DATA}),
        (ActorRef.ask_sync, {"timeout": 5.0, "lane": Lane.DATA}),
    ],
)
def test_a_ref_shows_how_it_is_told_and_asked(method: Callable[..., object], options: dict[str, object]) -> None:
    parameters = inspect.signature(method).parameters
    assert list(parameters)[:2] == ["self", "message"]
    assert parameters["message"].kind is POSITIONAL
    shown = {name: one for name, one in parameters.items() if name in options}
    assert {name: (one.kind, one.default) for name, one in shown.items()} == {
        name: (KEYWORD, default) for name, default in options.items()
    }


@pytest.mark.parametrize(("method", "more"), [(ActorSystem.spawn, ["parent"]), (Context.spawn, [])])
def test_spawn_shows_its_options(method: Callable[..., object], more: list[str]) -> None:
    parameters = inspect.signature(method).parameters
    assert {*OPTIONS, *more} <= {name for name, one in parameters.items() if one.kind is KEYWORD}
    assert "parent" in more or "parent" not in parameters
    assert parameters["factory"].kind is inspect.Parameter.POSITIONAL_ONLY
    assert parameters["args"].kind is ANY
    assert parameters["name"].default is None


def test_both_spawns_have_the_same_options() -> None:
    system, child = (
        {name for name, one in inspect.signature(spawn).parameters.items() if one.kind is KEYWORD}
        for spawn in (ActorSystem.spawn, Context.spawn)
    )
    assert system - child == {"parent"}
    assert child < system


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (ActorRef.tell, ["tell(self, ", "message", "lane", "sender", "Never blocks", ">>> "]),
        (ActorRef.ask, ["ask(self, ", "message", "timeout", "awaitable of its reply", ">>> "]),
        (ActorRef.ask_sync, ["ask_sync(self, ", "message", "timeout", "block until its reply comes", ">>> "]),
        (ActorSystem.spawn, ["spawn(self, factory", "/, *args", "dispatcher", "return its ref at once", ">>> "]),
        (Context.spawn, ["spawn(self", "/, *args", "dispatcher", "Spawn a child", ">>> "]),
        (Asked.cancel, ["cancel(self, ", "msg"]),
        (Timer.cancel, ["cancel(self"]),
    ],
)
def test_help_shows_the_arguments_the_meaning_and_an_example(function: object, shown: list[str]) -> None:
    # From 3.14 on, a long signature has a line for each argument.
    text = " ".join(pydoc.plain(pydoc.render_doc(function)).split()).replace("( ", "(")
    assert [part for part in shown if part not in text] == []


def shown_in_help(kind: type) -> set[str]:
    return {attribute.name for attribute in inspect.classify_class_attrs(kind) if not attribute.name.startswith("_")}


def test_the_help_of_a_context_shows_nothing_of_the_runtimes_record() -> None:
    internals = {name for name in dir(ActorRecord) if not name.startswith("_")}
    assert len(internals) >= 6
    assert shown_in_help(Context) & internals == set()
    assert "ActorRecord" not in pydoc.render_doc(Context)


def test_the_help_of_a_system_shows_nothing_that_only_the_runtime_calls() -> None:
    for_users = {
        *("actor", "actors", "clock", "close", "dispatchers", "fail", "ledger", "phase", "random", "report", "run"),
        *("settle", "shutdown", "snapshot", "spawn", "start", "stop", "stopped", "tree"),
    }
    for_the_runtime = {"call", "executor_for", "has_placement", "ref_of_id", "root_has_ended", "stop_timeout", "token"}
    shown = shown_in_help(ActorSystem)
    assert for_users <= shown
    assert shown & for_the_runtime == set()


def test_what_is_shown_of_systems_and_contexts_has_a_docstring() -> None:
    for kind in (ActorSystem, Context):
        assert [name for name in sorted(shown_in_help(kind)) if not inspect.getdoc(getattr(kind, name))] == []


def test_a_context_lists_what_users_may_use() -> None:
    with ActorSystem() as system:
        listed = system.spawn(lambda ctx, message: dir(ctx)).ask_sync("what?")
    assert {"spawn", "sender", "stash"} <= set(listed)
    assert {"cell", "extras", "spec"} & set(listed) == set()
