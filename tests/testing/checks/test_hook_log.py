"""`HookLog`: which hooks of an actor were called, in their order, over all its restarts (M19)."""

from __future__ import annotations

import asyncio
from types import new_class
from typing import Any, assert_type

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Behavior,
    Behaviors,
    ChildSpec,
    Context,
    DeathPact,
    Directive,
    Supervision,
    Supervisor,
    Terminated,
    handles,
    props,
)
from greenroom.errors import BadArgument, NotAnActor
from greenroom.testing import HookCall, HookLog, assert_ended

AT_ONCE = Supervision(backoff=None)


def note(ctx: Context, message: Any) -> None:
    pass


class Worker(Actor[Any, Any]):
    """Some hooks sync, some async, some its base's, some nobody's."""

    def __init__(self, first: int, second: int = 2) -> None:
        self.sum = first + second
        self.seen: list[str] = []

    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        self.seen.append("pre_start")

    def pre_restart(self, cause: BaseException | None) -> None:
        self.cause = cause

    @handles(str)
    def on_text(self, message: str) -> Any:
        return (self.sum, self.seen, type(self).__name__)

    @handles(ValueError)
    def on_trouble(self, message: ValueError) -> None:
        raise message


async def test_hooks_are_written_down_in_their_order_over_restarts(system: ActorSystem) -> None:
    hooks = HookLog()
    ref = system.spawn(hooks.of(Worker), 1, second=4, supervision=AT_ONCE)
    await ref.started()
    hooks.assert_called("pre_start", "post_start")
    cause = ValueError("bad")
    ref.tell(cause)
    await system.settle()
    assert hooks.calls == [
        *("pre_start", "post_start"),
        *("pre_restart", "post_stop", "pre_start", "post_restart", "post_start"),
    ]
    assert hooks.records[2] == HookCall("pre_restart", ref, (cause,))
    ref.stop()
    await ref.terminated()
    assert hooks.assert_called(..., "post_start", "pre_stop", "post_stop") == hooks.records
    hooks.clear()
    hooks.assert_called()


async def test_a_class_whose_hooks_are_written_down_is_the_same_to_all_appearances(system: ActorSystem) -> None:
    hooks = HookLog()
    ref = system.spawn(hooks.of(Worker), 1, second=4)
    assert_type(hooks.of(Worker), type[Worker])
    assert_type(ref, ActorRef[Any, Any])
    assert await ref.ask("text") == (5, ["pre_start"], "Worker")
    assert ref.name == "Worker$0"
    assert system.snapshot().actors[0].kind == "Worker"
    wrapped = hooks.of(Worker)
    assert issubclass(wrapped, Worker)
    assert (wrapped.__name__, wrapped.__qualname__, wrapped.__module__, wrapped.__doc__) == (
        Worker.__name__,
        Worker.__qualname__,
        Worker.__module__,
        Worker.__doc__,
    )
    assert hooks.of(Worker) is wrapped
    assert hooks.of(wrapped) is wrapped
    assert HookLog().of(Worker) is not wrapped


