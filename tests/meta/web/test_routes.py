"""Which target a request finds (E10): pure tables, without a server; and what headers are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from greenroom.errors import ConfigError
from greenroom.meta.web.messages import Headers
from greenroom.meta.web.routes import Routes

BOOKS = {
    "/": "front",
    "GET /books": "list",
    "POST /books": "add",
    "GET /books/new": "form",
    "GET /books/{id}": "book",
    "DELETE /books/{id}": "remove",
    "GET /books/{id}/pages/{page}": "page",
    "/any/{name}": "any",
    "/static/*": "files",
    "/static/deep/*": "deep files",
    "GET /static/deep/exact": "exact",
    "HEAD /both": "head",
    "GET /both": "get",
}

FOUND: list[tuple[str, str, str, dict[str, str]]] = [
    ("GET", "/", "front", {}),
    ("PATCH", "/", "front", {}),
    ("GET", "/books", "list", {}),
    ("POST", "/books", "add", {}),
    ("HEAD", "/books", "list", {}),  # as GET
    ("GET", "/books/new", "form", {}),  # exact comes first
    ("GET", "/books/newer", "book", {"id": "newer"}),
    ("DELETE", "/books/new", "remove", {"id": "new"}),  # the exact path does not have this method
    ("GET", "/books/7", "book", {"id": "7"}),
    ("HEAD", "/books/7", "book", {"id": "7"}),
    ("GET", "/books/ä b", "book", {"id": "ä b"}),
    ("GET", "/books/7/pages/12", "page", {"id": "7", "page": "12"}),
    ("WHATEVER", "/any/thing", "any", {"name": "thing"}),
    ("GET", "/any/a.b-c~d", "any", {"name": "a.b-c~d"}),
    ("GET", "/static/a", "files", {}),
    ("GET", "/static/a/b/c.css", "files", {}),
    ("GET", "/static/", "files", {}),
    ("GET", "/static", "files", {}),
    ("GET", "/static/deep/x", "deep files", {}),  # the longest prefix
    ("GET", "/static/deep/exact", "exact", {}),
    ("PUT", "/static/deep/exact", "deep files", {}),
    ("HEAD", "/both", "head", {}),
    ("GET", "/both", "get", {}),
]


@pytest.mark.parametrize(("method", "path", "target", "params"), FOUND)
def test_a_request_finds_its_target(method: str, path: str, target: str, params: dict[str, str]) -> None:  # E10
    found = Routes(BOOKS).find(method, path)
    assert (found.target, dict(found.params)) == (target, params)


@pytest.mark.parametrize(
    "path",
    [
        *("", "/other", "/book", "/books/", "/books/7/", "/books/7/pages", "/books/7/pages/", "/books//pages/1"),
        *("//", "/staticky", "/any", "/any/", "/any/a/b", "/Books", "/books\n", "/any/thing\n/"),
    ],
)
def test_what_is_not_there_is_not_found(path: str) -> None:  # E10
    found = Routes(BOOKS).find("GET", path)
    assert (found.target, found.allowed) == (None, ())


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/books", {"GET", "POST"}),
        ("POST", "/books/7", {"GET", "DELETE"}),
        ("POST", "/books/new", {"GET", "DELETE"}),
        ("POST", "/both", {"HEAD", "GET"}),
        ("get", "/books/7", {"GET", "DELETE"}),  # methods have a case
        ("POST", "/books/1/pages/2", {"GET"}),
    ],
)
def test_a_path_that_has_other_methods_says_which(method: str, path: str, allowed: set[str]) -> None:  # E10
    found = Routes(BOOKS).find(method, path)
    assert found.target is None
    assert set(found.allowed) >= allowed
    assert set(found.allowed) <= {*allowed, "HEAD"}
    assert len(found.allowed) == len(set(found.allowed))


@pytest.mark.parametrize(
    ("route", "path", "mount"),
    [
        ("/app/*", "/app/x", "/app"),
        ("/app/*", "/app", "/app"),
        ("/a/b/*", "/a/b/c/d", "/a/b"),
        ("/*", "/x/y", ""),
        ("/*", "/", ""),
    ],
)
def test_a_prefix_says_where_it_is_mounted(route: str, path: str, mount: str) -> None:  # E10
    found = Routes({route: "app"}).find("GET", path)
    assert (found.target, found.mount) == ("app", mount)


def test_a_method_comes_before_any_method() -> None:  # E10
    routes = Routes({"/x": "any", "GET /x": "get"})
    assert [routes.find(method, "/x").target for method in ("GET", "HEAD", "POST")] == ["get", "get", "any"]


def test_signs_that_mean_something_in_patterns_mean_nothing_in_paths() -> None:  # E10
    routes = Routes({"/a.b/{x}": "dot", "/(c)+/{x}": "brackets"})
    assert routes.find("GET", "/a.b/1").target == "dot"
    assert routes.find("GET", "/axb/1").target is None
    assert routes.find("GET", "/(c)+/1").target == "brackets"
    assert routes.find("GET", "/cc/1").target is None


def test_a_parameter_can_be_part_of_a_segment() -> None:  # E10
    routes = Routes({"/file-{name}.{kind}": "file"})
    assert dict(routes.find("GET", "/file-a.txt").params) == {"name": "a", "kind": "txt"}
    assert routes.find("GET", "/file-.txt").target is None


def test_all_targets_are_listed() -> None:  # E10
    assert sorted(Routes(BOOKS).targets()) == sorted(BOOKS.values())


def test_there_may_be_no_routes() -> None:  # E10
    assert Routes({}).find("GET", "/").target is None


@pytest.mark.parametrize(
    "key",
    [
        *("", "books", "GET", "GET books", "get /books", "GET  /books", "GET/books", "/a*b", "/*/b"),
        *(None, 5, b"/books", ("GET", "/books")),
        *("/{a}/{a}", "/{1a}"),  # no names for parameters
    ],
)
def test_what_is_no_route_is_said_at_once(key: Any) -> None:  # E10
    with pytest.raises(ConfigError) as caught:
        Routes({key: "target"})
    assert caught.value.field == "routes"


def test_a_large_table_finds_the_last_as_it_finds_the_first() -> None:  # E10
    routes = Routes({f"GET /{number}/{{id}}": number for number in range(500)})
    assert routes.find("GET", "/0/x").target == 0
    assert routes.find("GET", "/499/x").target == 499
    assert routes.find("GET", "/500/x").target is None


# Headers

PAIRS = [("Content-Type", "text/plain"), ("Accept", "a"), ("X", ""), ("accept", "b"), ("ACCEPT", "c, d")]


def test_headers_are_found_in_any_case() -> None:  # E10
    headers = Headers(PAIRS)
    assert headers["content-type"] == headers["CONTENT-TYPE"] == headers.get("Content-type") == "text/plain"
    assert "X" in headers
    assert "x" in headers
    assert "y" not in headers
    nobody: Any = 5
    assert nobody not in headers
    assert headers.get("y") is None
    with pytest.raises(KeyError):
        headers["y"]


def test_headers_of_one_name_are_joined_or_listed() -> None:  # E10
    headers = Headers(PAIRS)
    assert headers["accept"] == "a, b, c, d"
    assert headers.all("Accept") == ["a", "b", "c, d"]
    assert headers.all("nothing") == []
    assert headers["x"] == ""


def test_headers_are_a_mapping_in_their_order() -> None:  # E10
    headers = Headers(PAIRS)
    assert list(headers) == ["content-type", "accept", "x"]
    assert len(headers) == 3
    assert dict(headers) == {"content-type": "text/plain", "accept": "a, b, c, d", "x": ""}
    assert headers.pairs() == [(name.lower(), value) for name, value in PAIRS]
    headers.pairs().clear()
    assert len(headers) == 3
    assert len(Headers()) == 0
    assert not Headers()


def test_headers_can_be_copied_pickled_compared_and_shown() -> None:  # E10
    headers = Headers(PAIRS)
    for twin in (copy.copy(headers), copy.deepcopy(headers), pickle.loads(pickle.dumps(headers))):
        assert twin.pairs() == headers.pairs()
        assert twin == headers
    assert headers == {"content-type": "text/plain", "accept": "a, b, c, d", "x": ""}
    assert "text/plain" in repr(headers)
