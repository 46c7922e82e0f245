"""Writes docs/reference/settings.md, the tables of `spawn`'s options and of `SystemConfig`, from the source.

    python -m tools.reference

The sources are read, not imported: compiled code does not know its annotations.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Setting", "config_settings", "page", "spawn_options"]

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "reference" / "settings.md"
SOURCES = REPOSITORY / "src" / "greenroom"

_HEAD = """\
# Reference: settings

This page is made from the source by `make reference`.

## Options of `spawn`

Every `spawn` takes these, besides the arguments of the actor's constructor; on `ctx.spawn`, the parent is the actor
itself. [Actors](../actors.md) explains them.

"""
_CONFIG = """
## SystemConfig

`ActorSystem(config=SystemConfig(...))`. `SystemConfig.load("pyproject.toml")` reads `[tool.greenroom]`, then variables
of the environment: each has the name of its setting in capitals after `GREENROOM_`.

"""
_ARGUMENT = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


class Setting(NamedTuple):
    """One row of a table."""

    name: str
    type: str
    default: str
    meaning: str


def spawn_options(sources: Path = SOURCES) -> list[Setting]:
    """The options of `ActorSystem.spawn`, with what its docstring says of each."""
    spawn = _function(_class(sources / "actor" / "spawner.py", "Spawner"), "spawn")
    _, _, arguments = (ast.get_docstring(spawn) or "").partition("Args:\n")
    meanings = {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(arguments)}
    return [
        Setting(one.arg, _code(one.annotation), _code(default), meanings.get(one.arg, ""))
        for one, default in zip(spawn.args.kwonlyargs, spawn.args.kw_defaults, strict=True)
    ]


def config_settings(sources: Path = SOURCES) -> list[Setting]:
    """The fields of `SystemConfig`, with the docstring below each."""
    return list(_fields(_class(sources / "system" / "config.py", "SystemConfig").body))


def _fields(body: list[ast.stmt]) -> Iterator[Setting]:
    for field, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            yield Setting(field.target.id, _code(field.annotation), _default(field.value), _text(below))


def _default(value: ast.expr | None) -> str:
    """What a field is unless it is given; a factory's name stands for what it makes."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field":
        factory = next(_code(keyword.value) for keyword in value.keywords if keyword.arg == "default_factory")
        return {"dict": "{}"}.get(factory, f"{factory}()")
    if isinstance(value, ast.Constant) and type(value.value) is int:
        return f"{value.value:_}"
    return _code(value)


def _text(below: ast.stmt | None) -> str:
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
        return " ".join(below.value.value.split())
    return ""


def _code(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


def _class(path: Path, name: str) -> ast.ClassDef:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _function(owner: ast.ClassDef, name: str) -> ast.FunctionDef:
    return next(node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == name)


def _table(settings: list[Setting]) -> str:
    def cell(code: str) -> str:
        escaped = code.replace("|", "\\|")
        return f"`{escaped}`"

    rows = [f"| {cell(one.name)} | {cell(one.type)} | {cell(one.default)} | {one.meaning} |" for one in settings]
    return "\n".join(["| name | type | default | meaning |", "|---|---|---|---|", *rows, ""])


def page(sources: Path = SOURCES) -> str:
    """The whole page."""
    return _HEAD + _table(spawn_options(sources)) + _CONFIG + _table(config_settings(sources))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(REPOSITORY)}\n")
