"""On a free-threaded interpreter the GIL stays off, whatever of the package is imported, and without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import greenroom

pytestmark = pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has a GIL")

IMPORTS_ALL = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(len(sys.argv) - 1, sys._is_gil_enabled())
"""


def modules() -> list[str]:
    house = Path(greenroom.__file__).parent
    files = (file.relative_to(house.parent).with_suffix("") for file in sorted(house.rglob("*.py")))
    return [".".join(file.parts).removesuffix(".__init__") for file in files if file.name != "__main__"]


def test_every_module_is_imported_without_the_gil_and_without_a_warning() -> None:
    names = modules()
    assert len(names) > 100
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-W", "error", "-c", IMPORTS_ALL, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert (done.stdout, done.stderr) == (f"{len(names)} False\n", "")


def test_these_tests_run_without_it() -> None:
    is_gil_enabled = getattr(sys, "_is_gil_enabled")  # noqa: B009 - from 3.13 on
    assert is_gil_enabled() is False
