"""`Actor`: what a class may look like, when each part of it runs, and what becomes of one that raises."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    ChildTerminated,
    ExitKind,
    PostStart,
    PostStop,
    PreStart,
    PreStop,
    Signal,
    State,
    Terminated,
)
from greenroom.errors import NotAwaited
from greenroom.testing import TestProbe
from tests.actor.diaries import AsyncDiary, Child, Diary, flavours


@flavours
async def test_the_hooks_run_in_the_order_of_a_life(system: ActorSystem, diary: type[Diary]) -> None:  # M3
    notes: list[Any] = []
    ref = system.spawn(diary, notes)
    assert notes == []  # J4: nothing of the actor runs inside spawn
    assert await ref.ask("hello") == "hello"
    ref.stop()
    assert (await ref.terminated()).kind is ExitKind.NORMAL
    assert notes == ["pre_start", "post_start", "hello", "pre_stop", "post_stop"]


async def test_nothing_of_an_actor_runs_inside_spawn(system: ActorSystem) -> None:  # J4
    made: list[str] = []

    class Eager(Actor[str, None]):
        def __init__(self) -> None:
            made.append("constructor")

        def pre_start(self) -> None:
            made.append("pre_start")

        def receive(self, message: str) -> None: ...

    ref = system.spawn(Eager)
    assert made == []
    states = [ref.state]
    assert ref.is_alive
    await ref.started()
    assert made == ["constructor", "pre_start"]
    assert [*states, ref.state] == [State.CREATED, State.RUNNING]


@flavours
async def test_no_message_is_handled_before_pre_start_is_done(
    system: ActorSystem, diary: type[Diary]
) -> None:  # case 54
    notes: list[Any] = []
    ref = system.spawn(diary, notes)
    ref << 1 << 2 << 3
    await system.settle()
    assert notes == ["pre_start", "post_start", 1, 2, 3]


async def test_the_context_is_there_from_pre_start_on_and_is_the_same_all_along(system: ActorSystem) -> None:
    seen: list[Any] = []

    class Curious(Actor[str, None]):
        def pre_start(self) -> None:
            seen.append(self.ctx.self)

        def receive(self, message: str) -> None:
            seen.append(self.ctx.self)

        def post_stop(self) -> None:
            seen.append(self.ctx.self)

    ref = system.spawn(Curious)
    await ref.ask("x")
    ref.stop()
    await ref.terminated()
    assert seen == [ref, ref, ref]


@flavours
@pytest.mark.parametrize("value", ["text", None, 0, False, [], ("a", 1)])
async def test_what_receive_returns_answers_an_ask_none_too(
    system: ActorSystem, diary: type[Diary], value: Any
) -> None:
    assert await system.spawn(diary, []).ask(value) == value


async def test_a_handler_may_return_an_exception_as_a_plain_value(system: ActorSystem) -> None:
    def handler(ctx: object, message: Exception) -> Exception:
        return message

    error = ValueError("a value like any other")
    assert await system.spawn(handler).ask(error) is error


async def test_a_sync_handler_may_return_the_coroutine_of_another_method(system: ActorSystem) -> None:
    class Delegating(Actor[str, str]):
        def receive(self, message: str) -> Any:
            return self.later(message)

        async def later(self, message: str) -> str:
            await asyncio.sleep(0)
            return message.upper()

    assert await system.spawn(Delegating).ask("x") == "X"


async def test_one_message_at_a_time_though_the_handler_is_suspended(system: ActorSystem) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()
    running: list[int] = []

    class Slow(Actor[int, int]):
        async def receive(self, message: int) -> int:
            running.append(message)
            begun.set()
            await gate.wait()
            assert running.pop() == message
            return len(running)

    ref = system.spawn(Slow)
    asks = [ref.ask(number) for number in range(5)]
    await begun.wait()
    assert running == [0]
    gate.set()
    assert [await asked for asked in asks] == [0] * 5


@dataclass
class Tally(Actor[int, int]):
    """A dataclass compares by value, and so cannot be hashed; an actor it can be."""

    total: int = 0

    def receive(self, message: int) -> int:
        self.total += message
        return self.total


class Slotted(Actor[int, int]):
    __slots__ = ("total",)

    def __init__(self, total: int = 0) -> None:
        self.total = total

    def receive(self, message: int) -> int:
        self.total += message
        return self.total


class Falsy(Actor[int, int]):
    """Empty, false and not to be compared: the runtime never looks at any of that."""

    total = 0

    def receive(self, message: int) -> int:
        self.total += message
        return self.total

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        raise AssertionError("an actor is never compared")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Tally, Slotted, Falsy])
async def test_an_actor_may_be_any_kind_of_class(system: ActorSystem, kind: type[Actor[int, int]]) -> None:
    first, second = system.spawn(kind), system.spawn(kind)
    assert await first.ask(2) == 2
    assert await first.ask(3) == 5
    assert await second.ask(7) == 7  # each has a state of its own
    first.stop()
    await first.terminated()


async def test_hooks_and_handler_are_inherited_and_super_works(system: ActorSystem) -> None:
    notes: list[Any] = []

    class Grandchild(AsyncDiary):
        async def pre_start(self) -> None:
            await super().pre_start()
            self.note("more")

    assert await system.spawn(Grandchild, notes).ask("x") == "x"
    assert notes[:4] == ["pre_start", "more", "post_start", "x"]


@pytest.mark.parametrize("suspends", [False, True])
async def test_on_signal_gets_every_signal_after_its_hook(system: ActorSystem, suspends: bool) -> None:
    notes: list[Any] = []

    class Listener(Diary):
        def on_signal(self, signal: Signal) -> Any:
            return self.hear_later(signal) if suspends else self.notes.append(type(signal))

        async def hear_later(self, signal: Signal) -> None:
            await asyncio.sleep(0)
            self.notes.append(type(signal))

    ref = system.spawn(Listener, notes)
    child = await ref.ask("bear")
    await ref.ask(child)
    child.stop()
    await child.terminated()
    await system.settle()
    ref.stop()
    await ref.terminated()
    heard = [note for note in notes if note != "bear" and not isinstance(note, ActorRef)]
    assert heard[:4] == ["pre_start", PreStart, "post_start", PostStart]
    assert heard[-4:] == ["pre_stop", PreStop, "post_stop", PostStop]
    middle = heard[4:-4]
    assert sorted(middle, key=str) == sorted(
        ["on_terminated", Terminated, "on_child_terminated", ChildTerminated], key=str
    )
    assert middle.index(Terminated) == middle.index("on_terminated") + 1
    assert middle.index(ChildTerminated) == middle.index("on_child_terminated") + 1


@pytest.mark.parametrize(
    ("ending", "kind", "failed"),
    [("stop", ExitKind.NORMAL, False), ("kill", ExitKind.KILLED, False), ("fail", ExitKind.FAIL, True)],
)
async def test_a_parent_is_told_how_its_child_ended(
    system: ActorSystem, ending: str, kind: ExitKind, failed: bool
) -> None:
    error = ValueError("child")

    class Parent(Actor[str, Any]):
        def pre_start(self) -> None:
            self.child = self.ctx.spawn(Child)
            self.told: list[Any] = []

        def receive(self, message: str) -> Any:
            return self.child if message == "child" else self.told

        def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            self.told.append((ref, cause))

        def on_signal(self, signal: Signal) -> None:
            if isinstance(signal, ChildTerminated):
                self.told.append(signal.reason.kind)

    parent = system.spawn(Parent)
    child = await parent.ask("child")
    if ending == "stop":
        child.stop()
    elif ending == "kill":
        child.kill()
    else:
        child.fail(error)
    await child.terminated()
    assert await parent.ask("told") == [(child, error if failed else None), kind]
    assert parent.is_alive  # a failed child does not take its parent along


class Shown(Actor[str, None]):
    def receive(self, message: str) -> None: ...

    def inspect(self, *items: str) -> Mapping[str, Any]:
        everything = {"depth": 3, "name": self.ctx.name}
        return {item: everything[item] for item in items} if items else everything


class ShownLater(Shown):
    async def inspect(self, *items: str) -> Mapping[str, Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().inspect(*items)


@pytest.mark.parametrize("kind", [Shown, ShownLater])
async def test_inspect_shows_all_or_what_was_asked_for(system: ActorSystem, kind: type[Shown]) -> None:
    """The hooks of an actor may be `def` or `async def`."""
    ref = system.spawn(kind, name="shown")
    assert await ref.inspect() == {"depth": 3, "name": "shown"}
    assert await ref.inspect("depth") == {"depth": 3}
    with pytest.raises(KeyError, match="nothing"):
        await ref.inspect("nothing")
    assert ref.is_alive


async def test_an_actor_that_says_nothing_of_itself_shows_nothing(system: ActorSystem) -> None:
    assert await system.spawn(Child).inspect("anything") == {}
    assert await system.spawn(lambda ctx, message: None).inspect() == {}


async def test_the_hooks_are_those_of_the_instance_that_was_made(system: ActorSystem) -> None:
    heard: list[str] = []

    class Chosen(Actor[str, str]):
        def __new__(cls) -> Any:
            return object.__new__(Special)

        def receive(self, message: str) -> str:
            return message

    class Special(Chosen):
        def pre_start(self) -> None:
            heard.append("pre_start")

        def post_stop(self) -> None:
            heard.append("post_stop")

    heard.clear()
    ref = system.spawn(Chosen)
    assert await ref.ask("hello") == "hello"
    ref.stop()
    await ref.terminated()
    assert heard == ["pre_start", "post_stop"]


@flavours
@pytest.mark.parametrize("hook", ["pre_start", "post_start"])
async def test_a_start_that_raises_is_told_to_whoever_waits_for_it(  # J3, M3, case 53, case 58
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
async def test_a_stop_whose_hook_raises_goes_on_all_the_same(  # J3, case 58, M3
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
) -> None:  # J3, M3, case 58
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
async def test_a_handler_that_raises_fails_the_ask_and_ends_the_actor_without_pre_stop(  # M3, case 27, J3
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
) -> None:  # J3, M3
    ref = system.spawn(diary, [], "bad", exc)
    asked = ref.ask("bad")
    expected = type(exc) if isinstance(exc, Exception) else ActorTerminated
    with pytest.raises(expected):
        await asked
    reason = await ref.terminated()
    assert reason.kind is kind
    assert reason.cause is exc


@flavours
async def test_a_handler_that_raises_stop_iteration_fails_the_ask(
    system: ActorSystem, diary: type[Diary]
) -> None:  # J3, M3
    with pytest.raises((StopIteration, RuntimeError)):  # asyncio knows it only as a RuntimeError
        await system.spawn(diary, [], "bad", StopIteration(5)).ask("bad")


@flavours
async def test_a_stop_iteration_is_no_answer_to_an_actor_that_asked(
    system: ActorSystem, diary: type[Diary]
) -> None:  # J3, M3
    class Asker(Actor[ActorRef[Any, Any], str]):
        async def receive(self, message: ActorRef[Any, Any]) -> str:
            try:
                answer = await message.ask("bad")
            except Exception as exc:
                return type(exc).__name__
            return f"answered {answer}"

    inner = system.spawn(diary, [], "bad", StopIteration(5))
    assert await system.spawn(Asker).ask(inner) in ("StopIteration", "RuntimeError")


async def test_a_sync_handler_that_returns_an_awaitable_is_told_to_await_it(system: ActorSystem) -> None:  # J3, M3, J9
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
async def test_children_born_in_a_hook_that_raises_end_before_their_parent(  # J3, M3, M5, case 56
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


async def test_nobody_is_born_to_an_actor_that_has_no_time_left(system: ActorSystem) -> None:  # J3, M3
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
