"""A spawn that is refused says why, and leaves no trace (J4, J9, M4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, MailboxConfig, SystemStopped, props
from greenroom.errors import GreenroomError


class Greeter(Actor[Any, Any]):
    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else f"{self.greeting} {message}"


class Deaf(Actor[Any, Any]):
    """Without `receive` it could not handle any message."""


class OddHook(Actor[Any, Any]):
    def receive(self, message: Any) -> None:
        pass

    def pre_start(self, why: str) -> None:  # type: ignore[override]
        pass


class OddReceive(Actor[Any, Any]):
    def receive(self) -> None:  # type: ignore[override]
        pass


class NoActor:
    pass


def trace(system: ActorSystem) -> tuple[Any, ...]:
    """Everything that can be seen of a system from outside."""
    snapshot = system.snapshot()
    return (
        snapshot.actors,
        snapshot.spawned,
        snapshot.terminated,
        snapshot.dead_letters,
        snapshot.timers,
        snapshot.ledger,
        system.tree(),
        [ref.id for ref in system.actors()],
    )


REFUSED: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = [
    ("name_taken", Greeter, (), {"name": "taken"}),
    ("invalid_name", Greeter, (), {"name": ""}),
    ("invalid_name", Greeter, (), {"name": "a/b"}),
    ("invalid_name", Greeter, (), {"name": "a$1"}),
    ("invalid_name", Greeter, (), {"name": 5}),
    ("invalid_name", Greeter, (), {"name": b"bytes"}),
    ("config", Greeter, (), {"name": "new", "mailbox": 5}),
    ("config", Greeter, (), {"name": "new", "mailbox": {"capacity": 5}}),
    ("config", Greeter, (), {"name": "new", "mailbox": MailboxConfig}),
    ("config", Greeter, (), {"name": "new", "drain": "drop"}),
    ("config", Greeter, (), {"name": "new", "env": 5}),
    ("config", Greeter, (), {"name": "new", "env": [("a", 1)]}),
    ("unknown_dispatcher", Greeter, (), {"name": "new", "dispatcher": "nowhere"}),
    ("unknown_dispatcher", Greeter, (), {"name": "new", "dispatcher": 5}),
    ("not_an_actor", Greeter("an instance"), (), {"name": "new"}),
    ("not_an_actor", Greeter("an instance"), ("hi",), {"name": "new"}),
    ("not_an_actor", NoActor, (), {"name": "new"}),
    ("not_an_actor", NoActor(), (), {"name": "new"}),
    ("not_an_actor", int, (), {"name": "new"}),
    ("not_an_actor", None, (), {"name": "new"}),
    ("not_an_actor", 5, (), {"name": "new"}),
    ("not_an_actor", Deaf, (), {"name": "new"}),
    ("not_an_actor", Actor, (), {"name": "new"}),
    ("not_an_actor", OddHook, (), {"name": "new"}),
    ("not_an_actor", OddReceive, (), {"name": "new"}),
    ("not_an_actor", lambda message: None, (), {"name": "new"}),
    ("not_an_actor", lambda a, b, c: None, (), {"name": "new"}),
    ("not_an_actor", props(Greeter, "hi"), ("more",), {"name": "new"}),
    ("not_an_actor", props(Greeter, "hi"), (), {"name": "new", "greeting": "more"}),
    ("not_an_actor", props(Deaf), (), {"name": "new"}),
]


@pytest.mark.parametrize(("code", "factory", "args", "options"), REFUSED)
async def test_a_refused_spawn_leaves_no_trace(  # J4, M4
    system: ActorSystem, code: str, factory: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    def attempt(spawn: Any, **more: Any) -> None:
        with pytest.raises(GreenroomError) as caught:
            spawn(factory, *args, **options, **more)
        assert caught.value.code == code

    top = system.spawn(Greeter, name="taken")
    system.spawn(Greeter, name="taken", parent=top)
    await top.ask(lambda ctx: attempt(ctx.spawn))
    await system.settle()
    before = trace(system)
    attempt(system.spawn)
    attempt(system.spawn, parent=top)
    await asyncio.to_thread(attempt, system.spawn)
    assert trace(system) == before
    assert len(system.actors()) == system.snapshot().spawned == 2
    if options["name"] == "new":
        for parent in (None, top):
            assert await system.spawn(Greeter, name="new", parent=parent).ask("world") == "hello world"


async def test_an_instance_is_a_type_error_that_says_what_to_pass(system: ActorSystem) -> None:  # J9
    with pytest.raises(TypeError, match=r"spawn\(Greeter, \.\.\.\)"):
        system.spawn(Greeter("hi"))  # type: ignore[call-overload]


@pytest.mark.config(max_actors=2)
async def test_a_full_table_leaves_no_trace(system: ActorSystem) -> None:  # M4
    first = system.spawn(Greeter)
    last = system.spawn(Greeter)
    await system.settle()
    before = trace(system)
    for parent in (None, first):
        for name in (None, "new"):
            with pytest.raises(GreenroomError) as caught:
                system.spawn(Greeter, name=name, parent=parent, env={"a": 1})
            assert caught.value.code == "too_many_actors"
    assert trace(system) == before
    last.stop()
    await last.terminated()
    assert await system.spawn(Greeter, name="new", parent=first).ask("world") == "hello world"


@pytest.mark.parametrize("end", [ActorRef.stop, ActorRef.kill, lambda ref: ref.fail(ValueError())])
async def test_a_dead_actor_can_have_no_children(system: ActorSystem, end: Any) -> None:  # M4
    contexts: list[Context] = []
    parent = system.spawn(Greeter, name="parent")
    await parent.ask(contexts.append)
    end(parent)
    await parent.terminated()
    before = trace(system)
    for spawn in (lambda: system.spawn(Greeter, name="new", parent=parent), lambda: contexts[0].spawn(Greeter)):
        with pytest.raises(GreenroomError) as caught:
            spawn()
        assert caught.value.code == "actor_terminated"
    assert trace(system) == before


async def test_a_system_that_is_stopping_takes_in_nobody(system: ActorSystem) -> None:  # case 59
    codes: list[str] = []

    class Late(Actor[Any, Any]):
        def receive(self, message: Any) -> None:
            pass

        def pre_stop(self) -> None:
            for spawn in (self.ctx.spawn, self.ctx.system.spawn):
                with pytest.raises(SystemStopped) as caught:
                    spawn(Greeter)
                codes.append(caught.value.code)

    await system.spawn(Late).started()
    await system.shutdown()
    assert codes == ["system_stopped"] * 2
    assert system.snapshot().spawned == 1


async def test_a_spawn_that_was_refused_is_not_counted_among_the_actors_of_the_report(
    system: ActorSystem,
) -> None:  # M11
    system.spawn(Greeter, name="taken")
    with pytest.raises(GreenroomError):
        system.spawn(Greeter, name="taken")
    await system.shutdown()
    assert system.report is not None
    assert (system.report.started, system.report.terminated, system.report.forced) == (1, 1, ())
