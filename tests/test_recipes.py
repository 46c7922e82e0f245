"""Every recipe of the docs does what its page says, for one who copies its files into an empty folder.

A page has files, each after its name in bold, and terminal sessions (`console` blocks): commands after a `$`, and what
they print. Each command is run as a user would, except that `curl` is played by urllib, and that a server is given a
socket which listens already, so that no port has to be guessed and nobody has to wait until it is ready.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest

DEADLINE = 120.0
"""Seconds that a command may take. Never reached unless something is wrong."""
DOCS = Path(__file__).parents[1] / "docs"
RECIPES = sorted(path for path in (DOCS / "recipes").glob("*.md") if path.name != "index.md")
PAGES = [*RECIPES, DOCS / "dispatchers.md"]
EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)

_FILE = re.compile(r"^\*\*([\w.]+)\*\*\n\n(?:<!---[^\n]*-->\n\n)?```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"\b\d+\.\d\ds\b")
_KEPT = frozenset({"PYTEST_PLUGINS"})
_http = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy this machine has


class Command(NamedTuple):
    text: str
    output: list[str]


def files_of(page: Path) -> dict[str, str]:
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))


def commands_of(page: Path) -> Iterator[Command]:
    for session in _SESSION.findall(page.read_text(encoding="utf-8")):
        command: Command | None = None
        for line in session.splitlines():
            if line.startswith("$ "):
                if command is not None:
                    yield command
                command = Command(line[2:], [])
            else:
                assert command is not None, f"{page.name}: there is output before the first command"
                command.output.append(line)
        if command is not None:
            yield command


class Terminal:
    """A shell in a folder, as far as recipes need one: with at most one program in the background."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []
        self._background: subprocess.Popen[str] | None = None
        # Where the server listens that was last started.
        self._socket: socket.socket | None = None

    def enter(self, command: Command) -> list[str]:
        """What a command prints. In the background, so many lines as are expected."""
        text = command.text
        if text.endswith(" &"):
            self._background = self._start(text.removesuffix(" &"))
            return self._read(len(command.output))
        if text.startswith("curl "):
            return self._request(shlex.split(text))
        if text == "kill -TERM %1":
            assert self._background is not None
            self._background.send_signal(signal.SIGTERM)
            return self._read(None)
        if text == "wait %1; echo $?":
            assert self._background is not None
            code = self._background.wait(DEADLINE)
            return [str(code if code >= 0 else 128 - code)]
        program = self._start(text)
        output, _ = program.communicate(timeout=DEADLINE)
        assert program.returncode == 0, output
        return output.splitlines()

    def _start(self, text: str) -> subprocess.Popen[str]:
        name, *arguments = shlex.split(text)
        if name == "uvicorn":
            arguments = ["-m", name, *self._listening(arguments)]
        else:
            assert name == "python", f"a terminal of these tests does not know the command {name!r}"
        program = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self._folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=() if self._socket is None else (self._socket.fileno(),),
        )
        self._started.append(program)
        return program

    def _listening(self, arguments: list[str]) -> list[str]:
        """The same, with a socket that listens on a free port in place of the port."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        place = arguments.index("--port")
        return [*arguments[:place], "--fd", str(self._socket.fileno()), *arguments[place + 2 :]]

    def _read(self, number: int | None) -> list[str]:
        """So many lines of the program in the background, or all that are left."""
        assert self._background is not None
        output = self._background.stdout
        assert output is not None
        found: list[str] = []
        reader = threading.Thread(target=_read_lines, args=(output, number, found), daemon=True)
        reader.start()
        reader.join(DEADLINE)
        return found

    def _request(self, arguments: list[str]) -> list[str]:
        """What `curl -w ' %{http_code}\\n' -X METHOD URL` prints."""
        assert self._socket is not None
        curl, write_out, form, request, method, url = arguments
        assert (curl, write_out, form, request) == ("curl", "-w", r" %{http_code}\n", "-X")
        url = url.replace(":8000", f":{self._socket.getsockname()[1]}")
        try:
            with _http.open(urllib.request.Request(url, method=method), timeout=DEADLINE) as response:
                return [f"{response.read().decode()} {response.status}"]
        except urllib.error.HTTPError as refused:
            with refused:
                return [f"{refused.read().decode()} {refused.status}"]

    def close(self) -> None:
        """End what still runs."""
        for program in self._started:
            program.kill()  # has no effect on one that has ended
            program.communicate()
        if self._socket is not None:
            self._socket.close()


def _read_lines(output: IO[str], number: int | None, found: list[str]) -> None:
    while number is None or len(found) < number:
        line = output.readline()
        if not line:
            return
        found.append(line.rstrip("\n"))


def _environment() -> dict[str, str]:
    """Ours, without what pytest has put there for us; what a program prints is seen at once, and in order."""
    ours = {name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith("PYTEST_")}
    return {**ours, "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


@EACH_PAGE
def test_it_does_what_its_page_says(page: Path, tmp_path: Path, terminal: Terminal) -> None:
    for name, text in files_of(page).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for command in commands_of(page):
        printed = [_SECONDS.sub("0.05s", line) for line in terminal.enter(command)]
        assert printed == command.output, f"$ {command.text}"


@EACH_PAGE
def test_every_program_on_its_page_is_run(page: Path) -> None:
    entered = " ".join(command.text for command in commands_of(page))
    programs = {Path(name).stem: text for name, text in files_of(page).items() if name.endswith(".py")}
    assert programs
    for name in programs:
        imported = any(f"from {name} import" in text for text in programs.values())
        collected = name.startswith("test_") and "-m pytest" in entered
        assert imported or collected or re.search(rf"\b{name}\b", entered), f"{name}.py is never run"


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_there_is_no_code_in_a_recipe_that_is_not_a_file(page: Path) -> None:
    blocks = page.read_text(encoding="utf-8").count("\n```python\n")
    assert blocks == sum(name.endswith(".py") for name in files_of(page))


def test_every_recipe_is_linked_from_the_index_of_the_recipes() -> None:
    index = (DOCS / "recipes" / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in RECIPES if f"({page.name})" not in index] == []
    assert "(recipes/index.md)" in (DOCS / "index.md").read_text(encoding="utf-8")
