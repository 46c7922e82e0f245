"""What becomes of an actor whose handler or hook raises, and of who waits for it (J3, M3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, ExitKind
from greenroom.errors import NotAwaited
from greenroom.testing import TestProbe
from tests.actor.diaries import Child, Diary, flavours


@flavours
@pytest.mark.parametrize("hook", ["pre_start", "post_start"])
async def test_a_start_that_raises_is_told_to_whoever_waits_for_it(  # case 53, case 58
    system: ActorSystem, diary: type[Diary], hook: str
) -> None:
    notes: list[Any] = []
    probe = TestProbe(system)
    ref = system.spawn(diary, notes, hook, name="unlucky")
    await probe.watch(ref)
    ref << "never handled"
    with pytest.raises(RuntimeError, match=f"from {hook}"):
        await ref.started()
    notice = await probe.expect_terminated(ref)
    assert isinstance(notice.cause, RuntimeError)
    assert notice.reason.kind is ExitKind.FAIL
    assert not ref.is_alive
    assert system.actor("unlucky") is None
    with pytest.raises(RuntimeError, match=f"from {hook}"):  # also when it is over
        await ref.started()
    assert "never handled" not in notes


@flavours
@pytest.mark.parametrize("hook", ["pre_stop", "post_stop"])
@pytest.mark.parametrize(
    "exc",
    [RuntimeError("oops"), asyncio.CancelledError("own"), GeneratorExit(), StopIteration(3), BaseException("odd")],
)
async def test_a_stop_whose_hook_raises_goes_on_all_the_same(  # case 58, M3
    system: ActorSystem, diary: type[Diary], hook: str, exc: BaseException
) -> None:
    notes: list[Any] = []
    probe = TestProbe(system)
    ref = system.spawn(diary, notes, hook, exc, name="unlucky")
    await probe.watch(ref)
    await ref.started()
    ref.stop()
    await probe.expect_terminated(ref)
    assert not ref.is_alive
    assert system.actor("unlucky") is None
    system.spawn(Child, name="unlucky")
    assert notes[-2:] == ["pre_stop", "post_stop"]


@flavours
@pytest.mark.parametrize("hook", ["on_terminated", "on_child_terminated"])
async def test_a_notice_whose_hook_raises_fails_the_actor(
    system: ActorSystem, diary: type[Diary], hook: str
) -> None:  # case 58
    notes: list[Any] = []
    probe = TestProbe(system)
    ref = system.spawn(diary, notes, hook)
    await probe.watch(ref)
    child = await ref.ask("bear")
    await ref.ask(child)
    child.stop()
    notice = await probe.expect_terminated(ref)
    assert isinstance(notice.cause, RuntimeError)
    assert str(notice.cause) == f"from {hook}"
    assert "pre_stop" not in notes
    assert notes[-1] == "post_stop"


@flavours
async def test_a_handler_that_raises_fails_the_ask_and_ends_the_actor_without_pre_stop(  # case 27, J3
    system: ActorSystem, diary: type[Diary]
) -> None:
    notes: list[Any] = []
    error = LookupError("broken")
    probe = TestProbe(system)
    ref = system.spawn(diary, notes, "bad", error)
    await probe.watch(ref)
    with pytest.raises(LookupError) as caught:
        await ref.ask("bad")
    assert caught.value is error
    notice = await probe.expect_terminated(ref)
    assert notice.cause is error
    assert notice.reason.kind is ExitKind.FAIL
    assert notes == ["pre_start", "post_start", "bad", "post_stop"]


class Odd(BaseException):
    """Nothing a handler is meant to raise."""


@flavours
@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        (ValueError("x"), ExitKind.FAIL),
        (asyncio.CancelledError(), ExitKind.FAIL),  # one that nobody asked for
        (Odd("x"), ExitKind.PANIC),
        (GeneratorExit(), ExitKind.PANIC),
    ],
)
async def test_what_a_handler_raises_decides_the_kind_of_its_end(
    system: ActorSystem, diary: type[Diary], exc: BaseException, kind: ExitKind
) -> None:
    ref = system.spawn(diary, [], "bad", exc)
    asked = ref.ask("bad")
    expected = type(exc) if isinstance(exc, Exception) else ActorTerminated
    with pytest.raises(expected):
        await asked
    reason = await ref.terminated()
    assert reason.kind is kind
    assert reason.cause is exc


@flavours
async def test_a_handler_that_raises_stop_iteration_fails_the_ask(system: ActorSystem, diary: type[Diary]) -> None:
    with pytest.raises((StopIteration, RuntimeError)):  # asyncio knows it only as a RuntimeError
        await system.spawn(diary, [], "bad", StopIteration(5)).ask("bad")


@flavours
async def test_a_stop_iteration_is_no_answer_to_an_actor_that_asked(system: ActorSystem, diary: type[Diary]) -> None:
    class Asker(Actor[ActorRef[Any, Any], str]):
        async def receive(self, message: ActorRef[Any, Any]) -> str:
            try:
                answer = await message.ask("bad")
            except Exception as exc:
                return type(exc).__name__
            return f"answered {answer}"

    inner = system.spawn(diary, [], "bad", StopIteration(5))
    assert await system.spawn(Asker).ask(inner) in ("StopIteration", "RuntimeError")


async def test_a_sync_handler_that_returns_an_awaitable_is_told_to_await_it(system: ActorSystem) -> None:  # J9
    class Forgetful(Actor[str, Any]):
        def receive(self, message: str) -> Any:
            return asyncio.get_running_loop().create_future()

    ref = system.spawn(Forgetful, name="forgetful")
    with pytest.raises(NotAwaited) as caught:
        await ref.ask("x")
    assert caught.value.code == "not_awaited"
    assert "/forgetful" in str(caught.value)
    assert "async def" in str(caught.value)
    assert "await" in str(caught.value)


@flavours
@pytest.mark.parametrize("hook", ["pre_start", "post_start", "pre_stop"])
async def test_children_born_in_a_hook_that_raises_end_before_their_parent(  # M5, case 56
    system: ActorSystem, diary: type[Diary], hook: str
) -> None:
    ends: list[str] = []

    class Small(Child):
        def post_stop(self) -> None:
            ends.append("child")

    class Bearing(diary):  # type: ignore[misc, valid-type]
        def note(self, what: Any) -> Any:
            if what == hook:
                self.ctx.spawn(Small)
            elif what == "post_stop":
                ends.append("parent")
                assert self.ctx.children == []
            return super().note(what)

    ref: ActorRef[Any, Any] = system.spawn(Bearing, [], hook)
    ref.stop()
    await ref.terminated()
    assert system.actors() == []
    assert ends == ["child", "parent"]


async def test_nobody_is_born_to_an_actor_that_has_no_time_left(system: ActorSystem) -> None:
    """In `post_stop` the children have ended: one more could not end before its parent (M5)."""
    caught: list[Exception] = []

    class Late(Diary):
        def post_stop(self) -> None:
            try:
                self.ctx.spawn(Child)
            except Exception as exc:
                caught.append(exc)

    ref = system.spawn(Late, [], name="late")
    await ref.started()
    ref.stop()
    await ref.terminated()
    assert system.actors() == []
    (error,) = caught
    assert isinstance(error, ActorTerminated)
    assert (error.code, error.ref) == ("actor_terminated", ref)
    caught.clear()
