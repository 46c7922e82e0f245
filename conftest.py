"""Runs the Python code blocks of README.md and docs/ as tests: an example that stops working fails the build."""

from contextlib import suppress
from unittest import SkipTest

import pytest
from sybil import Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    pattern="*.md",
).pytest()

_run: set[tuple[str, int]] = set()
"""The blocks that this process has run, by their place."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run the blocks above first, for it builds on them: several processes may share a page, or somebody wants one."""
    if not isinstance(item, SybilItem):
        return
    block = item.example
    for above in block.document.examples():
        place = (str(above.path), above.start)
        if above.start < block.start and place not in _run:
            _run.add(place)
            with suppress(SkipTest):
                above.evaluate()
    _run.add((str(block.path), block.start))
