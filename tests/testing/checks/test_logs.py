"""`capture_logs`: what Greenroom and its actors log, for a test to look at (M19)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorSystem, Context
from greenroom.errors import BadArgument
from greenroom.testing import CapturedLogs, capture_logs

if TYPE_CHECKING:
    from tests.conftest import Play

TOP = logging.getLogger("greenroom")
BELOW = logging.getLogger("greenroom.actor")


def say(ctx: Context, message: Any) -> None:
    ctx.log.log(message[0], *message[1:])


class Reluctant(Actor[Any, Any]):
    def receive(self, message: Any) -> None:
        pass

    def pre_stop(self) -> None:
        raise ValueError("not yet")


class Listener(logging.Handler):
    """Somebody else who listens."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


@pytest.fixture
def root_listener() -> Iterator[Listener]:
    listener = Listener()
    logging.root.addHandler(listener)
    yield listener
    logging.root.removeHandler(listener)


def logged(*lines: tuple[int, str]) -> CapturedLogs:
    with capture_logs() as logs:
        for level, text in lines:
            TOP.log(level, text)
    return logs


# -- capturing


def test_what_actors_and_the_runtime_log_is_captured_at_any_level(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(say, name="worker")
        ref.tell((logging.DEBUG, "%s of %s", 1, 2))
        ref.stop(after_queued=True)
        await ref.terminated()
        ref.tell("too late")
        assert logs.messages[0] == "/worker: 1 of 2"
        record = logs.records[0]
        assert (record.levelname, record.__dict__["actor"], record.__dict__["system"]) == ("DEBUG", "/worker", "test")

    with capture_logs() as logs:
        play(program)
    assert logs.messages[1].startswith("dead letter: str from outside to /worker: stopped")
    assert logs.messages[2].startswith("test has stopped: 1 actor started")
    assert [record.name for record in logs.records] == ["greenroom.actor", "greenroom.dead_letters", "greenroom"]
    TOP.critical("not captured any more")
    assert len(logs.messages) == 3


def test_texts_are_as_they_were_when_they_were_logged() -> None:
    with capture_logs(quiet=True) as logs:  # pytest's own handler would raise
        things = ["a"]
        TOP.info("%s", things)
        things.append("b")
        TOP.info("%s and %s", "one")
    assert logs.messages[0] == "['a']"
    assert logs.messages[1].startswith("%s and %s (its arguments ('one',) do not fit: ")


def test_a_capture_can_be_cleared() -> None:
    with capture_logs() as logs:
        TOP.info("before")
        logs.clear()
        TOP.info("after")
    assert logs.messages == ["after"]
    assert len(logs.records) == 1


def test_others_still_hear_unless_it_is_quiet(root_listener: Listener) -> None:
    own = Listener()
    TOP.addHandler(own)
    try:
        with capture_logs():
            TOP.debug("for all")
        with capture_logs(quiet=True) as logs:
            TOP.critical("for the test")
            BELOW.critical("for the test too")
        TOP.critical("after")
    finally:
        TOP.removeHandler(own)
    assert own.heard == root_listener.heard == ["for all", "after"]
    assert logs.messages == ["for the test", "for the test too"]


def test_the_handlers_of_loggers_below_are_quiet_too() -> None:
    own = Listener()
    BELOW.addHandler(own)
    try:
        with capture_logs(quiet=True) as logs:
            BELOW.critical("for the test")
        assert own.heard == []
        with capture_logs():
            BELOW.info("for all")
        assert own.heard == ["for all"]
    finally:
        BELOW.removeHandler(own)
    assert logs.messages == ["for the test"]
    assert own.filters == []


def test_who_also_listens_to_others_still_hears_those(root_listener: Listener) -> None:
    TOP.addHandler(root_listener)
    try:
        with capture_logs(quiet=True):
            TOP.critical("for the test")
            logging.getLogger("greenroomy").critical("from elsewhere")
    finally:
        TOP.removeHandler(root_listener)
    assert root_listener.heard == ["from elsewhere"]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_handler_that_a_test_adds_or_takes_out_meanwhile_is_its_own_affair(quiet: bool) -> None:
    added, removed = Listener(), Listener()
    TOP.addHandler(removed)
    try:
        with capture_logs(quiet=quiet):
            TOP.addHandler(added)
            TOP.removeHandler(removed)
            TOP.info("inside")
        TOP.critical("after")
        assert added in TOP.handlers
        assert removed not in TOP.handlers
        assert added.heard == ["inside", "after"]
    finally:
        TOP.removeHandler(added)


def test_logging_that_is_disabled_altogether_is_captured_all_the_same() -> None:
    logging.disable(logging.CRITICAL)
    try:
        with capture_logs(quiet=True) as outer, capture_logs(quiet=True) as inner:
            BELOW.error("heard")
        assert logging.root.manager.disable == logging.CRITICAL
        TOP.critical("not captured")
    finally:
        logging.disable(logging.NOTSET)
    assert (outer.messages, inner.messages) == ([], ["heard"])


@pytest.mark.parametrize("quiet", [(False, False), (True, False), (False, True), (True, True)])
def test_captures_may_overlap(quiet: tuple[bool, bool], root_listener: Listener) -> None:
    first, second = capture_logs(quiet=quiet[0]), capture_logs(quiet=quiet[1])
    handlers = list(TOP.handlers)
    TOP.setLevel(logging.ERROR)
    BELOW.setLevel(logging.CRITICAL)
    try:
        early = first.__enter__()
        BELOW.debug("first")
        late = second.__enter__()
        new = logging.getLogger("greenroom.testing.new")
        first.__exit__(None, None, None)
        BELOW.debug("second")
        new.debug("new")
        second.__exit__(None, None, None)
        BELOW.debug("after")
        assert early.messages == ["first"]
        assert late.messages == ["second", "new"]
        heard = [*([] if quiet[0] else ["first"]), *([] if quiet[1] else ["second", "new"])]
        assert root_listener.heard == heard
        assert TOP.handlers == handlers
        assert (TOP.level, TOP.propagate, BELOW.level) == (logging.ERROR, True, logging.CRITICAL)
    finally:
        TOP.setLevel(logging.NOTSET)
        BELOW.setLevel(logging.NOTSET)


def test_what_is_set_up_within_a_capture_is_put_back_by_the_one_inside() -> None:
    with capture_logs(quiet=True) as outer:
        TOP.setLevel(logging.ERROR)
        with capture_logs() as inner:
            TOP.info("inner")
        TOP.info("too low")
        assert not TOP.propagate
    assert (outer.messages, inner.messages) == (["inner"], ["inner"])


def test_captures_can_stand_in_one_another() -> None:
    with capture_logs() as outer:
        with capture_logs() as inner:
            TOP.debug("both")
        with capture_logs(quiet=True) as quiet:
            TOP.debug("one")
        TOP.debug("the outer")
    assert (outer.messages, inner.messages, quiet.messages) == (["both", "the outer"], ["both"], ["one"])


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_put_back(quiet: bool, fails: bool) -> None:
    handler = Listener()
    TOP.addHandler(handler)
    before = [(logger.level, logger.propagate, logger.disabled, list(logger.handlers)) for logger in (TOP, BELOW)]
    TOP.setLevel(logging.ERROR)
    BELOW.setLevel(logging.CRITICAL)
    BELOW.propagate = False
    BELOW.disabled = True
    try:
        with pytest.raises(KeyError) if fails else nullcontext(), capture_logs(quiet=quiet) as logs:
            BELOW.debug("heard all the same")
            TOP.setLevel(logging.INFO)
            if fails:
                raise KeyError
        assert logs.messages == ["heard all the same"]
        assert (TOP.level, TOP.propagate, TOP.disabled) == (logging.ERROR, True, False)
        assert TOP.handlers == before[0][3]
        assert (BELOW.level, BELOW.propagate, BELOW.disabled) == (logging.CRITICAL, False, True)
    finally:
        TOP.removeHandler(handler)
        for logger, (level, propagate, disabled, _) in zip((TOP, BELOW), before, strict=True):
            logger.setLevel(level)
            logger.propagate = propagate
            logger.disabled = disabled


# -- asserting


def test_what_was_logged_is_found_by_its_text_and_level() -> None:
    logs = logged((logging.INFO, "tea is ready"), (logging.ERROR, "tea is cold"))
    assert logs.assert_logged() is logs.records[0]
    assert logs.assert_logged("is (ready|hot)").levelname == "INFO"
    assert logs.assert_logged("^tea", level=logging.ERROR).getMessage() == "tea is cold"
    assert logs.assert_logged(re.compile("COLD", re.IGNORECASE), level="warning").levelname == "ERROR"


def test_what_was_not_logged_fails_and_tells_what_was() -> None:
    logs = logged((logging.INFO, "tea is ready"), (logging.ERROR, "tea is cold"))
    with pytest.raises(AssertionError) as caught:
        logs.assert_logged("ready", level="ERROR", actor="/cook")
    assert str(caught.value) == (
        "nothing was logged like 'ready' at ERROR or above about /cook; what was:\n"
        "  INFO tea is ready\n"
        "  ERROR tea is cold"
    )
    with pytest.raises(AssertionError, match="at NOTSET or above; what was: nothing"):
        logged().assert_logged()


def test_only_the_last_of_many_records_are_told() -> None:
    logs = logged(*[(logging.INFO, f"line {number}") for number in range(50)])
    with pytest.raises(AssertionError) as caught:
        logs.assert_logged("nothing such")
    assert "... 30 before" in str(caught.value)
    assert "INFO line 30\n" in str(caught.value)
    assert "line 29" not in str(caught.value)


def test_that_nothing_serious_was_logged_is_checked() -> None:
    logs = logged((logging.INFO, "tea is ready"), (logging.WARNING, "tea is cold"))
    logs.assert_none(level=logging.ERROR)
    logs.assert_none("coffee", level="INFO")
    logs.assert_none(actor="/cook")
    for check in (
        lambda: logs.assert_none(),
        lambda: logs.assert_none(level="WARNING"),
        lambda: logs.assert_none("cold", level="DEBUG"),
    ):
        with pytest.raises(
            AssertionError, match=r"nothing should have been logged .* there was:\n  WARNING tea is cold$"
        ):
            check()
    logged((logging.INFO, "tea is ready")).assert_none()


@pytest.mark.parametrize("level", ["loud", ""])
def test_what_is_no_level_is_refused(level: str) -> None:
    with pytest.raises(BadArgument, match="is no level of logging: there are"):
        logged().assert_none(level=level)


def test_records_are_found_by_the_actor_they_are_about(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        one, other = system.spawn(say, name="one"), system.spawn(say, name="other")
        one.tell((logging.INFO, "about /other, by one"))
        other.tell((logging.INFO, "by other"))
        one.tell("breaks")
        await system.settle()
        async with ActorSystem("second") as second:
            double = second.spawn(say, name="one")
            double.tell((logging.INFO, "by its double"))
            await second.settle()
        with pytest.raises(AssertionError):
            logs.assert_logged("by its double", actor=one)
        logs.assert_logged("by its double", actor=double)
        logs.assert_logged("by its double", actor="/one")
        logs.assert_logged("by one", actor=one)
        logs.assert_none("by one", level="DEBUG", actor=other)
        logs.assert_logged("^/other: by other", actor=other)
        assert logs.assert_logged("failed on str", level="ERROR", actor=one).exc_info is not None
        logs.assert_none(actor=other)

    with capture_logs(quiet=True) as logs:
        play(program)


@pytest.mark.parametrize(
    "text",
    [
        "/cook is on fire",
        "on fire: /cook",
        "it was /cook. Nobody else was near",
        "who was it? /cook...",
        "/cook: on fire",
        "/cook's kitchen, or that of (/waiter, /cook)",
        "'/cook' - or who?",
        "actor:/cook",
        "/cook-soup told /cook",
    ],
)
def test_records_without_fields_are_found_by_the_path_in_their_text(text: str) -> None:
    logs = logged((logging.ERROR, text))
    logs.assert_logged(actor="/cook")
    with pytest.raises(AssertionError):
        logs.assert_none(actor="/cook")


@pytest.mark.parametrize(
    "text",
    [
        "/cook-soup is on fire",
        "/cook.2 is on fire",
        "it was /cook.2.",
        "/cook..2",
        "/cook$4",
        "/cook:2 and /cook@home",
        "/cook/soup",
        "/kitchen/cook",
        "/kitchen-/cook and /kitchen./cook",
        "/cooks",
        "/Cook",
        "cook",
    ],
)
def test_records_without_fields_about_another_are_not_taken_for_ones_own(text: str) -> None:
    logs = logged((logging.ERROR, text))
    logs.assert_none(actor="/cook")
    with pytest.raises(AssertionError):
        logs.assert_logged(actor="/cook")


def test_records_of_the_runtime_are_found_by_their_actor(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        refs = [system.spawn(Reluctant, name=name) for name in ("a", "b", "a.b-c", "a b")]
        await system.settle()
        for ref in refs[2:]:
            ref.stop()
            await ref.terminated()
            ref.tell("too late")
            logs.assert_logged("pre_stop .* raised", actor=ref)
            logs.assert_logged("dead letter: str from outside to", actor=ref)
        for ref in refs[:2]:
            logs.assert_none(actor=ref, level="DEBUG")
        logs.assert_none(actor="/a/b")
        logs.clear()
        child = system.spawn(Reluctant, name="b", parent=refs[0])
        child.stop()
        await child.terminated()
        logs.assert_logged("pre_stop .* raised", actor=child)
        for ref in refs:
            logs.assert_none(actor=ref)

    with capture_logs(quiet=True) as logs:
        play(program)
