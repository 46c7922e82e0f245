"""Exceptions that travel."""

from __future__ import annotations

import pickle
import threading

import pytest

from greenroom.errors import AskTimeout, FailedElsewhere, NotSendable
from greenroom.wire.codec import Codec
from greenroom.wire.failures import Failure, is_portable


class Wants(Exception):
    """Can be pickled, and not be made again from its text."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.one = one


class Slotted(Exception):
    """Keeps something in a place that is not its dict."""

    __slots__ = ("one",)

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.one = one


class Holds(Exception):
    """Holds something that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


class Leaves(ImportError):
    """Has more of its own than its text, which Python keeps."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}", name="module")


class Reduces(Exception):
    """Has its own way to be pickled, which does not work."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")

    def __reduce__(self) -> tuple[object, ...]:
        return Reduces, ("1 and 2",)


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("exc", [ValueError("bad"), AskTimeout("/a", 1.0), KeyboardInterrupt()], ids=repr)
def test_an_exception_arrives_as_it_is_with_its_traceback(exc: BaseException) -> None:
    again = pickle.loads(pickle.dumps(Failure.of(raised(exc)))).restore()
    assert type(again) is type(exc)
    assert again.args == exc.args
    assert "test_failures.py" in str(again.__cause__)


def test_one_whose_constructor_wants_something_else_arrives_as_it_is() -> None:
    exc = Wants(1, 2)
    exc.add_note("ask for less")
    again = pickle.loads(pickle.dumps(Failure.of(raised(exc)))).restore()
    assert isinstance(again, Wants)
    assert again.__notes__ == ["ask for less"]
    assert (again.one, again.args) == (1, ("1 and 2",))
    assert "test_failures.py" in str(again.__cause__)
    codec = Codec()
    [inside] = codec.decode(codec.encode([Wants(1, 2)], lenient=True))
    assert (type(inside), inside.one) == (Wants, 1)


@pytest.mark.parametrize("exc", [Slotted(1, 2), Leaves(1, 2), Reduces(1, 2), Holds()], ids=repr)
def test_one_that_cannot_travel_arrives_as_what_it_says(exc: Exception) -> None:
    assert not is_portable(exc)
    again = pickle.loads(pickle.dumps(Failure.of(raised(exc)))).restore()
    assert isinstance(again, FailedElsewhere)
    assert again.kind == type(exc).__qualname__
    assert str(exc) in str(again)


def test_one_inside_of_something_else_arrives_too() -> None:
    codec = Codec()
    [(word, error)] = codec.decode(codec.encode([("cause", Holds())], lenient=True))
    assert word == "cause"
    assert isinstance(error, FailedElsewhere)
    with pytest.raises(NotSendable):
        codec.encode([threading.Lock()], lenient=True)


def test_an_error_about_something_that_cannot_be_sent_can_be_sent() -> None:
    again = pickle.loads(pickle.dumps(NotSendable(threading.Lock(), "it is a lock")))
    assert again.message is None
    assert "it is a lock" in str(again)
