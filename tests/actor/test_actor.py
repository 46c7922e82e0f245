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
    Terminated,
)
from greenroom.errors import NotAwaited
from greenroom.testing import TestProbe
from tests.actor.diaries import AsyncDiary, Child, Diary, flavours


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
