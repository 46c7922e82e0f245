"""A constructor that fails says where its actor was spawned, and what did not fit (M4)."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import weakref
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    ChildSpec,
    Directive,
    Supervision,
    Supervisor,
    SystemConfig,
    SystemFailed,
    props,
)
from tests.culprits import Culprit, Picky, Unmakeable, frames_of

pytestmark = pytest.mark.anyio
Caplog = pytest.LogCaptureFixture
STOP = SystemConfig(supervision=Supervision(Directive.STOP))
PLACES = pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned", "process"])


def here(after: int = 1) -> str:
    """How a traceback names a line of the caller's, so many after this one."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    caller = frame.f_back
    return f'File "{caller.f_code.co_filename}", line {caller.f_lineno + after}, in {caller.f_code.co_name}'


def notes_of(exc: BaseException) -> str:
    return "\n".join(getattr(exc, "__notes__", ()))


def logged(caplog: Caplog) -> str:
    """All that was logged of errors, as it would be printed."""
    return "\n".join(logging.Formatter().format(one) for one in caplog.records if one.levelno >= logging.ERROR)


async def failed_start(ref: ActorRef[Any, Any]) -> BaseException:
    with pytest.raises(Exception) as caught:
        await asyncio.wait_for(ref.started(), 120)
    return caught.value


@PLACES
async def test_a_constructor_that_raises_names_the_line_of_its_spawn(dispatcher: str, caplog: Caplog) -> None:
    async with ActorSystem(config=STOP) as system:
        line = here()
        ref = system.spawn(Unmakeable, dispatcher=dispatcher)
        cause = await failed_start(ref)
        assert isinstance(cause, ValueError)
        assert line in notes_of(cause)
        assert "ref = system.spawn(Unmakeable, dispatcher=dispatcher)" in notes_of(cause)
        with pytest.raises(ActorTerminated) as late:
            await ref.ask("too late")
        assert line in notes_of(late.value)
        assert logged(caplog).count(line) == 1


@PLACES
async def test_arguments_that_do_not_fit_are_shown_with_the_constructor(dispatcher: str, caplog: Caplog) -> None:
    async with ActorSystem(config=STOP) as system:
        line = here()
        ref = system.spawn(Picky, "one", lable="x", dispatcher=dispatcher)
        cause = await failed_start(ref)
        assert isinstance(cause, TypeError)
        for part in ("Picky(count: ", "label: ", "Picky('one', lable='x')", line):
            assert part in notes_of(cause)
            assert part in logged(caplog)
        assert "visits.py" not in logged(caplog)
        if dispatcher != "process":
            assert "Traceback" not in logged(caplog)


async def test_a_type_error_inside_a_constructor_is_no_misfit() -> None:
    class Careless(Culprit):
        def __init__(self, count: int) -> None:
            self.total = count + "1"  # type: ignore[operator]

    async with ActorSystem(config=STOP) as system:
        cause = await failed_start(system.spawn(Careless, 1))
        assert frames_of(cause)[-1] == "__init__"
        assert "its constructor is" not in notes_of(cause)


class Spawns(Actor[Any, Any]):
    line = ""

    def receive(self, message: Any) -> Any:
        Spawns.line = here()
        return self.ctx.spawn(message)


class AsyncSpawns(Spawns):
    async def receive(self, message: Any) -> Any:
        Spawns.line = here()
        return self.ctx.spawn(message)


@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned"])
@pytest.mark.parametrize("parent", [Spawns, AsyncSpawns])
async def test_an_actor_that_spawns_is_named_by_its_own_line(dispatcher: str, parent: type[Spawns]) -> None:
    async with ActorSystem(config=STOP) as system:
        child = await system.spawn(parent, dispatcher=dispatcher).ask(Unmakeable, timeout=120)
        assert Spawns.line in notes_of(await failed_start(child))


def test_a_thread_that_spawns_is_named_by_its_own_line(caplog: Caplog) -> None:
    with ActorSystem(config=STOP) as system:
        line = here()
        ref = system.spawn(props(Unmakeable))
        with pytest.raises(ActorTerminated) as late:
            ref.ask_sync("too late", timeout=120)
        assert line in notes_of(late.value)
    assert line in logged(caplog)


async def test_every_attempt_names_the_line() -> None:
    twice = Supervision(max_restarts=1, backoff=None)
    async with ActorSystem() as system:
        line = here()
        ref = system.spawn(Unmakeable, supervision=twice)
        reason = await ref.terminated()
        assert reason.cause is not None
        assert line in notes_of(reason.cause)


async def test_a_supervisors_child_names_no_line_of_the_runtime(caplog: Caplog) -> None:
    spec = Supervisor.spec(children=[ChildSpec("child", Unmakeable)], intensity=0)
    async with ActorSystem(config=STOP) as system:
        await system.spawn(Supervisor, spec).terminated()
    assert "in go_wrong" in logged(caplog)
    assert "spawned" not in logged(caplog)


