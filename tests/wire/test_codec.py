"""Messages become bytes, and the same messages again."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.errors import BadArgument, NotSendable, WireError
from greenroom.wire.codec import Codec, register, registered_names


@register
@dataclass
class Deposit:
    account: str
    amount: int
    tags: list[str]


@register
class Point(NamedTuple):
    x: float
    y: float


class Refuses:
    def __reduce__(self) -> Any:
        raise LookupError("I stay here")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(values))
def test_what_was_encoded_is_decoded(batch: list[Any]) -> None:
    codec = Codec()
    assert codec.decode([bytes(part) for part in codec.encode(batch)]) == batch


def test_what_is_large_lies_beside_the_pickle_and_is_not_copied_into_it() -> None:
    numpy = pytest.importorskip("numpy")
    codec = Codec()
    array = numpy.arange(100_000, dtype="int64")
    parts = codec.encode([array, "small"])
    assert len(parts) == 3
    assert len(parts[1]) < 1000
    assert parts[2].nbytes == array.nbytes
    assert numpy.shares_memory(numpy.frombuffer(parts[2], dtype="int64"), array)
    received = [bytearray(part) for part in parts]
    again, small = codec.decode(received)
    assert (again == array).all()
    assert small == "small"
    assert numpy.shares_memory(numpy.frombuffer(received[2], dtype="int64"), again)
    again[0] = 7  # and it is the receiver's own


@pytest.mark.parametrize(
    ("culprit", "advice"),
    [
        (lambda: 0, "define it at the top of a module"),
        (type("Local", (), {})(), "Local"),
        (threading.Lock(), "send what can be pickled"),
        (Refuses(), "I stay here"),
    ],
    ids=["lambda", "local class", "lock", "its own mind"],
)
def test_a_message_that_cannot_be_sent_is_named_and_given_back(culprit: Any, advice: str) -> None:
    with pytest.raises(NotSendable, match=advice) as caught:
        Codec().encode(["fine", culprit, "fine"])
    assert caught.value.message is culprit
    assert caught.value.code == "not_sendable"


def pair() -> tuple[Codec, Codec]:
    here, there = Codec(), Codec()
    here.peer_knows(registered_names())
    there.peer_knows(registered_names())
    return here, there


@given(st.lists(st.builds(Deposit, st.text(), st.integers(-(2**63), 2**63 - 1), st.lists(st.text())), min_size=1))
def test_registered_types_are_written_by_msgspec(batch: list[Deposit]) -> None:
    pytest.importorskip("msgspec")
    here, there = pair()
    parts = here.encode(batch)
    assert parts[0] == b"M"
    assert there.decode([bytearray(part) for part in parts]) == batch


def test_a_batch_may_be_of_several_registered_types() -> None:
    pytest.importorskip("msgspec")
    here, there = pair()
    batch = [Point(1.0, 2.0), Deposit("a", 1, []), Point(0.0, 0.0)]
    assert there.decode(here.encode(batch)) == batch
    assert [type(one) for one in there.decode(here.encode(batch))] == [Point, Deposit, Point]


def test_a_batch_with_anything_else_in_it_is_pickled() -> None:
    here, there = pair()
    batch = [Point(1.0, 2.0), "a text"]
    parts = here.encode(batch)
    assert parts[0] == b"P"
    assert there.decode(parts) == batch


def test_what_the_other_side_does_not_know_is_pickled() -> None:
    here = Codec()
    here.peer_knows(["elsewhere:Thing"])
    assert here.encode([Point(1.0, 2.0)])[0] == b"P"


def test_a_registered_type_whose_content_msgspec_cannot_write_is_pickled() -> None:
    pytest.importorskip("msgspec")
    here, there = pair()
    batch = [Deposit("b", 2, []), Deposit("a", 1, [range(3)])]  # type: ignore[list-item]
    parts = here.encode(batch)
    assert parts[0] == b"P"
    assert there.decode(parts) == batch


def test_one_that_nobody_can_write_is_given_back() -> None:
    here, _ = pair()
    culprit = Deposit("a", 1, [lambda: 1])  # type: ignore[list-item]
    with pytest.raises(NotSendable) as caught:
        here.encode([Deposit("b", 2, []), culprit])
    assert caught.value.message is culprit


def test_a_frame_in_a_language_that_nobody_speaks_is_an_error() -> None:
    with pytest.raises(WireError, match="which nobody here can read"):
        Codec().decode([b"X", b""])


def test_a_type_that_is_not_registered_here_is_an_error() -> None:
    msgspec = pytest.importorskip("msgspec")
    with pytest.raises(WireError, match="elsewhere:Thing"):
        Codec().decode([b"M", msgspec.msgpack.encode([["elsewhere:Thing", {}]])])


def test_only_classes_can_be_registered() -> None:
    with pytest.raises(BadArgument, match="register"):
        register("Deposit")  # type: ignore[type-var]
