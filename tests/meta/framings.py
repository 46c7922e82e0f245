"""Framings of all kinds, with small limits, for tests that send rubbish."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from greenroom.errors import FrameError
from greenroom.meta import Custom, Fixed, Framing, LengthPrefixed, Lines, Raw


def short_frames(data: bytearray) -> Iterable[bytes]:
    """One digit that says how long a frame is, and the frame."""
    while data:
        if not 48 <= data[0] < 58:
            raise FrameError(f"no digit: {data[0]}")
        end = data[0] - 47
        if len(data) < end:
            return
        frame = bytes(data[1:end])
        del data[:end]
        yield frame


FRAMINGS: dict[str, Framing] = {
    "raw": Raw(),
    "lines": Lines(max_size=50),
    "text": Lines(b"\r\n", max_size=50, encoding="utf-8"),
    "length": LengthPrefixed(1, max_size=50),
    "long": LengthPrefixed(8, byteorder="little", max_size=50),
    "fixed": Fixed(7),
    "custom": Custom(short_frames, lambda data: b"%d" % len(data) + data, max_size=50),
}
all_framings = pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
