"""An extension of griffe, which reads the docstrings for the reference pages.

Docstrings are written for `help`. Two things about them have to change for a site: an example that begins with `>>>`
would be a quotation in Markdown, and a few methods have their types in one place, and their text or options in another.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["ReferenceDocstrings", "with_examples_fenced"]

_EXAMPLE = re.compile(r"^>>> .*?(?=\n\n(?!>>> )|\Z)", re.MULTILINE | re.DOTALL)
_TEXTS = {
    "actor.messaging.ref.ActorRef": "actor.messaging.address.Address",
    "actor.api.spawn.Spawns": "actor.spawner.Spawner",
}
"""Classes whose methods type checkers see, and the classes that have their code and their docstrings."""
_OPTIONS = {
    "actor.api.spawn.Spawns.spawn": "actor.spawner.Spawner.spawn",
    "actor.api.context.Context.spawn": "actor.api.spawn.spawn_child",
}
"""Functions that take any keywords, and those that have the same ones spelled out."""


def with_examples_fenced(text: str) -> str:
    """The docstring with its examples as code blocks.

    >>> with_examples_fenced("Adds.\\n\\n>>> 1 + 1\\n2\\n\\nNothing else.").splitlines()
    ['Adds.', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'Nothing else.']
    """
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0].rstrip()}\n```", text)


class ReferenceDocstrings(griffe.Extension):
    """Found and used by griffe, as mkdocs.yml says."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when the whole package has been read."""
        for typed, coded in _TEXTS.items():
            source = pkg[coded]
            for name, member in pkg[typed].members.items():
                said = source[name].docstring if name in source.members else None
                if said is not None:
                    member.docstring = griffe.Docstring(
                        said.value, parent=member, parser=said.parser, parser_options=said.parser_options
                    )
        for shown, spelled_out in _OPTIONS.items():
            pkg[shown].parameters = pkg[spelled_out].parameters
        _polish(pkg)


def _polish(found: griffe.Object | griffe.Alias) -> None:
    """Fence its examples, and show what defaults are rather than what they are called; likewise in all it holds."""
    if found.is_alias:
        return
    if found.docstring is not None:
        found.docstring.value = with_examples_fenced(found.docstring.value)
    for parameter in found.parameters if found.is_function else ():
        constant = found.module.members.get(str(parameter.default))
        if isinstance(constant, griffe.Attribute):
            parameter.default = str(constant.value)
    for member in found.members.values():
        _polish(member)
