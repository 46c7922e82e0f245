"""Tests of worker processes: none may leave a process, a thread or an fd behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from greenroom import ActorRef, Process, Supervision, SystemConfig
from greenroom.actor.messaging.address import Address
from tests.conftest import Play

PATIENCE = 120.0


@pytest.fixture(scope="module", autouse=True)
def no_default_is_a_matter_of_speed() -> Iterator[None]:
    """Let asks and stops that say nothing else take their time.

    On a busy machine a fresh interpreter takes longer to start than the five seconds that users have by default.
    """

    def ask(self: Address, message: object, *, timeout: float | None = PATIENCE, **more: Any) -> Any:
        return Address.ask(self, message, timeout=timeout, **more)

    def ask_sync(self: Address, message: object, *, timeout: float | None = PATIENCE, **more: Any) -> Any:
        return Address.ask_sync(self, message, timeout=timeout, **more)

    made = SystemConfig.__init__

    def make(self: SystemConfig, *args: Any, **more: Any) -> None:
        made(self, *args, **{"stop_timeout": PATIENCE, **more})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ActorRef, "ask", ask, raising=False)
        patch.setattr(ActorRef, "ask_sync", ask_sync, raising=False)
        patch.setattr(SystemConfig, "__init__", make)
        yield


@pytest.fixture
def play() -> Play:
    """Runs a program in a system with one worker process, which restarts actors at once."""
    return Play("asyncio", dispatchers={"process": Process(workers=1)}, supervision=Supervision(backoff=None))


def children() -> set[int]:
    """The processes that this one has started and not waited for."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found.update(map(int, (task / "children").read_text().split()))
    return found


def fds() -> dict[str, str]:
    """What is open, by number."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that the listing itself needed
            found[entry.name] = str(entry.readlink())
    return found


@pytest.fixture(scope="session", autouse=True)
def uvloop_has_its_own() -> None:
    """uvloop opens a pipe with its first loop, and keeps it for good."""
    with suppress(ImportError):
        import uvloop

        uvloop.new_event_loop().close()


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test that leaves something behind."""
    gc.collect()
    before = children(), set(fds()), set(threading.enumerate())
    yield
    deadline = monotonic() + PATIENCE
    while True:
        gc.collect()
        left = {
            "processes": children() - before[0],
            "fds": {number: what for number, what in fds().items() if number not in before[1]},
            "threads": [one.name for one in threading.enumerate() if one not in before[2] and one.is_alive()],
        }
        if not any(left.values()):
            return
        assert monotonic() < deadline, left
        sleep(0.01)  # they end by themselves, and nothing says when
