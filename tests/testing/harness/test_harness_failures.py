"""`ActorHarness`: a failure that the test has not looked at fails it, however it came about (M19)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, Directive, Supervision
from greenroom.testing import ActorHarness, capture_logs
from greenroom.testing.effects import Failed

RESUME = Supervision(Directive.RESUME)
SHARED = ValueError("the one of this module")


class Fragile(Actor[Any]):
    def receive(self, message: Any) -> None:
        if isinstance(message, BaseException):
            raise message


class SoreLoser(Fragile):
    """Raises in the hooks that nobody waits for."""

    def pre_stop(self) -> Any:
        raise ValueError("in pre_stop")

    def post_stop(self) -> Any:
        raise ValueError("in post_stop")

    def pre_restart(self, cause: BaseException | None) -> Any:
        raise ValueError("in pre_restart")


class SlowLoser(SoreLoser):
    async def pre_stop(self) -> None:
        await asyncio.sleep(0)
        super().pre_stop()

    async def post_stop(self) -> None:
        await asyncio.sleep(0)
        super().post_stop()

    async def pre_restart(self, cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        super().pre_restart(cause)


EITHER_LOSER = pytest.mark.parametrize("loser", [SoreLoser, SlowLoser])


# -- clear()


def test_a_failure_that_nobody_looked_at_survives_clearing() -> None:
    def clearing() -> None:
        with ActorHarness(Fragile, supervision=RESUME) as harness:
            harness.tell(ValueError("bad"))
            harness.clear()
            harness.tell("fine")

    with pytest.raises(AssertionError, match="on ValueError: ValueError: bad"):
        clearing()


def test_it_can_still_be_looked_at_then() -> None:
    with ActorHarness(Fragile, supervision=RESUME) as harness:
        harness.tell(ValueError("bad"))
        harness.clear()
        assert [str(failed.cause) for failed in harness.failures] == ["bad"]
        harness.clear()
        assert harness.failures == harness.effects == []


# -- hooks


@EITHER_LOSER
def test_what_a_hook_raises_that_changes_nothing_is_a_failure(loser: type[SoreLoser]) -> None:
    with capture_logs(quiet=True), ActorHarness(loser) as harness:
        harness.restart()
        assert [(failed.doing, str(failed.cause), failed.decision) for failed in harness.failures] == [
            ("in pre_restart", "in pre_restart", None),
            ("in post_stop", "in post_stop", None),
        ]
        harness.clear()
        harness.stop()
        assert [effect.doing for effect in harness.effects if isinstance(effect, Failed)] == [
            "in pre_stop",
            "in post_stop",
        ]
        assert repr(harness.failures[0]) == "<Failed in pre_stop: ValueError: in pre_stop>"


@EITHER_LOSER
def test_nobody_has_to_have_stopped_it_for_that(loser: type[SoreLoser]) -> None:
    with (
        capture_logs(quiet=True),
        pytest.raises(AssertionError, match=r"in pre_stop: ValueError: in pre_stop \(which changed nothing\); in post"),
        ActorHarness(loser) as harness,
    ):
        harness.tell("fine")
    assert [failed.doing for failed in harness.failures] == ["in pre_stop", "in post_stop"]


def test_the_decision_about_a_failure_is_not_taken_for_one_about_a_hook() -> None:
    with capture_logs(quiet=True), ActorHarness(SoreLoser, supervision=Supervision(backoff=None)) as harness:
        harness.tell(ValueError("bad"))
        assert [(failed.doing, failed.decision) for failed in harness.failures] == [
            ("on ValueError", Directive.RESTART),
            ("in pre_restart", None),
            ("in post_stop", None),
        ]
        harness.kill()
        assert [failed.doing for failed in harness.failures[3:]] == ["in post_stop"]


def test_a_hook_that_is_broken_off_has_not_failed() -> None:
    class Waits(Fragile):
        async def pre_stop(self) -> None:
            await asyncio.Event().wait()

    with capture_logs(quiet=True), ActorHarness(Waits) as harness:
        harness.stop()
        assert harness.is_suspended


# -- exceptions that are raised again


def test_an_exception_that_is_raised_again_is_another_failure() -> None:
    def by_asking(harness: ActorHarness[Any]) -> None:
        with pytest.raises(ValueError, match="the one"):
            harness.ask(SHARED)

    def by_wish(harness: ActorHarness[Any]) -> None:
        harness.fail(SHARED)

    def by_looking(harness: ActorHarness[Any]) -> None:
        harness.tell(SHARED)
        assert len(harness.failures) == 1

    def looking_once(look: Callable[[ActorHarness[Any]], None]) -> None:
        with ActorHarness(Fragile, supervision=RESUME) as harness:
            look(harness)
            harness.tell(SHARED)

    for look in (by_asking, by_wish, by_looking):
        with pytest.raises(AssertionError, match="on ValueError: ValueError: the one of this module"):
            looking_once(look)


def test_an_answer_that_is_looked_at_twice_is_one_failure() -> None:
    def careless() -> None:
        with ActorHarness(Fragile, supervision=RESUME) as harness:
            answer = harness.begin_ask(SHARED)
            harness.tell(SHARED)
            for _ in range(2):
                with pytest.raises(ValueError, match="the one"):
                    answer.result()

    with pytest.raises(AssertionError, match="has not looked at that"):
        careless()


# -- a harness that is not closed


def test_a_harness_that_is_let_go_without_closing_it_warns() -> None:
    def forget() -> None:
        harness = ActorHarness(Fragile, name="forgotten", supervision=RESUME)
        with capture_logs(quiet=True):  # a record of the failure would keep everybody alive
            harness.tell(ValueError("bad"))

    forget()
    with pytest.warns(ResourceWarning) as warned:
        gc.collect()
    (said,) = [str(one.message) for one in warned if "harness" in str(one.message).lower()]
    assert "/forgotten" in said
    assert "`with ActorHarness(...) as harness:`" in said
    assert "on ValueError: ValueError: bad" in said


@pytest.mark.filterwarnings("error::ResourceWarning", "error::pytest.PytestUnraisableExceptionWarning")
def test_one_that_was_closed_or_never_came_about_does_not() -> None:
    with ActorHarness(Fragile):
        pass
    with pytest.raises(TypeError):
        ActorHarness(42)
    gc.collect()
