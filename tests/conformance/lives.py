"""Actors whose every hook is seen, and the ways their lives may go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from itertools import pairwise
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Behaviors, Context, ExitReason, State
from greenroom.testing import assert_ledger_balanced

CREATED, STARTING, RUNNING = State.CREATED, State.STARTING, State.RUNNING
STOPPING, STOPPED, FAILED, RESTARTING = State.STOPPING, State.STOPPED, State.FAILED, State.RESTARTING
TERMINATED = State.TERMINATED

TRANSITIONS: dict[State, set[State]] = {
    CREATED: {STARTING, TERMINATED},
    STARTING: {RUNNING, FAILED, STOPPING},
    RUNNING: {STOPPING, FAILED, RESTARTING},
    FAILED: {RUNNING, RESTARTING, STOPPING, TERMINATED},
    RESTARTING: {STARTING, FAILED, STOPPING},
    STOPPING: {STOPPED},
    STOPPED: {RESTARTING, TERMINATED},
    TERMINATED: set(),
}


def assert_ended_once(system: ActorSystem, actors: int) -> None:
    """The system has stopped, and so many actors with it, none of them by force."""
    report = system.report
    assert report is not None
    assert (report.started, report.terminated, report.forced) == (actors, actors, ())
    assert system.phase == "stopped"
    assert system.actors() == []
    assert_ledger_balanced(system)


def assert_is_a_life(history: tuple[State, ...], *, killed: bool = False) -> None:
    assert history[0] is CREATED
    assert history[-1] is TERMINATED
    for here, there in pairwise(history):
        assert there in TRANSITIONS[here] or (killed and there is TERMINATED and here is not TERMINATED), history


class Hooked(Actor[Any, Any]):
    """Writes down which of its hooks run; `acts` says what they do besides, and may return something to await."""

    def __init__(self, log: list[str] | None = None, **acts: Callable[[Context], Any]) -> None:
        self.log = [] if log is None else log
        self.acts = acts
        if "init" in acts:
            acts["init"](None)  # type: ignore[arg-type]

    def play(self, hook: str) -> Any:
        self.log.append(hook)
        return self.acts[hook](self.ctx) if hook in self.acts else None

    def receive(self, message: Any) -> Any:
        self.log.append(f"receive {message}")
        return message(self.ctx) if callable(message) else message

    def pre_start(self) -> Any:
        return self.play("pre_start")

    def post_start(self) -> Any:
        return self.play("post_start")

    def pre_stop(self) -> Any:
        return self.play("pre_stop")

    def post_stop(self) -> Any:
        return self.play("post_stop")


class HookedAsync(Hooked):
    """The same with `async def`, and every hook and handler really suspends."""

    async def finish(self, result: Any) -> Any:
        await asyncio.sleep(0)
        return await result if isawaitable(result) else result

    async def receive(self, message: Any) -> Any:
        return await self.finish(super().receive(message))

    async def pre_start(self) -> None:
        await self.finish(super().pre_start())

    async def post_start(self) -> None:
        await self.finish(super().post_start())

    async def pre_stop(self) -> None:
        await self.finish(super().pre_stop())

    async def post_stop(self) -> None:
        await self.finish(super().post_stop())


class Plain(Actor[Any, Any]):
    """Without any hook."""

    def receive(self, message: Any) -> Any:
        return message(self.ctx) if callable(message) else message


class PlainAsync(Actor[Any, Any]):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return message(self.ctx) if callable(message) else message


def handle(ctx: Context, message: Any) -> Any:
    return message(ctx) if callable(message) else message


KINDS: list[Any] = [Plain, PlainAsync, Hooked, HookedAsync, handle, Behaviors.receive(handle)]
KIND_NAMES = ["plain", "plain async", "hooked", "hooked async", "function", "behavior"]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
every_hooked = pytest.mark.parametrize("kind", [Hooked, HookedAsync], ids=["sync", "async"])


def raises(error: BaseException) -> Callable[[Any], Any]:
    def act(_: object) -> Any:
        raise error.with_traceback(None)  # or it would grow with every use

    return act


async def ended(system: ActorSystem, ref: ActorRef[Any, Any], within: float = 120.0) -> ExitReason:
    """How `ref` ended; if it does not, the system is forced to, so that the test ends at once."""
    try:
        async with asyncio.timeout(within):
            return await ref.terminated()
    except TimeoutError:
        stranded = f"{ref} is stranded: {ref.state}, {ref.history}"
        await system.shutdown(timeout=0.1)
        raise AssertionError(stranded) from None
