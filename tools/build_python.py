"""Builds CPython 3.14 from its source: ``python -m tools.build_python FOLDER``, or ``--gil FOLDER``.

The source is that of Debian's `python3.14`, from the first archive that has it, of those which this machine's package
manager is set up to use: Debian's own or mirrors. Nothing is written outside FOLDER, but for a log beside it. It takes
about five minutes on two cores.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

VERSION = "3.14"
POOL = f"pool/main/p/python{VERSION}/python{VERSION}_{{release}}.orig.tar.xz"
RELEASES = [f"{VERSION}.{patch}" for patch in range(20, -1, -1)]
"""Newest first. A mirror need not list its files, so they are asked for one by one."""
SOURCES = Path("/etc/apt")
TIMEOUT = 60.0

HEADERS = {
    "openssl/ssl.h": "libssl-dev",
    "zlib.h": "zlib1g-dev",
    "ffi.h": "libffi-dev",
    "bzlib.h": "libbz2-dev",
    "lzma.h": "liblzma-dev",
    "sqlite3.h": "libsqlite3-dev",
}
"""What the modules that our tests and their tools import are compiled with, and Debian's packages of it."""
MODULES = "ssl, zlib, ctypes, bz2, lzma, sqlite3"


def main(arguments: list[str] | None = None) -> int:
    """Build it, and print where it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.build_python", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to install it; all of that folder is its own")
    parser.add_argument("--gil", action="store_true", help="the usual build, with the GIL")
    given = parser.parse_args(arguments)
    folder = given.folder.absolute()
    python = folder / "bin" / f"python{VERSION}{'' if given.gil else 't'}"
    if not python.exists():
        if folder.exists():
            sys.exit(f"{folder} is there already, and holds no {python.name}; name another folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        check_headers()
        with tempfile.TemporaryDirectory(prefix="build-python-", dir=folder.parent) as work:
            build(unpacked(Path(work)), python, gil=given.gil)
    print(python)
    return 0


def check_headers() -> None:
    """End here, not five minutes later, if the build would lack something."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        sys.exit(f"There is no C compiler: {compiler[0]} is not on the path")
    missing = [package for header, package in HEADERS.items() if not compiles([*compiler, "-E", "-"], header)]
    if missing:
        sys.exit(f"Headers are missing. On Debian and its like: apt-get install {' '.join(missing)}")


def compiles(command: list[str], header: str) -> bool:
    """Whether the compiler finds a header."""
    done = subprocess.run(command, input=f"#include <{header}>\n", text=True, capture_output=True, check=False)
    return done.returncode == 0


def unpacked(work: Path) -> Path:
    """The source of the newest release there is, unpacked into a folder."""
    tarball = work / "source.tar.xz"
    for archive in archives(SOURCES):
        release = download(archive, tarball)
        if release is not None:
            break
    else:
        sys.exit(f"No archive that is listed in {SOURCES} has the source of CPython {VERSION}")
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    print(f"Building CPython {release} (about five minutes); SHA-256 of its source: {digest}", flush=True)
    subprocess.run(["tar", "-xf", str(tarball), "-C", str(work)], check=True)
    (source,) = (one.parent for one in work.glob("*/configure"))
    return source


def archives(sources: Path) -> Iterator[str]:
    """The archives that the package manager knows, each once: from `.sources` files and from those of one line each."""
    found: dict[str, None] = {}
    for file in sorted(sources.glob("sources.list.d/*.sources")):
        found.update(dict.fromkeys(in_stanzas(file.read_text())))
    for file in (sources / "sources.list", *sorted(sources.glob("sources.list.d/*.list"))):
        if file.exists():
            found.update(dict.fromkeys(in_lines(file.read_text())))
    return (one for one in found if one.startswith(("http:", "https:", "file:")))


def in_stanzas(text: str) -> Iterator[str]:
    r"""
    >>> list(in_stanzas("Types: deb\nURIs: http://one/debian/\n  http://two/debian\n# no\n\nEnabled: no\nURIs: http://x"))
    ['http://one/debian', 'http://two/debian']
    """
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in "\n".join(lines).split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if not line.startswith((" ", "\t")):
                name, _, line = line.partition(":")
                name = name.lower()
            fields[name] = f"{fields.get(name, '')} {line}"
        if fields.get("enabled", "yes").strip().lower() not in ("no", "false"):
            yield from (uri.rstrip("/") for uri in fields.get("uris", "").split())


def in_lines(text: str) -> Iterator[str]:
    r"""
    >>> list(in_lines("deb [arch=amd64 signed-by=/a.gpg] http://one/debian/ sid main # why\n#deb http://x sid main"))
    ['http://one/debian']
    """
    for line in text.splitlines():
        kind, _, rest = line.partition("#")[0].strip().partition(" ")
        if kind in ("deb", "deb-src"):
            rest = rest.strip()
            if rest.startswith("["):
                rest = rest.partition("]")[2]
            yield from (uri.rstrip("/") for uri in rest.split()[:1])


def download(archive: str, tarball: Path) -> str | None:
    """Fetch the newest release that an archive has, and say which that is."""
    for release in RELEASES:
        try:
            with urlopen(f"{archive}/{POOL.format(release=release)}", timeout=TIMEOUT) as answer:
                tarball.write_bytes(answer.read())
            return release
        except HTTPError:  # it has another release, or none
            continue
        except URLError as exc:
            if isinstance(exc.reason, FileNotFoundError):  # as above, in a folder
                continue
            print(f"An archive cannot be reached ({exc.reason}); trying the next", flush=True)
            return None
    return None


def build(source: Path, python: Path, *, gil: bool) -> None:
    """Compile and install; the folder that `python` is in appears when all is done."""
    folder = python.parents[1]
    stage = source.parent / "stage"
    options = ["--disable-test-modules", *([] if gil else ["--disable-gil"])]
    log = folder.with_name(f"{folder.name}.log")
    with log.open("w") as written:
        for command in (
            ["./configure", f"--prefix={folder}", *options],
            ["make", f"-j{os.cpu_count() or 1}"],
            ["make", "altinstall", f"DESTDIR={stage}"],
        ):
            # Our own `make` may be above this one, with flags and variables that are no business of CPython's.
            environment = {name: value for name, value in os.environ.items() if not is_ours(name)}
            done = subprocess.run(
                command, cwd=source, env=environment, stdout=written, stderr=subprocess.STDOUT, check=False
            )
            if done.returncode:
                sys.exit(f"{shlex.join(command)} failed; {log} says why")
    staged = stage / folder.relative_to("/")
    # Before it is where it belongs, it has to be told where the rest of it is.
    check = subprocess.run(
        [staged / "bin" / python.name, "-c", f"import {MODULES}"], env={"PYTHONHOME": str(staged)}, check=False
    )
    if check.returncode:
        sys.exit(f"What was built lacks a module; {log} says why")
    staged.rename(folder)


def is_ours(name: str) -> bool:
    """Whether a variable is there for this project's own `make` and Python."""
    return name.startswith(("PYTHON", "PIP_", "MAKE", "MFLAGS", "GNUMAKEFLAGS"))


if __name__ == "__main__":
    sys.exit(main())
