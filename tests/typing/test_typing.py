"""What type checkers say: nothing about a good program, and the right thing about every bad one (B7)."""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

import greenroom
from greenroom import Context
from tests.typing import good_program, supervised_program
from tests.typing.bad_programs import BAD_PROGRAMS, MARK, OPTIONS, program_of
from tests.typing.pages import PAGES, REPOSITORY, program_of_page

HERE = Path(__file__).parent
HOUSE = Path(greenroom.__file__).parents[1]
"""Where the package under test is found."""
LINT = Path(sys.prefix).parent / "lint" / "bin"
"""Where `make lint` has its tools: beside the environment of the tests."""

GOOD_PROGRAMS = ["good_program", "supervised_program"]

DEADLINE = 240.0
Errors = dict[str, dict[int, list[str]]]
"""What was found, by file and line."""


def tool(name: str) -> str:
    """A checker beside this Python, in `make lint`'s environment, or on the path."""
    for folder in (Path(sys.executable).parent, LINT):
        found = shutil.which(name, path=str(folder))
        if found:
            return found
    on_path = shutil.which(name)
    if on_path is None:
        pytest.skip(f"{name} is not installed in this environment; `make lint` installs it")
    return on_path


def run(command: list[str], folder: Path, **environ: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: it found errors
    return done.stdout


def mypy(folder: Path) -> Errors:
    # A package that is installed is found where it is, and may not be on the path as well.
    path = {} if HOUSE.name == "site-packages" else {"MYPYPATH": str(HOUSE)}
    command = [tool("mypy"), "--strict", "--follow-imports=silent", "--no-error-summary", "--hide-error-context"]
    command += [
        "--python-executable",
        sys.executable,
        "--cache-dir",
        str(folder / "cache"),
        "--config-file",
        os.devnull,
    ]
    output = run([*command, "programs"], folder, **path)
    found: Errors = defaultdict(lambda: defaultdict(list))
    for line in output.splitlines():
        match = re.match(r"programs[/\\](\w+)\.py:(\d+): error: (.*)", line)
        if match:
            found[match[1]][int(match[2])].append(match[3])
        else:
            assert ": note: " in line, line
    return found


def pyright(folder: Path) -> Errors:
    settings = {"include": ["programs"], "extraPaths": [str(HOUSE)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    output = run([tool("pyright"), "--outputjson", "--pythonpath", sys.executable], folder)
    report = json.loads(output)
    assert report["summary"]["filesAnalyzed"] > 0
    found: Errors = defaultdict(lambda: defaultdict(list))
    for one in report["generalDiagnostics"]:
        if one["severity"] == "error":
            found[Path(one["file"]).stem][one["range"]["start"]["line"] + 1].append(one["message"])
    return found


CHECKERS = {"mypy": mypy, "pyright": pyright}


@pytest.fixture(scope="module", params=CHECKERS)
def errors_found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """Everything a checker finds, in one run over all programs: each run costs seconds, each program hardly any."""
    tool(request.param)
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    report = shared / f"{request.param}.json"
    with (shared / f"{request.param}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes, the others wait for the first
        if not report.exists():
            report.write_text(json.dumps(check(CHECKERS[request.param], tmp_path_factory.mktemp(request.param))))
    found = json.loads(report.read_text())
    return {name: {int(line): told for line, told in lines.items()} for name, lines in found.items()}


def check(checker: Callable[[Path], Errors], folder: Path) -> Errors:
    programs = folder / "programs"
    programs.mkdir()
    for name in GOOD_PROGRAMS:
        (programs / f"{name}.py").write_text((HERE / f"{name}.py").read_text(encoding="utf-8"), encoding="utf-8")
    for name, page in PAGES.items():
        (programs / f"{name}.py").write_text(program_of_page(page), encoding="utf-8")
    shutil.copytree(REPOSITORY / "examples", folder / "examples")  # a page may use them
    for name, snippet in BAD_PROGRAMS.items():
        (programs / f"{name}.py").write_text(program_of(snippet), encoding="utf-8")
    return checker(folder)


@pytest.mark.parametrize("name", GOOD_PROGRAMS)
def test_a_good_program_has_no_errors(errors_found: Errors, name: str) -> None:
    assert dict(errors_found.get(name, {})) == {}


@pytest.mark.parametrize("name", PAGES)
def test_the_code_on_a_page_has_no_errors(errors_found: Errors, name: str) -> None:
    assert dict(errors_found.get(name, {})) == {}


@pytest.mark.parametrize("name", BAD_PROGRAMS)
def test_a_bad_program_is_rejected_where_it_is_wrong(errors_found: Errors, name: str) -> None:
    lines = program_of(BAD_PROGRAMS[name]).splitlines()
    wrong = [number for number, line in enumerate(lines, start=1) if line.endswith(MARK)]
    assert len(wrong) == 1
    assert sorted(errors_found.get(name, {})) == wrong, dict(errors_found.get(name, {}))


def test_every_option_of_spawn_is_in_these_programs() -> None:
    parameters = inspect.signature(Context.spawn).parameters.values()
    assert {one.name for one in parameters if one.kind is one.KEYWORD_ONLY} == OPTIONS.keys()


def test_a_good_program_runs() -> None:
    async def main() -> None:
        async with asyncio.timeout(120.0):
            await good_program.main()
            await supervised_program.main()

    asyncio.run(main())
    good_program.sync_main()
