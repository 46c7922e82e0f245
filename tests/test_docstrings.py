"""Every example in a docstring does what it says."""

import doctest
import importlib
import pkgutil

import pytest

import greenroom

MODULES = [info.name for info in pkgutil.walk_packages(greenroom.__path__, "greenroom.")]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples_at_all() -> None:
    finder = doctest.DocTestFinder()
    examples = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(examples) >= 5
