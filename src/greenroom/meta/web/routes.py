"""Which actor answers a request.

>>> routes = Routes({"/": "front", "GET /books/{id}": "books", "/static/*": "files"})
>>> routes.find("GET", "/books/7").target, routes.find("GET", "/books/7").params
('books', {'id': '7'})
>>> routes.find("POST", "/books/7").allowed
('GET',)
>>> routes.find("GET", "/static/a/b").target, routes.find("GET", "/other").target
('files', None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from greenroom.errors import ConfigError

__all__ = ["Found", "Routes"]

_METHOD = re.compile(r"[A-Z]+\Z")
_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(slots=True)
class Found:
    """What was found for a request: its target, or the methods that there are, or neither."""

    target: Any = None
    params: Mapping[str, str] = field(default_factory=dict)
    allowed: tuple[str, ...] = ()
    mount: str = ""
    """The part of the path before the `*`."""


class Routes:
    """Targets by path. Exact paths come first, then those with parameters, then prefixes, the longest first."""

    def __init__(self, routes: Mapping[str, Any]) -> None:
        # By path: by method, "" for all.
        self._exact: dict[str, dict[str, Any]] = {}
        self._patterns: dict[str, tuple[re.Pattern[str], dict[str, Any]]] = {}
        self._prefixes: dict[str, dict[str, Any]] = {}
        for key, target in routes.items():
            method, path = _parted(key)
            self._book(path)[method] = target
        self._prefixes = dict(sorted(self._prefixes.items(), key=lambda one: -len(one[0])))

    def _book(self, path: str) -> dict[str, Any]:
        if path.endswith("*"):
            return self._prefixes.setdefault(path[:-1], {})
        if "{" not in path:
            return self._exact.setdefault(path, {})
        if path not in self._patterns:
            parts = _PARAMETER.split(path)
            names = parts[1::2]
            if len(set(names)) < len(names) or not all(name.isidentifier() for name in names):
                raise ConfigError("routes", path, "must have a different name for each parameter, as in {id}")
            text = "".join(
                re.escape(part) if index % 2 == 0 else f"(?P<{part}>[^/]+)" for index, part in enumerate(parts)
            )
            self._patterns[path] = (re.compile(text + r"\Z"), {})
        return self._patterns[path][1]

    def find(self, method: str, path: str) -> Found:
        """The target for a request."""
        allowed: list[str] = []
        for book, params, mount in self._candidates(path):
            chosen = method if method in book else "GET" if method == "HEAD" and "GET" in book else ""
            if chosen in book:
                return Found(book[chosen], params, mount=mount)
            allowed += book
        return Found(allowed=tuple(dict.fromkeys(allowed)))

    def _candidates(self, path: str) -> list[tuple[dict[str, Any], Mapping[str, str], str]]:
        found: list[tuple[dict[str, Any], Mapping[str, str], str]] = []
        if path in self._exact:
            found.append((self._exact[path], {}, ""))
        for pattern, book in self._patterns.values():
            match = pattern.match(path)
            if match is not None:
                found.append((book, match.groupdict(), ""))
        for prefix, book in self._prefixes.items():
            if path.startswith(prefix) or path == prefix.rstrip("/"):
                found.append((book, {}, prefix.rstrip("/")))
        return found

    def targets(self) -> list[Any]:
        """All of them."""
        books = [*self._exact.values(), *(book for _, book in self._patterns.values()), *self._prefixes.values()]
        return [target for book in books for target in book.values()]


def _parted(key: object) -> tuple[str, str]:
    method, space, path = key.partition(" ") if isinstance(key, str) else ("", "", "")
    if not space:
        method, path = "", method
    if not path.startswith("/") or (method and not _METHOD.match(method)) or "*" in path[:-1]:
        raise ConfigError("routes", key, 'must be a path, as in "/books/{id}", "GET /books" or "/static/*"')
    return method, path
