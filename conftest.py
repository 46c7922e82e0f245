"""Runs the Python code blocks of README.md and docs/ as tests: an example that stops working fails the build.

The recipes are programs of several files, so tests/test_recipes.py runs those.
"""

from unittest import SkipTest

import pytest
from sybil import Example, Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    pattern="*.md",
    excludes=["docs/recipes/*.md"],
).pytest()

_outcomes: dict[tuple[str, int], BaseException | None] = {}
"""What came of the blocks that this process has run, by their place."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run the blocks above first, for it builds on them: several processes may share a page, or somebody wants one."""
    if not isinstance(item, SybilItem):
        return
    block = item.example
    for above in block.document.examples():
        if above.start < block.start:
            outcome = _outcome(above)
            if outcome is not None and not isinstance(outcome, SkipTest):
                pytest.fail(f"it builds on the block of line {above.line}, which fails: {outcome!r}", pytrace=False)
    item.runtest = lambda: _run(block)  # type: ignore[method-assign]


def _run(block: Example) -> None:
    outcome = _outcome(block)
    if outcome is not None:
        raise outcome


def _outcome(block: Example) -> BaseException | None:
    place = (str(block.path), block.start)
    if place not in _outcomes:
        try:
            block.evaluate()
        except Exception as exc:
            _outcomes[place] = exc
        else:
            _outcomes[place] = None
    return _outcomes[place]
