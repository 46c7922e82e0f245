"""Tracebacks show the user's own frames: in the log, and to whoever asked."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import traceback
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom import (
    COMPILED,
    Actor,
    ActorRef,
    ActorSystem,
    ChildSpec,
    Context,
    Directive,
    Reply,
    Supervision,
    Supervisor,
    SystemConfig,
)
from greenroom.errors import InternalError, NotAnActor
from greenroom.tracebacks import fold
from tests.culprits import AsyncCulprit, Culprit, frames_of, go_wrong, is_runtime

Caplog = pytest.LogCaptureFixture
PLACES = pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned", "process"])
QUICK = SystemConfig(supervision=Supervision(backoff=None))
OWN = {"__await__", "ask_sync"}
"""What the compiled build adds when an exception leaves it, and nobody can take away."""


def logged(caplog: Caplog) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


def text_of(record: logging.LogRecord) -> str:
    """What a plain handler would print of the exception."""
    return logging.Formatter().formatException(record.exc_info) if record.exc_info else ""


def seen_by(exc: BaseException) -> list[str]:
    """The functions that an asker sees."""
    names = frames_of(exc)
    return [name for name in names if name.rpartition(".")[2] not in OWN] if COMPILED else names


@PLACES
@pytest.mark.parametrize("culprit", [Culprit, AsyncCulprit])
@pytest.mark.anyio
async def test_the_log_shows_the_users_frames_alone(dispatcher: str, culprit: type[Culprit], caplog: Caplog) -> None:
    async with ActorSystem(config=QUICK) as system:
        ref = system.spawn(culprit, dispatcher=dispatcher)
        with pytest.raises(ValueError, match="at once"):
            await ref.ask("at once", timeout=120)
    (record,) = logged(caplog)
    text = text_of(record)
    assert not is_runtime(text)
    assert text.count("Traceback (most recent call last)") == 1
    assert text.count("in receive") == text.count("in go_wrong") == 1
    assert "in main" not in text


@PLACES
def test_an_asker_sees_its_own_frames_and_the_handlers(dispatcher: str) -> None:
    async def main() -> BaseException:
        async with ActorSystem(config=QUICK) as system:
            ref = system.spawn(Culprit, dispatcher=dispatcher)
            with pytest.raises(ValueError, match="to you") as caught:
                await ref.ask("to you", timeout=120)
            return caught.value

    exc = asyncio.run(main())
    elsewhere = "in receive" in str(exc.__cause__)
    assert seen_by(exc) == ["main", *([] if elsewhere else ["receive", "go_wrong"])]
    assert elsewhere == (dispatcher == "process")
    assert len(frames_of(exc)) <= len(seen_by(exc)) + 1


@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned"])
def test_a_thread_that_asks_sees_the_same(dispatcher: str) -> None:
    with ActorSystem(config=QUICK) as system:
        ref = system.spawn(Culprit, dispatcher=dispatcher)
        with pytest.raises(ValueError, match="to you") as caught:
            ref.ask_sync("to you", timeout=120)
    assert seen_by(caught.value) == [
        "test_a_thread_that_asks_sees_the_same",
        "receive",
        "go_wrong",
    ]


def test_pytest_shows_none_of_ours_at_all() -> None:
    with ActorSystem(config=QUICK) as system:
        ref = system.spawn(Culprit)
        with pytest.raises(ValueError, match="asked") as caught:
            ref.ask_sync("asked", timeout=120)
        with pytest.raises(ValueError, match="awaited") as awaited:
            asyncio.run(ask(ref, "awaited"))
    for one in (caught, awaited):
        assert not [entry for entry in one.traceback.filter(one) if "greenroom/actor" in str(entry.path)]


async def ask(ref: ActorRef[Any, Any], message: str) -> Any:
    return await ref.ask(message, timeout=120)


@pytest.mark.anyio
async def test_the_frames_that_are_left_have_their_locals() -> None:
    async with ActorSystem(config=QUICK) as system:
        with pytest.raises(ValueError, match="seven") as caught:
            await system.spawn(Culprit).ask("seven")
        last = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)][-1]
        assert last.f_locals["message"] == "seven"


class Relay(Actor[Any, Any]):
    """Asks a child, which fails."""

    def pre_start(self) -> None:
        self.child = self.ctx.spawn(Culprit, name="child")

    async def receive(self, message: Any) -> Any:
        return await self.child.ask(message)


def test_a_failure_that_passes_several_actors_shows_one_frame_of_each(caplog: Caplog) -> None:
    async def main() -> BaseException:
        async with ActorSystem(config=QUICK) as system:
            with pytest.raises(ValueError, match="passed on") as caught:
                await system.spawn(Relay, name="relay").ask("passed on")
            return caught.value

    assert seen_by(asyncio.run(main())) == ["main", "receive", "receive", "go_wrong"]
    child, relay = map(text_of, logged(caplog))
    assert (child.count("in receive"), relay.count("in receive")) == (1, 2)


@pytest.mark.anyio
async def test_a_childs_failure_is_told_without_the_frames_of_who_asked(caplog: Caplog) -> None:
    """A supervisor decides later than an asker is answered, so the exception has grown by then."""
    async with ActorSystem(config=QUICK) as system:
        boss = system.spawn(Supervisor, Supervisor.spec(children=[ChildSpec("child", Culprit)]), name="boss")
        await boss.started()
        child = system.actor("/boss/child")
        assert child is not None
        with pytest.raises(ValueError, match="later"):
            await child.ask("later")
        await system.settle()
    (record,) = logged(caplog)
    assert "in go_wrong" in text_of(record)
    assert "in main" not in text_of(record)


@pytest.mark.anyio
async def test_one_exception_for_two_askers_shows_each_only_its_own_frames() -> None:
    class Refuser(Actor[Any, Any]):
        def __init__(self) -> None:
            self.owed: list[Reply] = []

        def receive(self, message: Any) -> None:
            self.owed.append(self.ctx.defer_reply())
            if len(self.owed) == 2:
                error = ValueError("no")
                for reply in self.owed:
                    reply.fail(error)

    async with ActorSystem(config=QUICK) as system:
        ref = system.spawn(Refuser)
        asks = [ref.ask(1), ref.ask(2)]
        await system.settle()

        async def first() -> BaseException:
            with pytest.raises(ValueError, match="no") as caught:
                await asks[0]
            return caught.value

        async def second() -> BaseException:
            with pytest.raises(ValueError, match="no") as caught:
                await asks[1]
            return caught.value

        one = await first()
        assert seen_by(one) == ["first"]
        other = await second()
        assert other is one
        assert seen_by(other) == ["second"]


def test_an_error_of_ours_ends_in_the_line_that_caused_it(caplog: Caplog) -> None:
    def receive(ctx: Context, message: Any) -> None:
        ctx.spawn(message)

    async def main() -> None:
        async with ActorSystem(config=QUICK) as system:
            with pytest.raises(NotAnActor) as caught:
                await system.spawn(receive).ask(42)
            assert seen_by(caught.value) == ["main", "receive"]

    asyncio.run(main())
    (record,) = logged(caplog)
    assert not is_runtime(text_of(record))


@pytest.mark.anyio
async def test_what_an_exception_came_from_is_shortened_too(caplog: Caplog) -> None:
    class Wraps(Relay):
        async def receive(self, message: Any) -> Any:
            try:
                await self.child.ask(message)
            except ValueError as exc:
                raise ExceptionGroup("all", [KeyError("other"), exc]) from exc

    async with ActorSystem(config=QUICK) as system:
        with pytest.raises(ExceptionGroup):
            await system.spawn(Wraps, name="wraps").ask("wrapped")
    (record,) = (one for one in logged(caplog) if "/wraps failed" in one.getMessage())
    assert not is_runtime(text_of(record))
    assert "in go_wrong" in text_of(record)


@pytest.mark.anyio
async def test_a_hook_that_raises_at_the_end_is_shown_without_the_runtime(caplog: Caplog) -> None:
    class Leaves(Culprit):
        def post_stop(self) -> None:
            go_wrong("farewell")

    async with ActorSystem(config=QUICK) as system:
        await system.spawn(Leaves).started()
    (record,) = logged(caplog)
    assert "in post_stop" in text_of(record)
    assert not is_runtime(text_of(record))


@dataclass(frozen=True)
class Frozen(Exception):
    """None of its attributes can be set."""

    code: int


def test_an_exception_that_cannot_be_changed_is_shortened_too(caplog: Caplog) -> None:
    def receive(ctx: Context, message: Any) -> None:
        raise Frozen(message)

    async def main() -> None:
        async with ActorSystem(config=QUICK) as system:
            with pytest.raises(Frozen) as caught:
                await system.spawn(receive).ask(3)
            assert seen_by(caught.value) == ["main", "receive"]

    asyncio.run(main())
    (record,) = logged(caplog)
    assert not is_runtime(text_of(record))


def test_what_the_runtime_did_wrong_is_shown_whole() -> None:
    async def main() -> BaseException:
        async with ActorSystem(config=QUICK) as system:
            with pytest.raises(ValueError, match="whole") as caught:
                await system.spawn(Culprit).ask("whole")
            return caught.value

    seen = asyncio.run(main()).__traceback__
    trouble = InternalError("please report this").with_traceback(seen)
    fold(trouble)
    assert trouble.__traceback__ is seen


def test_frames_of_the_asker_are_not_kept_by_an_actor_that_goes_on(caplog: Caplog) -> None:
    class Local:
        """Something in the asker's frame."""

    async def main() -> None:
        resume = SystemConfig(supervision=Supervision(Directive.RESUME))
        async with ActorSystem(config=resume) as system:
            ref = system.spawn(Culprit)

            async def ask() -> weakref.ref[Local]:
                mine = Local()
                with suppress(ValueError):
                    await ref.ask("soon forgotten")
                return weakref.ref(mine)

            kept = await ask()
            await asyncio.sleep(0)  # until then asyncio has the answer in its hands
            gc.collect()
            assert kept() is None

    with caplog.at_level(logging.CRITICAL, "greenroom"):  # a record would keep the exception
        asyncio.run(main())


PROGRAM = """
import asyncio
from greenroom import ActorSystem, SystemConfig
from tests.culprits import Culprit

async def main():
    async with ActorSystem(config=SystemConfig.load()) as system:
        await system.spawn(Culprit).ask("shown")

asyncio.run(main())
"""


@pytest.mark.parametrize("value", ["full", ""])
def test_an_environment_variable_shows_all_frames(value: str) -> None:
    environ = {**os.environ, "GREENROOM_TRACEBACKS": value}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, timeout=120)
    assert done.stderr.count("in go_wrong") == 2
    inside = [line for line in done.stderr.splitlines() if "greenroom/_core" in line]
    assert bool(inside) == (value == "full")
