"""Why an actor ended: which exception means which kind of end, and which ends are abnormal."""

import asyncio
import concurrent.futures
import copy
import dataclasses
import pickle

import pytest

from greenroom.errors import MailboxFull
from greenroom.exits import KILLED, NORMAL, SHUTDOWN, ExitKind, ExitReason, ends_system
from greenroom.lanes import Lane


class Rude(BaseException):
    """Not an Exception: nothing a handler is meant to raise."""


class ImpatientUser(KeyboardInterrupt):
    """A subclass of what ends the system."""


class OwnCancelled(asyncio.CancelledError):
    """A subclass of a cancellation."""


FAIL, PANIC = ExitKind.FAIL, ExitKind.PANIC
# What a handler let out, the kind of the actor's end, whether the system ends with it.
TABLE: list[tuple[BaseException, ExitKind, bool]] = [
    (Exception(), FAIL, False),
    (ValueError("bad"), FAIL, False),
    (MailboxFull("ref", "m", Lane.DATA, 1), FAIL, False),
    (StopIteration(), FAIL, False),
    (StopAsyncIteration(), FAIL, False),
    (MemoryError(), FAIL, False),
    (RecursionError(), FAIL, False),
    (TimeoutError(), FAIL, False),
    (concurrent.futures.CancelledError(), FAIL, False),
    (asyncio.CancelledError(), FAIL, False),
    (OwnCancelled(), FAIL, False),
    (ExceptionGroup("two", [ValueError(), KeyError()]), FAIL, False),
    (GeneratorExit(), PANIC, False),
    (Rude(), PANIC, False),
    (BaseException(), PANIC, False),
    (BaseExceptionGroup("one", [Rude()]), PANIC, False),
    (KeyboardInterrupt(), PANIC, True),
    (ImpatientUser(), PANIC, True),
    (SystemExit(3), PANIC, True),
]
EVERY_CAUSE = pytest.mark.parametrize(("cause", "kind", "ends"), TABLE, ids=lambda value: type(value).__name__)


@EVERY_CAUSE
def test_an_exception_tells_the_kind_of_the_end(cause: BaseException, kind: ExitKind, ends: bool) -> None:
    reason = ExitReason.of(cause)
    assert reason.kind is kind
    assert reason.cause is cause
    assert reason.abnormal


@EVERY_CAUSE
def test_only_a_wish_to_leave_ends_the_system(cause: BaseException, kind: ExitKind, ends: bool) -> None:
    assert ends_system(cause) is ends


@pytest.mark.parametrize(
    ("kind", "abnormal"),
    [
        (ExitKind.NORMAL, False),
        (ExitKind.SHUTDOWN, False),
        (ExitKind.FAIL, True),
        (ExitKind.PANIC, True),
        (ExitKind.KILLED, True),
    ],
)
def test_only_an_abnormal_end_restarts_a_transient_child(kind: ExitKind, abnormal: bool) -> None:  # J10
    assert ExitReason(kind).abnormal is abnormal


def test_every_kind_stands_in_the_table_above() -> None:
    assert len(ExitKind) == 5


@pytest.mark.parametrize(
    ("reason", "kind"), [(NORMAL, ExitKind.NORMAL), (SHUTDOWN, ExitKind.SHUTDOWN), (KILLED, ExitKind.KILLED)]
)
def test_the_ends_without_a_cause_are_ready_made(reason: ExitReason, kind: ExitKind) -> None:
    assert reason == ExitReason(kind)
    assert reason.cause is None
    assert str(reason) == kind.value


def test_a_reason_reads_as_its_kind_and_cause() -> None:
    assert str(ExitReason.of(KeyError("name"))) == "fail: KeyError: 'name'"
    assert str(ExitReason.of(Rude("out"))) == "panic: Rude: out"


def test_reasons_are_equal_when_kind_and_cause_are_the_same() -> None:
    cause = ValueError()
    assert ExitReason.of(cause) == ExitReason(ExitKind.FAIL, cause)
    assert ExitReason.of(cause) != ExitReason.of(ValueError())
    assert len({ExitReason.of(cause), ExitReason.of(cause), NORMAL, ExitReason(ExitKind.NORMAL)}) == 2


def test_a_reason_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        NORMAL.kind = ExitKind.FAIL  # type: ignore[misc]


@pytest.mark.parametrize("reason", [NORMAL, SHUTDOWN, KILLED])
def test_a_reason_survives_pickling(reason: ExitReason) -> None:
    assert pickle.loads(pickle.dumps(reason)) == reason
    assert copy.deepcopy(reason) == reason


def test_a_reason_takes_its_cause_along_when_pickled() -> None:
    again = pickle.loads(pickle.dumps(ExitReason.of(MailboxFull("ref", "m", Lane.DATA, 1))))
    assert again.kind is ExitKind.FAIL
    assert isinstance(again.cause, MailboxFull)
    assert again.cause.message == "m"
