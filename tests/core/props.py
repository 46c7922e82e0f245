"""Props: the small things that handlers under test do, wait for, and leave behind."""

import asyncio
import contextvars
import sys
import types
from collections.abc import Callable, Generator
from typing import Any

import pytest

from greenroom._core.build import COMPILED
from greenroom._core.limits import Limits

LONG = 3600.0
ONE_AT_A_TIME = Limits(max_msgs_per_actor=1, max_actors_per_tick=1)
var: contextvars.ContextVar[str] = contextvars.ContextVar("var", default="unset")


def take_down(said: list[object], message: object) -> None:
    said.append(message)


def me() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@types.coroutine
def bare_yield(value: object = None) -> Generator[Any, Any, Any]:
    return (yield value)


def never() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


class Straggler:
    """Garbage in a cycle: only the collector finds it, and its finalizer then does something."""

    def __init__(self, last_words: Callable[[], object]) -> None:
        self.me = self
        self.last_words = last_words

    def __del__(self) -> None:
        self.last_words()


collects_while_allocating = pytest.mark.skipif(
    COMPILED or sys.version_info >= (3, 12),
    reason="the collector runs in the middle of an allocation before 3.12 alone, and not when an array grows",
)
