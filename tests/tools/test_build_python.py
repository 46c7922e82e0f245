"""How `make freethreaded-python` finds a source: in any archive that the package manager knows."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tools import build_python
from tools.build_python import POOL, archives, download, main, unpacked

STANZAS = """\
# Of a vendor, which has no Python.
Types: deb
URIs: https://vendor.example/apt
Suites: stable

Types: deb deb-src
URIs: http://mirror.example/debian/
 http://second.example/debian
Suites: sid
Components: main

Enabled: no
URIs: http://switched-off.example/debian
"""
LINES = """\
# deb http://comment.example/debian sid main
deb [signed-by=/usr/share/keyrings/some.gpg arch=amd64] http://lines.example/debian sid main
deb-src http://mirror.example/debian sid main
deb cdrom:[Debian]/ sid main
"""


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """An archive in a folder, without any file."""
    (tmp_path / POOL).parent.mkdir(parents=True)
    return tmp_path


def put(pool: Path, release: str) -> None:
    (pool / POOL.format(release=release)).write_text(release)


def test_all_archives_are_found_each_once_and_those_that_are_switched_off_are_not(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "all.sources").write_text(STANZAS)
    (tmp_path / "sources.list.d" / "old.list").write_text(LINES)
    (tmp_path / "sources.list.d" / "gone.list.disabled").write_text("deb http://gone.example/debian sid main\n")
    (tmp_path / "sources.list").write_text("deb http://first.example/debian stable main\n")
    assert list(archives(tmp_path)) == [
        "https://vendor.example/apt",
        "http://mirror.example/debian",
        "http://second.example/debian",
        "http://first.example/debian",
        "http://lines.example/debian",
    ]


def test_there_may_be_no_archive(tmp_path: Path) -> None:
    assert list(archives(tmp_path)) == []


def test_the_newest_release_of_an_archive_is_taken(pool: Path, tmp_path: Path) -> None:
    put(pool, "3.14.9")
    put(pool, "3.14.10")
    assert download(pool.as_uri(), tmp_path / "source") == "3.14.10"
    assert (tmp_path / "source").read_text() == "3.14.10"


def test_an_archive_may_have_none(pool: Path, tmp_path: Path) -> None:
    assert download(pool.as_uri(), tmp_path / "source") is None


def test_who_finds_no_source_is_told_where_it_was_looked_for(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sources.list").write_text(f"deb {pool.as_uri()} sid main\n")
    monkeypatch.setattr(build_python, "SOURCES", tmp_path)
    with pytest.raises(SystemExit, match=f"{tmp_path} has the source"):
        unpacked(tmp_path)


def test_what_is_built_already_is_not_built_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = tmp_path / "bin" / "python3.14t"
    python.parent.mkdir()
    python.touch()
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{python}\n"


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="name another folder"):
        main(["--gil", str(tmp_path)])


def test_its_examples_are_right() -> None:
    assert doctest.testmod(build_python).failed == 0
