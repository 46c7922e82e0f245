"""Actors that write down what happens to them, with sync and with async hooks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, Behaviors


class Diary(Actor[Any, Any]):
    """Writes down everything that happens to it."""

    def __init__(self, notes: list[Any], trouble: str = "", exc: BaseException | None = None) -> None:
        self.notes = notes
        self.trouble = trouble
        self.exc = RuntimeError(f"from {trouble}") if exc is None else exc

    def note(self, what: Any) -> Any:
        self.notes.append(what)
        if what == self.trouble:
            raise self.exc

    def receive(self, message: Any) -> Any:
        self.note(message)
        if message == "bear":
            return self.ctx.spawn(Child)
        if isinstance(message, ActorRef):
            self.ctx.watch(message)
        return message

    def pre_start(self) -> Any:
        self.note("pre_start")

    def post_start(self) -> Any:
        self.note("post_start")

    def pre_stop(self) -> Any:
        self.note("pre_stop")

    def post_stop(self) -> Any:
        self.note("post_stop")

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> Any:
        self.note("on_terminated")

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> Any:
        self.note("on_child_terminated")


class AsyncDiary(Diary):
    """The same, with every hook suspending once."""

    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return super().receive(message)

    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        super().pre_start()

    async def post_start(self) -> None:
        await asyncio.sleep(0)
        super().post_start()

    async def pre_stop(self) -> None:
        await asyncio.sleep(0)
        super().pre_stop()

    async def post_stop(self) -> None:
        await asyncio.sleep(0)
        super().post_stop()

    async def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        super().on_terminated(ref, cause)

    async def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        await asyncio.sleep(0)
        super().on_child_terminated(ref, cause)


class Child(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        return Behaviors.stopped


flavours = pytest.mark.parametrize("diary", [Diary, AsyncDiary])
