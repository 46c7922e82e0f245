"""The compiled half of the build; everything else is in pyproject.toml.

A module with a sibling .pxd is hot: Cython compiles it, and its .py travels along in the wheel. Hot modules cimport one
another, so compiling is all or nothing: after one failure the whole wheel is plain Python.

GREENROOM_PURE=1               do not compile
GREENROOM_REQUIRE_COMPILED=1   a failed compile is an error instead of a plain-Python wheel
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = Path("src")
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # annotations are for readers and type checkers; the .pxd alone decides C types
    "auto_pickle": False,  # what can be pickled says how; the code for the rest was a sixth of all
    "binding": False,  # plain method descriptors, which the interpreter calls without a detour
    "cdivision": True,
    "embedsignature": True,  # or `help` and `inspect.signature` would know no arguments
    "embedsignature.format": "clinic",
    "nonecheck": True,  # None where a cell is wanted is an AttributeError, not a crash; hot modules switch it off
    "initializedcheck": False,
    "freethreading_compatible": True,  # so that importing it leaves the GIL off; `Cell` says what that takes
}
# A newcomer waits for this. -O3 shows in no row of `make bench`; -O2 does, but only where messages and lives pass.
QUICK = ["-O1", "-g0", "-fno-semantic-interposition"] if os.name == "posix" else []
THOROUGH = ["-O2", *QUICK[1:]]
HOTTEST = {
    *("address", "admission", "behavior", "cell", "celltable", "connection"),
    *("lifecycle", "loop", "loopcontext", "mailbox", "question", "receipt", "record", "ring", "runqueue"),
    *("spawner", "spec", "spscring", "starting", "stepping", "stopping", "tickbudget", "timers", "visits"),
}


def is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


PURE = is_set("GREENROOM_PURE")
REQUIRE_COMPILED = is_set("GREENROOM_REQUIRE_COMPILED")


def hot_modules() -> list[Extension]:
    pairs = ((pxd, pxd.with_suffix(".py")) for pxd in sorted(SOURCES.rglob("*.pxd")))
    return [
        Extension(
            ".".join(pxd.relative_to(SOURCES).with_suffix("").parts),
            [source.as_posix()],
            extra_compile_args=(THOROUGH if pxd.stem in HOTTEST else QUICK) if QUICK else [],
        )
        for pxd, source in pairs
        if source.exists()
    ]


class BuildHotModules(build_ext):
    """Compile every hot module, or none."""

    def run(self) -> None:
        try:
            if self.inplace or self.editable_mode:
                raise RuntimeError("an editable build is never compiled: its .so files would shadow later edits")
            self.generate_c()
            super().run()
        except Exception as error:
            reason = " ".join(str(error).split())
            why = f"{type(error).__name__}: {reason}. Compiling needs Cython, a C compiler and the Python headers."
            if REQUIRE_COMPILED:
                raise SystemExit(f"greenroom: not compiled, though GREENROOM_REQUIRE_COMPILED is set: {why}") from error
            self.fall_back()
            print(f"greenroom: built as plain Python, same behaviour but slower: {why}", file=sys.stderr)

    def generate_c(self) -> None:
        from Cython.Build import cythonize

        self.parallel = os.cpu_count()
        generated = cythonize(
            self.extensions,
            build_dir=str(Path(self.build_temp, "cython")),
            compiler_directives=DIRECTIVES,
            include_path=[str(SOURCES)],
            nthreads=self.parallel or 0,
            force=True,
            quiet=True,
        )
        # Only the sources are taken over: setuptools has already put its own notes on the extensions it knows.
        for hot, c in zip(self.extensions, generated, strict=True):
            hot.sources = c.sources
        # The longest first, or one core waits for the other at the end.
        self.extensions.sort(key=lambda hot: -Path(hot.sources[0]).stat().st_size)

    def fall_back(self) -> None:
        for built in self.get_outputs():
            Path(built).unlink(missing_ok=True)
        self.extensions = self.distribution.ext_modules = []
        # The wheel chose its platform tag before the compile failed; without compiled files it fits every platform.
        wheel = self.distribution.get_command_obj("bdist_wheel", create=False)
        if isinstance(wheel, bdist_wheel):
            wheel.root_is_pure = True


if PURE and REQUIRE_COMPILED:
    raise SystemExit("greenroom: GREENROOM_PURE and GREENROOM_REQUIRE_COMPILED contradict each other; set at most one")

# Cython's own worker processes may import this file again: only the first is to build.
if __name__ == "__main__":
    setup(ext_modules=[] if PURE else hot_modules(), cmdclass={"build_ext": BuildHotModules})
