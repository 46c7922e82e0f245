"""setup.py, tried on a package of two hot modules: what each switch builds, and what it says when it cannot."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

PYPROJECT = """
[build-system]
requires = ["setuptools", "Cython"]
build-backend = "setuptools.build_meta"
[project]
name = "greenroom"
version = "0"
[tool.setuptools.packages.find]
where = ["src"]
[tool.setuptools.package-data]
"*" = ["*.pxd", "py.typed"]
"""
FILES = {
    "pyproject.toml": PYPROJECT,
    "src/greenroom/__init__.py": "",
    "src/greenroom/py.typed": "",
    "src/greenroom/plain.py": "",
    "src/greenroom/_core/__init__.py": "",
    "src/greenroom/_core/inner.py": "class Inner:\n    def __init__(self):\n        self.count = 1\n",
    "src/greenroom/_core/inner.pxd": "cdef class Inner:\n    cdef public long count\n",
    "src/greenroom/_core/outer.py": "from greenroom._core.inner import Inner\n\ndef count(inner): return inner.count\n",
    "src/greenroom/_core/outer.pxd": "from greenroom._core.inner cimport Inner\ncpdef count(Inner inner)\n",
}
SOURCES_IN_WHEEL = {name.removeprefix("src/") for name in FILES if name.startswith("src/")}


class Build:
    """The outcome of one wheel build in a folder of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GREENROOM_")}
        code = "from setuptools import build_meta; build_meta.build_wheel('dist')"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=clean | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.failed = done.returncode != 0
        self.lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("greenroom:")]
        self.wheels = list((folder / "dist").glob("*.whl"))
        self.left_in_sources = {path.suffix for path in (folder / "src").rglob("*")} & {".c", ".so", ".pyd"}

    def contents(self) -> set[str]:
        (wheel,) = self.wheels
        return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    def is_plain(self) -> bool:
        (wheel,) = self.wheels
        return self.contents() == SOURCES_IN_WHEEL and wheel.name.endswith("-py3-none-any.whl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(REPOSITORY / "setup.py", tmp_path)
    return tmp_path


def test_hot_modules_are_compiled_and_travel_with_their_sources(folder):
    build = Build(folder, GREENROOM_REQUIRE_COMPILED="1")
    assert not build.failed
    assert build.contents() > SOURCES_IN_WHEEL
    compiled = {name.partition(".")[0] for name in build.contents() - SOURCES_IN_WHEEL}
    assert compiled == {"greenroom/_core/inner", "greenroom/_core/outer"}
    assert not build.left_in_sources


def test_pure_builds_one_wheel_for_every_platform(folder):
    build = Build(folder, GREENROOM_PURE="1")
    assert build.is_plain()
    assert not build.lines


def test_contradicting_switches_are_refused(folder):
    build = Build(folder, GREENROOM_PURE="1", GREENROOM_REQUIRE_COMPILED="1")
    assert build.failed
    assert ["contradict" in line for line in build.lines] == [True]


def test_without_a_working_compiler_the_wheel_is_plain_and_one_line_says_so(folder):
    build = Build(folder, CC="false")
    assert build.is_plain()
    assert ["built as plain Python" in line for line in build.lines] == [True]


def test_one_module_that_does_not_compile_makes_the_whole_wheel_plain(folder):
    (folder / "src/greenroom/_core/outer.pxd").write_text('cdef extern from "no_such_header.h":\n    int nothing()\n')
    build = Build(folder)
    assert build.is_plain()
    assert ["built as plain Python" in line for line in build.lines] == [True]


def test_without_cython_the_wheel_is_plain(folder):
    (folder / "Cython.py").write_text("raise ImportError('no Cython here')")
    build = Build(folder)
    assert build.is_plain()
    assert ["no Cython here" in line for line in build.lines] == [True]


def test_a_required_compile_that_fails_is_an_error(folder):
    build = Build(folder, CC="false", GREENROOM_REQUIRE_COMPILED="1")
    assert build.failed
    assert not build.wheels
    assert ["not compiled" in line for line in build.lines] == [True]
