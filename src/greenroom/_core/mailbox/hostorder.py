"""Orders that a cell's host knows by a number."""

from __future__ import annotations

__all__ = ["HostOrder"]


class HostOrder:
    """An order that the host of a cell carries out itself, by its number: saves a call, at the start and at the end."""

    __slots__ = ("name", "what")

    def __init__(self, what: int, name: str) -> None:
        self.what = what
        self.name = name

    def __repr__(self) -> str:
        return f"<order to {self.name}>"