async def test_the_default_of_a_hook_counts_as_called(system: ActorSystem) -> None:
    class Plain(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            raise ValueError(message)

    class Heir(Plain):
        def post_stop(self) -> None:
            pass

    def life(system: ActorSystem, kind: type[Actor[Any, Any]]) -> HookLog:
        hooks = HookLog()
        ref = system.spawn(hooks.of(kind), supervision=AT_ONCE)
        ref.tell("restart")
        return hooks

    logs = [life(system, kind) for kind in (Plain, Heir)]
    await system.settle()
    await system.shutdown()
    for hooks in logs:
        hooks.assert_called(
            *("pre_start", "post_start"),
            *("pre_restart", "post_stop", "pre_start", "post_restart", "post_start"),
            *("pre_stop", "post_stop"),
        )
        assert isinstance(hooks.records[2].arguments[0], ValueError)


class Parent(Actor[Any, Any]):
    """Has a child, and watches another."""

    def __init__(self, other: ActorRef[Any, Any]) -> None:
        self.other = other

    def pre_start(self) -> None:
        self.ctx.watch(self.other)
        self.ctx.spawn(note, name="child").stop()

    def receive(self, message: Any) -> None:
        pass


class Careful(Parent):
    async def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        await asyncio.sleep(0)


async def test_the_ends_of_others_are_written_down_and_a_death_pact_is_kept(system: ActorSystem) -> None:
    hooks = HookLog()
    other = system.spawn(note)
    careless = system.spawn(hooks.of(Parent), other)
    careful = system.spawn(hooks.of(Careful), other)
    await system.settle()
    for ref in (careless, careful):
        hooks.assert_called("pre_start", "post_start", "on_child_terminated", actor=ref)
    other.stop()
    await assert_ended(careless, DeathPact)
    hooks.assert_called(..., "on_terminated", "post_stop", actor=careless)
    await system.settle()
    assert hooks.assert_called(..., "on_terminated", actor=careful)[-1].arguments == (other, None)
    assert careful.is_alive


class Keeper(Actor[Any, Any]):
    """Hands its state on, and has opinions about signals."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    @staticmethod
    def pre_start() -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - it works, so it is to go on working
        pass

    def receive(self, message: Any) -> int:
        if isinstance(message, ActorRef):
            self.ctx.watch(message)
        self.count += 1
        return self.count

    def snapshot(self) -> int:
        return self.count

    async def restore(self, state: int) -> None:
        await asyncio.sleep(0)
        self.count = state

    def on_signal(self, signal: Any) -> Behavior | None:
        return Behaviors.same if isinstance(signal, Terminated) else None


async def test_states_that_are_handed_on_and_signals_are_let_through(system: ActorSystem) -> None:
    hooks = HookLog()
    ref = system.spawn(hooks.of(Keeper))
    assert await ref.ask("count") == 1
    ref.restart()
    assert await ref.ask("count") == 2
    hooks.assert_called(
        *("pre_start", "post_start", "pre_restart", "snapshot"),
        *("post_stop", "pre_start", "restore", "post_restart", "post_start"),
    )
    assert hooks.records[6].arguments == (1,)
    other = system.spawn(note)
    ref.tell(other)
    other.stop()
    await system.settle()
    hooks.assert_called(..., "on_terminated")
    assert ref.is_alive  # its own on_signal saw to that
    assert not hasattr(hooks.of(Keeper)(), "__dict__")


@pytest.mark.config(supervision=Supervision(Directive.STOP))
async def test_a_hook_that_raises_is_written_down_and_does_what_it_does(system: ActorSystem) -> None:
    class Broken(Actor[Any, Any]):
        async def pre_start(self) -> None:
            raise ValueError("no")

        def receive(self, message: Any) -> None:
            pass

    hooks = HookLog()
    ref = system.spawn(hooks.of(Broken))
    await assert_ended(ref, ValueError)
    hooks.assert_called("pre_start", "post_stop")


async def test_hooks_of_children_and_props_are_written_down(system: ActorSystem) -> None:
    hooks = HookLog()
    spec = Supervisor.spec(children=[ChildSpec("one", hooks.of(Worker), args=(1,))])
    system.spawn(Supervisor, spec, name="boss")
    other = system.spawn(props(hooks.of(Worker), 1, second=2))
    await other.ask("text")
    child = system.actor("/boss/one")
    assert child is not None
    await child.started()
    for ref in (child, other):
        hooks.assert_called("pre_start", "post_start", actor=ref)


async def test_other_hooks_than_the_expected_fail_and_are_told(system: ActorSystem) -> None:
    hooks = HookLog()
    ref = system.spawn(hooks.of(Worker), 1, name="worker")
    with pytest.raises(
        AssertionError, match=r"hooks of Worker expected pre_start; called were nothing .*still to come"
    ):
        hooks.assert_called("pre_start")
    await ref.started()
    with pytest.raises(AssertionError) as caught:
        hooks.assert_called("post_start", "pre_start", actor=ref)
    assert str(caught.value) == "hooks of /worker expected post_start, pre_start; called were pre_start, post_start"
    with pytest.raises(BadArgument, match="'pre_strat' is no hook that is written down: there are pre_start,"):
        hooks.assert_called("pre_strat")


async def test_a_class_that_wants_to_know_of_its_subclasses_hears_nothing(system: ActorSystem) -> None:
    registry: dict[str, type] = {}

    class Registered(Actor[Any, Any]):
        tag = ""

        def __init_subclass__(cls, *, tag: str, **options: Any) -> None:
            super().__init_subclass__(**options)
            cls.tag = tag
            registry[tag] = cls

        def receive(self, message: Any) -> str:
            return self.tag

    class Tagged(Registered, tag="one"):
        def pre_start(self) -> None:
            pass

    hooks = HookLog()
    ref = system.spawn(hooks.of(Tagged))
    assert await ref.ask("tag") == "one"
    hooks.assert_called("pre_start", "post_start")
    assert registry["one"] is Tagged
    assert hooks.of(Tagged).__bases__ == (Tagged,)
    assert hooks.of(Tagged).__mro__[1:] == Tagged.__mro__
    heir = new_class("Heir", (HookLog().of(Tagged),), {"tag": "two"})
    assert registry == {"one": Tagged, "two": heir}


def test_a_class_that_nothing_can_be_derived_from_is_told_of() -> None:
    class Jealous(type):
        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, only: bool = False) -> Any:
            if not only:
                raise TypeError("there is only one")
            return super().__new__(cls, name, bases, namespace)

    class Single(Actor[Any, Any], metaclass=Jealous, only=True):
        def receive(self, message: Any) -> None:
            pass

    with pytest.raises(BadArgument, match=r"hooks of .*Single cannot be .* Jealous raised TypeError: there is"):
        HookLog().of(Single)


@pytest.mark.parametrize("given", [note, 5, int, props(Worker, 1), Behaviors.same])
def test_only_the_hooks_of_actor_classes_are_written_down(given: Any) -> None:
    with pytest.raises(NotAnActor, match=r"HookLog\.of\(\) takes an Actor class"):
        HookLog().of(given)


def test_what_is_wrong_with_a_class_is_told_of_that_class() -> None:
    class Wrong(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

        def pre_start(self, surprise: int) -> None:  # type: ignore[override]
            pass

    with pytest.raises(NotAnActor, match=r"Wrong\.pre_start"):
        HookLog().of(Wrong)
