"""A plasma: waves of colour that cross one another, two pixels to a character."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import hypot, pi, sin

WIDTH, HEIGHT = 60, 20
COLOURS = 96


def rows_of(number: int) -> Iterator[str]:
    """The rows of a frame, from the top, each when it is wanted. They depend on nothing but the frame's number."""
    time = number / 12
    across = [sin(x / 7 + time) for x in range(WIDTH)]
    slanted = [sin(total / 11 + time / 2) for total in range(WIDTH + 2 * HEIGHT)]
    ripple = [sin(distance / 5 - time) for distance in range(WIDTH + 2 * HEIGHT)]

    def colour(x: int, y: int, down: float) -> int:
        wave = across[x] + slanted[x + y] + ripple[distance_to_centre(x, y)] + down
        return int((wave + 4) * 12) % COLOURS

    for row in range(HEIGHT):
        upper, lower = (sin(y / 5 - time * 0.8) for y in (2 * row, 2 * row + 1))
        yield "".join(cell(colour(x, 2 * row, upper), colour(x, 2 * row + 1, lower)) for x in range(WIDTH)) + "\x1b[0m"


@cache
def distance_to_centre(x: int, y: int) -> int:
    return round(hypot(x - WIDTH / 2, y - HEIGHT))


@cache
def cell(upper: int, lower: int) -> str:
    """One character with two pixels, one above the other."""
    return f"\x1b[38;5;{code_of(upper)};48;5;{code_of(lower)}m▀"


@cache
def code_of(colour: int) -> int:
    """The nearest of the 216 colours that terminals have in common: once around the rainbow."""
    angle = 2 * pi * colour / COLOURS
    red, green, blue = (round(2.5 + 2.5 * sin(angle + third * 2 * pi / 3)) for third in range(3))
    return 16 + 36 * red + 6 * green + blue
