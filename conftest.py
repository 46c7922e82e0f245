"""Runs the Python code blocks of README.md and docs/ as tests: an example that stops working fails the build."""

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    pattern="*.md",
).pytest()
