"""A root behavior: the first actor of a system, which ends with it (M14)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Behavior,
    Behaviors,
    Context,
    Directive,
    State,
    Supervision,
    SystemConfig,
    SystemFailed,
    props,
)
from greenroom.errors import NameTaken, NotAnActor
from greenroom.exits import ExitKind
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import report_of

if TYPE_CHECKING:
    from tests.conftest import Play


class Root(Actor[Any, Any]):
    def __init__(self, word: str = "root") -> None:
        self.word = word

    def receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return Behaviors.stopped if message == "stop" else (self.word, self.ctx.name, self.ctx.parent)


def handler(ctx: Context, message: Any) -> Any:
    return "handler", ctx.name, ctx.parent


def begin(ctx: Context) -> Behavior:
    async def answer(ctx: Context, message: Any) -> Any:
        await asyncio.sleep(0)
        return "behavior", ctx.name, ctx.parent

    return Behaviors.receive(answer)


ROOTS = [
    (Root, "root"),
    (props(Root, "props"), "props"),
    (lambda: Root("maker"), "maker"),
    (handler, "handler"),
    (Behaviors.receive(handler), "handler"),
    (Behaviors.setup(begin), "behavior"),
]


@pytest.mark.parametrize(("root", "word"), ROOTS)  # M14
def test_whatever_can_be_spawned_can_be_the_root(play: Play, root: Any, word: str) -> None:
    async def program(system: ActorSystem) -> None:
        assert system.root is not None
        assert await system.root.ask("who?") == (word, "root", None)
        assert system.root.path == "/root"
        assert system.actor("root") == system.root
        with pytest.raises(NameTaken):
            system.spawn(Root, name="root")

    play(program, root=root)


async def test_a_system_needs_no_root(system: ActorSystem) -> None:
    assert system.root is None
    ref = system.spawn(Root, name="root")  # just an actor of that name
    ref.stop()
    await ref.terminated()
    await system.settle()
    assert system.phase == "running"


def test_nothing_of_the_root_runs_before_the_system_does(play: Play) -> None:  # J4, M14
    async def main() -> None:
        started: list[str] = []

        class Eager(Actor[Any, Any]):
            def __init__(self) -> None:
                started.append("constructor")

            def receive(self, message: Any) -> None:
                started.append(message)

        system = ActorSystem(root=Eager)
        assert system.root is not None
        assert system.root.state is State.CREATED
        system.root.tell("first")
        assert started == []
        async with system:
            await system.settle()
            assert started == ["constructor", "first"]

    play.bare(main)


@pytest.mark.parametrize("root", [Root(), 5, object, Actor, lambda message: None])
def test_what_cannot_be_spawned_cannot_be_the_root(root: Any) -> None:
    with pytest.raises(NotAnActor):
        ActorSystem(root=root)


def stop_itself(root: ActorRef[Any, Any]) -> None:
    root.tell("stop")


def stop_after_queued(root: ActorRef[Any, Any]) -> None:
    root.stop(after_queued=True)


@pytest.mark.parametrize("end", [stop_itself, ActorRef.stop, stop_after_queued])
@pytest.mark.config(root=Root)
async def test_the_system_ends_when_its_root_stops(system: ActorSystem, end: Any) -> None:  # M14
    assert system.root is not None
    other = system.spawn(Root)
    end(system.root)
    await system.stopped()
    assert system.phase == "stopped"
    assert (await system.root.terminated()).kind is ExitKind.NORMAL
    assert (await other.terminated()).kind is ExitKind.SHUTDOWN
    assert report_of(system).cause is None


def test_the_system_ends_when_its_root_is_killed(play: Play) -> None:  # M14
    async def main() -> None:
        system = ActorSystem(root=Root)
        assert system.root is not None

        async def block() -> None:
            async with system:
                assert system.root is not None
                system.root.kill()
                await system.stopped()

        with suppress(SystemFailed):  # an abnormal end, and nothing says whether it was a failure
            await block()
        assert system.phase == "stopped"
        assert (await system.root.terminated()).kind is ExitKind.KILLED

    play.bare(main)


class BrokenConstructor(Root):
    def __init__(self) -> None:
        raise ZeroDivisionError


class BrokenStart(Root):
    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError


class BrokenHandler(Root):
    async def receive(self, message: Any) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError


def broken_handler(ctx: Context, message: Any) -> Behavior:
    return Behaviors.failed(ZeroDivisionError())


@pytest.mark.parametrize("root", [BrokenConstructor, BrokenStart, BrokenHandler, broken_handler])
def test_the_failure_of_the_root_is_the_failure_of_the_system(play: Play, root: Any) -> None:  # M14
    async def main() -> None:
        system = ActorSystem("demo", config=SystemConfig(supervision=Supervision(Directive.STOP)), root=root)
        other = system.spawn(Root)

        async def block() -> None:
            async with system:
                assert system.root is not None
                system.root.tell("go")
                await system.stopped()

        with pytest.raises(SystemFailed, match="demo") as caught:
            await block()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert system.root is not None
        assert (await system.root.terminated()).kind is ExitKind.FAIL
        assert not other.is_alive
        assert_ledger_balanced(system)

    play.bare(main)


def test_run_lasts_as_long_as_the_root() -> None:  # J2, M14
    def count(ctx: Context, message: int) -> Any:
        if message == 0:
            return Behaviors.stopped
        ctx.self.tell(message - 1)
        return Behaviors.same

    system = ActorSystem(root=count)
    assert system.root is not None
    system.root.tell(1000)
    system.run()
    assert system.phase == "stopped"
    assert system.ledger().handled == 1001


def test_run_raises_the_failure_of_the_root() -> None:  # J2, M14
    system = ActorSystem(root=BrokenStart)
    with pytest.raises(SystemFailed) as caught:
        system.run()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_plain_with_raises_the_failure_of_the_root_too() -> None:  # J2, M14
    system = ActorSystem(root=BrokenStart)

    def block() -> None:
        with system:
            asyncio.run(system.stopped())

    with pytest.raises(SystemFailed) as caught:
        block()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_what_the_root_spawned_ends_before_it(play: Play) -> None:  # case 56
    ended: list[str] = []

    class Leaf(Root):
        async def post_stop(self) -> None:
            await asyncio.sleep(0)
            ended.append(self.ctx.name)

    class Top(Leaf):
        def pre_start(self) -> None:
            for name in ("a", "b"):
                self.ctx.spawn(Leaf, name=name)

    async def program(system: ActorSystem) -> None:
        assert system.root is not None
        await system.root.started()
        await system.settle()
        system.root.stop()
        await system.stopped()
        assert sorted(ended[:2]) == ["a", "b"]
        assert ended[2:] == ["root"]

    play(program, root=Top)


@pytest.mark.config(root=Root)
async def test_a_shutdown_ends_the_root_like_any_other(system: ActorSystem) -> None:
    roots: list[ActorRef[Any, Any]] = []
    assert system.root is not None
    roots.append(system.root)
    await system.root.started()
    await system.shutdown()
    assert (await roots[0].terminated()).kind is ExitKind.SHUTDOWN
    assert report_of(system).cause is None
