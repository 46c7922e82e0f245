"""The headers of a request or a response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Headers"]


class Headers(Mapping[str, str]):
    """Headers by name, in any case; of several with one name the values are joined with commas, as HTTP has it.

    >>> headers = Headers([("Content-Type", "text/plain"), ("Accept", "a"), ("accept", "b")])
    >>> headers["content-type"], headers.get("ACCEPT"), headers.all("accept"), "Host" in headers
    ('text/plain', 'a, b', ['a', 'b'], False)
    """

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = [(name.lower(), value) for name, value in pairs]

    def __getitem__(self, name: str) -> str:
        found = self.all(name)
        if not found:
            raise KeyError(name)
        return ", ".join(found)

    def all(self, name: str) -> list[str]:
        """The values of all headers with this name, in their order."""
        wanted = name.lower()
        return [value for one, value in self._pairs if one == wanted]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(one == name.lower() for one, _ in self._pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for name, _ in self._pairs))

    def __len__(self) -> int:
        return len({name for name, _ in self._pairs})

    def pairs(self) -> list[tuple[str, str]]:
        """All of them, in their order."""
        return list(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({self._pairs!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Headers, (self._pairs,)
