"""Framing: how a stream of bytes is cut, which does not depend on the pieces in which it comes (E10)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from greenroom.errors import ConfigError, FrameError, FrameTooLarge
from greenroom.meta import Custom, Fixed, Framing, LengthPrefixed, Lines, Raw


def decoded(framing: Framing, pieces: Iterable[bytes]) -> tuple[list[Any], type[Exception] | None]:
    """All frames, and what is raised after them, if anything is."""
    decoder, frames = framing.decoder(), []
    try:
        for piece in pieces:
            for frame in decoder.feed(piece):
                frames.append(frame)  # noqa: PERF402 - those before an error count
        for frame in decoder.finish():
            frames.append(frame)  # noqa: PERF402
    except (FrameTooLarge, FrameError) as exc:
        return frames, type(exc)
    return frames, None


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """The stream in pieces, none of them empty."""
    marks = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(marks)]


def singles(stream: bytes) -> list[bytes]:
    return [stream[place : place + 1] for place in range(len(stream))]


def netstrings(data: bytearray) -> Iterable[bytes]:
    """`5:hello,` and so on."""
    while (colon := data.find(b":")) >= 0:
        try:
            length = int(data[:colon])
        except ValueError as exc:
            raise FrameError(f"no number: {bytes(data[:colon])!r}") from exc
        if length > 20:
            raise FrameTooLarge(length, 20)
        if len(data) < colon + length + 2:
            return
        frame = bytes(data[colon + 1 : colon + 1 + length])
        del data[: colon + length + 2]
        yield frame


FRAMINGS: dict[str, Framing] = {
    "lines": Lines(max_size=20),
    "crlf": Lines(b"\r\n", max_size=20),
    "blank line": Lines(b"\n\n", max_size=20),
    "text": Lines(encoding="utf-8", max_size=20),
    "byte": LengthPrefixed(1, max_size=20),
    "short": LengthPrefixed(2, byteorder="little", max_size=20),
    "int": LengthPrefixed(max_size=20),
    "long": LengthPrefixed(8, max_size=20),
    "one": Fixed(1),
    "fixed": Fixed(5),
    "custom": Custom(netstrings, max_size=25),
}
all_framings = pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)


# -- what frames there are

WHOLE: list[tuple[Framing, bytes, list[Any]]] = [
    (Lines(), b"", []),
    (Lines(), b"\n", [b""]),
    (Lines(), b"one\ntwo\n", [b"one", b"two"]),
    (Lines(), b"one\n\ntwo\n", [b"one", b"", b"two"]),
    (Lines(), b"one\nlast", [b"one", b"last"]),
    (Lines(), b"one\r\n", [b"one\r"]),
    (Lines(b"\r\n"), b"a\rb\nc\r\nd\r", [b"a\rb\nc", b"d\r"]),
    (Lines(b"\n\n"), b"x\n\n\n", [b"x", b"\n"]),
    (Lines(b"aa"), b"aaa", [b"", b"a"]),
    (Lines(b"END"), b"ENENDENDEN", [b"EN", b"", b"EN"]),
    (Lines(b"\0"), b"a\nb\0", [b"a\nb"]),
    (Lines(encoding="utf-8"), "zwölf\n€\n".encode(), ["zwölf", "€"]),
    (Lines(encoding="latin-1"), b"\xe4\n", ["ä"]),
    (Lines(max_size=3), b"abc\nabc", [b"abc", b"abc"]),
    (LengthPrefixed(1), b"\x00\x01a\x02bc", [b"", b"a", b"bc"]),
    (LengthPrefixed(2), b"\x00\x03abc", [b"abc"]),
    (LengthPrefixed(2, byteorder="little"), b"\x03\x00abc", [b"abc"]),
    (LengthPrefixed(), b"\x00\x00\x00\x00\x00\x00\x00\x01x", [b"", b"x"]),
    (LengthPrefixed(8), b"\0\0\0\0\0\0\0\x02xy", [b"xy"]),
    (LengthPrefixed(1, max_size=2), b"\x02ab", [b"ab"]),
    (Fixed(3), b"abcdef", [b"abc", b"def"]),
    (Fixed(1), b"abc", [b"a", b"b", b"c"]),
    (Custom(netstrings), b"0:,5:hello,1:x,", [b"", b"hello", b"x"]),
]


@pytest.mark.parametrize("way", ["whole", "singles", "halves"])
@pytest.mark.parametrize(("framing", "stream", "frames"), WHOLE)
def test_a_stream_has_these_frames(framing: Framing, stream: bytes, frames: list[Any], way: str) -> None:  # E10
    half = len(stream) // 2
    pieces = {"whole": [stream], "singles": singles(stream), "halves": [stream[:half], stream[half:]]}
    assert decoded(framing, pieces[way]) == (frames, None)


def test_without_framing_all_comes_as_it_is() -> None:  # E10
    assert decoded(Raw(), [b"one", b"\n", b"two"]) == ([b"one", b"\n", b"two"], None)


BROKEN: list[tuple[Framing, bytes, list[Any], type[Exception]]] = [
    (Lines(max_size=3), b"ab\nabcd\nx\n", [b"ab"], FrameTooLarge),
    (Lines(max_size=3), b"ab\nabcd", [b"ab"], FrameTooLarge),
    (Lines(max_size=3), b"abcd\n", [], FrameTooLarge),
    (Lines(b"\r\n", max_size=3), b"ab\r\nabcd\r\n", [b"ab"], FrameTooLarge),
    (Lines(encoding="utf-8"), b"ok\n\xff\nno\n", ["ok"], FrameError),
    (Lines(encoding="ascii"), b"ok\n\x80", ["ok"], FrameError),
    (LengthPrefixed(1, max_size=2), b"\x01a\x03bcd", [b"a"], FrameTooLarge),
    (LengthPrefixed(max_size=2), b"\x00\x00\x00\x01a\xff\xff\xff\xff", [b"a"], FrameTooLarge),
    (LengthPrefixed(8), b"\xff" * 8, [], FrameTooLarge),
    (LengthPrefixed(1), b"\x01a\x03b", [b"a"], FrameError),
    (LengthPrefixed(2), b"\x00\x01a\x00", [b"a"], FrameError),
    (Fixed(3), b"abcd", [b"abc"], FrameError),
    (Custom(netstrings), b"1:a,5:he", [b"a"], FrameError),
    (Custom(netstrings), b"1:a,99:", [b"a"], FrameTooLarge),
    (Custom(netstrings), b"1:a,x:", [b"a"], FrameError),
    (Custom(lambda data: (), max_size=3), b"abcd", [], FrameTooLarge),
]


@pytest.mark.parametrize("way", ["whole", "singles", "halves"])
@pytest.mark.parametrize(("framing", "stream", "frames", "error"), BROKEN)
def test_what_comes_before_a_bad_frame_is_delivered(
    framing: Framing, stream: bytes, frames: list[Any], error: type[Exception], way: str
) -> None:  # E10
    half = len(stream) // 2
    pieces = {"whole": [stream], "singles": singles(stream), "halves": [stream[:half], stream[half:]]}
    assert decoded(framing, pieces[way]) == (frames, error)


# -- any cutting of the stream

alphabets = st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(b"\r\n\0\x01\x02a5:,"), max_size=60).map(bytes))


@all_framings
@given(stream=alphabets, places=st.lists(st.integers(0, 1000), max_size=10))
@example(stream=b"x\n\n\n", places=[])
@example(stream=b"\r\r\n\n", places=[2])
def test_any_cutting_of_any_bytes_gives_the_same_frames(
    framing: Framing, stream: bytes, places: list[int]
) -> None:  # E10, R7
    """And the same error, however early it is noticed."""
    assert decoded(framing, cut(stream, places)) == decoded(framing, singles(stream))


@all_framings
@given(data=st.data())
def test_what_is_encoded_is_decoded(framing: Framing, data: st.DataObject) -> None:  # E10
    frames = data.draw(st.lists(_frames_of(framing), max_size=8))
    places = data.draw(st.lists(st.integers(0, 1000), max_size=10))
    if isinstance(framing, Custom):
        framing = Custom(netstrings, lambda frame: b"%d:%s," % (len(frame), frame))
    stream = b"".join(framing.encode(frame) for frame in frames)
    assert decoded(framing, cut(stream, places)) == (frames, None)


def _frames_of(framing: Framing) -> st.SearchStrategy[Any]:
    if isinstance(framing, Fixed):
        return st.binary(min_size=framing.size, max_size=framing.size)
    if isinstance(framing, Lines):
        kept = st.sampled_from("abc\r ") if framing.delimiter == b"\n" else st.sampled_from("abc ")
        text = st.text(kept, max_size=20)
        return text if framing.encoding is not None else text.map(str.encode)
    return st.binary(max_size=20)


def test_a_long_line_in_single_bytes_is_searched_once() -> None:  # E10, R7
    line = b"x" * 200_000
    assert decoded(Lines(), singles(line + b"\n")) == ([line], None)  # in minutes, if each byte were a new search


def test_a_decoder_keeps_no_more_than_a_frame() -> None:  # R7
    random_bytes = random.Random(1).randbytes(5000).replace(b"\n", b"")
    decoder = Lines(max_size=100).decoder()

    def feed() -> None:
        for piece in singles(random_bytes):
            assert list(decoder.feed(piece)) == []

    with pytest.raises(FrameTooLarge) as caught:
        feed()
    assert caught.value.limit == 100
    assert caught.value.size <= 102


def test_decoders_of_one_framing_share_nothing() -> None:  # E10
    for framing, half, other in [(Lines(), b"on", b"e\n"), (Fixed(3), b"on", b"e"), (LengthPrefixed(1), b"\2o", b"n")]:
        one, two = framing.decoder(), framing.decoder()
        assert list(one.feed(half)) == []
        assert list(two.finish()) == []
        assert len(list(one.feed(other))) == 1


# -- what is written


@pytest.mark.parametrize("given_as", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("framing", [Raw(), Lines(), LengthPrefixed(), Fixed(2), Custom(netstrings)])
def test_all_kinds_of_bytes_can_be_written(framing: Framing, given_as: type[Any]) -> None:  # E10
    assert framing.encode(given_as(b"ab")) == framing.encode(b"ab")
    assert isinstance(framing.encode(given_as(b"ab")), bytes)


@pytest.mark.parametrize("data", ["text", 5, None, [1, 2]])
@pytest.mark.parametrize("framing", [Raw(), Lines(), LengthPrefixed(), Fixed(4), Custom(netstrings)])
def test_nothing_but_bytes_can_be_written(framing: Framing, data: object) -> None:  # E10
    with pytest.raises(TypeError, match=f"not {type(data).__name__}"):
        framing.encode(data)


@pytest.mark.parametrize(
    ("framing", "data", "error"),
    [
        (LengthPrefixed(1), b"x" * 256, FrameTooLarge),
        (LengthPrefixed(max_size=3), b"abcd", FrameTooLarge),
        (Fixed(3), b"ab", FrameError),
        (Fixed(3), b"abcd", FrameError),
        (Lines(encoding="ascii"), "ä", UnicodeEncodeError),
    ],
)
def test_what_makes_no_frame_cannot_be_written(framing: Framing, data: Any, error: type[Exception]) -> None:  # E10
    with pytest.raises(error):
        framing.encode(data)


# -- settings

BAD: Sequence[tuple[str, Any]] = [
    ("delimiter", lambda: Lines(b"")),
    ("delimiter", lambda: Lines("\n")),  # type: ignore[arg-type]
    ("max_size", lambda: Lines(max_size=0)),
    ("max_size", lambda: Lines(max_size=1.5)),  # type: ignore[arg-type]
    ("encoding", lambda: Lines(encoding="no such encoding")),
    ("size", lambda: LengthPrefixed(3)),
    ("size", lambda: LengthPrefixed(0)),
    ("byteorder", lambda: LengthPrefixed(byteorder="middle")),  # type: ignore[arg-type]
    ("max_size", lambda: LengthPrefixed(max_size=-1)),
    ("size", lambda: Fixed(0)),
    ("size", lambda: Fixed(True)),
    ("size", lambda: Fixed("4")),  # type: ignore[arg-type]
    ("decode", lambda: Custom(5)),  # type: ignore[arg-type]
    ("encode", lambda: Custom(netstrings, 5)),  # type: ignore[arg-type]
    ("max_size", lambda: Custom(netstrings, max_size=0)),
]


@pytest.mark.parametrize(("field", "make"), BAD)
def test_settings_that_make_no_sense_are_named(field: str, make: Any) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field


def test_the_largest_frame_is_what_its_length_can_say() -> None:  # E10
    assert LengthPrefixed(1, max_size=1000).max_size == 255
