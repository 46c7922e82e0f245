"""The address of an actor, valid in any process: a ref is sent as one.

>>> there = ActorAddress("shop@4711.1", 4294967301, "/orders/12")
>>> print(there)
greenroom://shop@4711.1/orders/12#4294967301
>>> ActorAddress.parse(str(there)) == there
True
"""

from __future__ import annotations

from typing import NamedTuple

from greenroom.errors import BadArgument

_SCHEME = "greenroom://"


class ActorAddress(NamedTuple):
    """The token of the actor's system, its id there, and its path for people to read."""

    system: str
    id: int
    path: str

    def __str__(self) -> str:
        return f"{_SCHEME}{self.system}{self.path}#{self.id}"

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def above(self) -> str:
        """The path of the parent; empty if there is none."""
        return self.path.rpartition("/")[0]

    @classmethod
    def parse(cls, text: str) -> ActorAddress:
        """The inverse of `str()`."""
        start, _, number = text.rpartition("#")
        system, slash, path = start.removeprefix(_SCHEME).partition("/")
        if not text.startswith(_SCHEME) or not system or not slash or not path or not number.isdecimal():
            raise BadArgument(f"{text!r} is no address of an actor, as in 'greenroom://system@1.1/parent/child#42'")
        return cls(system, int(number), f"/{path}")
