"""Troupes for tests: actors that do what they are told, diaries that can be waited for, troupes on other threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from greenroom import Actor, Lane, Props, props
from greenroom.ledger import Ledger
from greenroom.pods import KubeletConfig, Pod, PodGone, PodPhase, PodStatus, ServiceHandle, ThreadModel, Troupe
from greenroom.testing import assert_ledger_balanced

PATIENCE = 120.0
"""Seconds a test may wait for anything. Never reached unless something is wrong."""
FOREVER = KubeletConfig(connect_timeout=3600.0, max_restarts=None)
THREADS = [
    pytest.param(ThreadModel.DEDICATED, id="dedicated"),
    pytest.param(ThreadModel.COOPERATIVE, id="cooperative"),
]


class Diary:
    """What was written down, by any thread, in order; it can be waited for."""

    def __init__(self) -> None:
        self._written = threading.Condition()
        self.entries: list[Any] = []

    def write(self, entry: object) -> None:
        with self._written:
            self.entries.append(entry)
            self._written.notify_all()

    def wait(self, wanted: Callable[[list[Any]], bool], what: str = "") -> list[Any]:
        """Return what is written when that is as wanted."""
        with self._written:
            assert self._written.wait_for(lambda: wanted(self.entries), PATIENCE), f"{what}: {self.entries[-20:]}"
            return list(self.entries)

    def wait_for(self, *entries: object) -> None:
        """Return when all of these are written."""
        self.wait(lambda written: all(one in written for one in entries), f"waited for {entries}")

    def wait_for_count(self, count: int) -> list[Any]:
        """Return when that many are."""
        return self.wait(lambda written: len(written) >= count, f"waited for {count}")


class Doer(Actor[Any, None]):
    """Does what it is told: calls a function with itself. Writes down all else."""

    def __init__(self, diary: Diary, born: Callable[[], object] | None = None) -> None:
        self.diary = diary
        if born is not None:
            born()

    def receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        self.diary.write(message)
        return None


def doer(diary: Diary, born: Callable[[], object] | None = None) -> Props[Any, None]:
    """What makes one, with this diary each time."""
    return props(Doer, diary, born)


def finish(actor: Actor[Any, None]) -> None:
    """Told to a `Doer`: end in the ordinary way."""
    actor.ctx.stop()


def fail_with(error: BaseException) -> Callable[[Actor[Any, None]], None]:
    """Told to a `Doer`: fail."""

    def fail(actor: Actor[Any, None]) -> None:
        raise error

    return fail


class Hold:
    """Told to a `Doer`: hold your thread until `release`."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go_on = threading.Event()
        self.then: Callable[[Any], object] | None = None

    def __call__(self, actor: Actor[Any, None]) -> None:
        self.began.set()
        assert self.go_on.wait(PATIENCE)
        if self.then is not None:
            self.then(actor)

    def wait(self) -> None:
        """Return when the thread is held."""
        assert self.began.wait(PATIENCE)

    def release(self, then: Callable[[Any], object] | None = None) -> None:
        """Release the thread; the handler does one more thing."""
        self.then = then
        self.go_on.set()


class Phases:
    """The phases that the pods of a troupe come to; they can be waited for."""

    def __init__(self, troupe: Troupe[Any]) -> None:
        self._diary = Diary()
        troupe.system.observers.add(self)

    def pod_changed(self, pod: str, status: PodStatus) -> None:
        self._diary.write((pod, status))

    def of(self, pod: str) -> list[PodPhase]:
        return [status.phase for name, status in self._diary.entries if name == pod]

    def wait(self, pod: str, phase: PodPhase, restarts: int = 0) -> PodStatus:
        """Return when the pod has come to this phase after at least so many restarts."""

        def found(entries: list[Any]) -> bool:
            return any(_fits(one, pod, phase, restarts) for one in entries)

        entries = self._diary.wait(found, f"{pod} {phase}, {restarts} restarts")
        status: PodStatus = next(one for one in entries if _fits(one, pod, phase, restarts))[1]
        return status


def _fits(entry: tuple[str, PodStatus], pod: str, phase: PodPhase, restarts: int) -> bool:
    return entry[0] == pod and entry[1].phase is phase and entry[1].restarts >= restarts


def troupe_class(**pods: Pod) -> type[Troupe[Any]]:
    """A troupe of these pods."""
    made: type[Troupe[Any]] = type("Studio", (Troupe,), dict(pods))
    return made


class InThread:
    """A call on a thread of its own, and what came of it."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self.result: object = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:
            self.error = error

    @property
    def is_over(self) -> bool:
        return not self.thread.is_alive()

    def join(self, patience: float = PATIENCE) -> BaseException | None:
        """Wait for its end: the exception, if that is what came of it."""
        self.thread.join(patience)
        assert self.is_over, "it hangs"
        return self.error


@contextmanager
def playing(troupe: Troupe[Any]) -> Iterator[InThread]:
    """Play a troupe on another thread; at the end it must be over, with its ledger balanced."""
    call = InThread(troupe.play)
    try:
        yield call
    finally:
        troupe.stop()
        call.join()
    assert_over(troupe)


def assert_over(troupe: Troupe[Any]) -> Ledger:
    """Check that a troupe has ended, and that every message is accounted for and none is left."""
    ledger = assert_ledger_balanced(troupe.system)
    assert ledger.queued == ledger.in_hand == 0, ledger
    assert troupe.system.actors() == []
    return ledger


def send_until_gone(handle: ServiceHandle[Any, Any, Any], message: object, lane: Lane = Lane.DATA) -> PodGone:
    """Send until the pod is gone: the error that says so."""
    while True:
        try:
            handle.send(message, lane=lane)
        except PodGone as gone:
            return gone