async def test_one_that_started_and_fails_later_names_no_spawn(caplog: Caplog) -> None:
    async with ActorSystem(config=STOP) as system:
        ref = system.spawn(Culprit)
        await ref.started()
        ref.tell("later")
        await ref.terminated()
    assert "in go_wrong" in logged(caplog)
    assert "spawned" not in logged(caplog)


async def test_a_spawn_keeps_nothing_of_its_caller_alive() -> None:
    class Local:
        """Something in the caller's frame."""

    async with ActorSystem(config=STOP) as system:

        def spawn() -> tuple[weakref.ref[Local], ActorRef[Any, Any]]:
            mine = Local()
            return weakref.ref(mine), system.spawn(Culprit)

        kept, ref = spawn()
        gc.collect()
        assert kept() is None
        await ref.started()


async def test_a_class_that_was_made_with_arguments_names_the_line_that_left_them_out() -> None:
    async with ActorSystem(config=STOP) as system:
        await system.spawn(Picky, 1).started()
        line = here()
        ref = system.spawn(Picky)  # type: ignore[arg-type]
        assert line in notes_of(await failed_start(ref))


class Named(Actor[str, str]):
    """Takes something that spawn takes too."""

    def __init__(self, name: str = "world", env: str = "production") -> None:
        self.words = f"{name} in {env}"

    def receive(self, message: str) -> str:
        return f"{message} {self.words}"


class Needy(Actor[str, str]):
    """Needs something that spawn takes too."""

    def __init__(self, name: str) -> None:
        self.name = name

    def receive(self, message: str) -> str:
        return f"{message} {self.name}"


class Greedy(Actor[str, str]):
    """Takes whatever it is given, but not what spawn takes."""

    def __init__(self, name: str = "world", /, *mailbox: str, **env: str) -> None:
        self.name = name

    def receive(self, message: str) -> str:
        return f"{message} {self.name}"


def warnings_of(caplog: Caplog) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


async def test_an_option_that_the_constructor_takes_too_is_told_once(caplog: Caplog) -> None:
    class Pet(Named):
        pass

    async with ActorSystem() as system:
        by_position = system.spawn(Pet, "Ada", "tests", name="one")
        by_props = system.spawn(props(Pet, name="Grace"), name="two")
        neither = system.spawn(props(Pet), name="three")
        greedy = system.spawn(Greedy, name="four", env={})
        assert [one.name for one in (by_position, by_props, neither)] == ["one", "two", "three"]
        assert await by_position.ask("hello") == "hello Ada in tests"
        assert await by_props.ask("hello") == "hello Grace in production"
        assert await neither.ask("hello") == "hello world in production"
        assert await greedy.ask("hello") == "hello world"
        assert warnings_of(caplog) == []
        for name in ("five", "six"):
            doubtful = system.spawn(Pet, name=name)
            assert await doubtful.ask("hello") == "hello world in production"
            assert doubtful.name == name
    [line] = warnings_of(caplog)
    assert "both spawn and the constructor of Pet take `name`, and this one is for spawn" in line
    assert "spawn(props(Pet, name=...)) to give it to the constructor" in line


async def test_a_context_tells_too_and_a_root_need_not(caplog: Caplog) -> None:
    class Pet(Named):
        pass

    class Parent(Actor[str, str]):
        def receive(self, message: str) -> str:
            return self.ctx.spawn(Pet, name=message).name

    async with ActorSystem(root=Pet) as system:
        assert system.root is not None
        assert await system.root.ask("hello") == "hello world in production"
        assert warnings_of(caplog) == []
        assert await system.spawn(Parent).ask("child") == "child"
    assert len(warnings_of(caplog)) == 1


@PLACES
async def test_arguments_that_do_not_fit_end_the_actor_at_once(dispatcher: str, caplog: Caplog) -> None:
    async with ActorSystem() as system:
        ref: ActorRef[str, str] = system.spawn(Needy, dispatcher=dispatcher)  # pyright: ignore
        cause = await failed_start(ref)
        assert isinstance(cause, TypeError)
        assert "`name` is an option of spawn: use `spawn(props(Needy, name=...))`" in notes_of(cause)
        with pytest.raises(ActorTerminated):
            await ref.ask("hello")
    [record] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "its arguments do not fit its constructor, so a restart is of no use: it is stopped" in record.getMessage()
    assert "max_restarts" not in record.getMessage()


def test_they_are_escalated_where_the_limit_would_be() -> None:
    async def main() -> None:
        supervision = Supervision(on_limit=Directive.ESCALATE)
        async with ActorSystem(config=SystemConfig(supervision=supervision)) as system:
            system.spawn(Needy)  # type: ignore[arg-type]  # pyright: ignore
            await system.stopped()

    with pytest.raises(SystemFailed) as caught:
        asyncio.run(main())
    assert isinstance(caught.value.__cause__, TypeError)
