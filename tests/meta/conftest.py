"""Tests of meta-processes: none may leave a thread or a descriptor behind."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.meta.sockets.certificates import Certificates, make_certificates

OURS = frozenset({"Incarnation", "Wire", "WebSocketWire", "HttpExchange", "Listener", "Program", "MetaFactory"})
"""What there is one of for each meta-process or connection, and none of when a system has ended."""
PATIENCE = 30.0
"""Seconds that what a test has ended has to be gone."""


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
    before = fds(), set(threading.enumerate())
    yield
    deadline = monotonic() + PATIENCE
    while True:
        gc.collect()
        left = {
            "fds": {number: what for number, what in fds().items() if before[0].get(number) != what},
            "threads": [one.name for one in threading.enumerate() if one not in before[1] and one.is_alive()],
        }
        if not any(left.values()):
            return
        assert monotonic() < deadline, left
        sleep(0.01)  # they end by themselves, and nothing says when


@pytest.fixture
def no_memory_is_left(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test that leaves objects of meta-processes behind: each costs two looks at every object there is."""
    before = count_objects()
    yield
    caplog.get_records("call").clear()  # an exception that was logged has its frames
    play = request.node.funcargs.get("play")
    if play is not None:
        play.system = None  # the last system, whose dead letters may tell of a program that ended with an exception
    deadline = monotonic() + PATIENCE
    while True:
        gc.collect()
        after = count_objects()
        left = {name: after[name] for name in OURS if after[name] > before[name]}
        if not left:
            return
        if monotonic() >= deadline:
            pytest.fail("\n".join([f"left behind: {left}", *keepers(set(left))]))
        sleep(0.05)  # a thread of a pool may not have let go of its last call


def keepers(names: set[str]) -> list[str]:
    """What keeps objects of these types, and what keeps that, and so on: for the reader of a failure."""
    told: list[str] = []
    met: set[int] = set()
    rows = [one for one in gc.get_objects() if type(one).__name__ in names]
    for depth in range(20):
        met.update(map(id, [rows, met, told, sys._getframe()]))
        above = []
        for one in rows:
            found = [by for by in gc.get_referrers(one) if id(by) not in met and type(by).__name__ != "list_iterator"]
            told.append(f"{'  ' * depth}{type(one).__name__} {one!r:.150}: {[type(by).__name__ for by in found]}")
            above += found
            met.update(map(id, found))
        rows = above[:12]
    return told


def count_objects() -> Counter[str]:
    return Counter(type(one).__name__ for one in gc.get_objects())


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority, and what it has signed, for TLS."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
