"""Erlang as a peer: found on PATH or installed where that is possible, compiled into the build folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.launch import ROOT
from benchmarks.model import Setting
from benchmarks.program import Unavailable

PEERS = ROOT / "benchmarks" / "peers"
BUILD = ROOT / "build" / "bench"
# Room for every idle process.
ALL_SCHEDULERS = ("erl", "+P", "2000000", "-noshell")
# One scheduler, as the targets say.
EMULATOR = (*ALL_SCHEDULERS, "+S", "1:1")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A ready Erlang with the peer programs compiled, or the reason there is none."""

    release: str = ""
    missing: str = ""


def launch_erlang(work: str, _: Setting, size: int) -> list[str]:
    """The command line of one of the works, on one scheduler."""
    return _command(EMULATOR, "greenroom_peer", work, size)


def launch_program(program: str, _: Setting, size: int) -> list[str]:
    """The command line of a whole program on one scheduler, measured in CPU time."""
    return _command(EMULATOR, "savina", program, "cpu", size)


def launch_program_on_all_schedulers(program: str, _: Setting, size: int) -> list[str]:
    """The command line of a whole program on as many schedulers as there are cores, by the wall clock."""
    return _command(ALL_SCHEDULERS, "savina", program, "wall", size)


def _command(emulator: tuple[str, ...], module: str, *arguments: str | int) -> list[str]:
    tools = toolchain()
    if tools.missing:
        raise Unavailable(tools.missing)
    return [*emulator, "-pa", str(BUILD), "-run", module, "main", *map(str, arguments)]


@cache
def toolchain() -> Toolchain:
    """Prepare Erlang once per run."""
    if not _is_installed():
        _try_to_install()
    if not _is_installed():
        return Toolchain(missing="Erlang is not on PATH (install erlang-base or erlang)")
    try:
        _compile()
        ask = 'io:format("~s", [erlang:system_info(otp_release)]), halt().'
        return Toolchain(release=_quietly([*EMULATOR, "-eval", ask]))
    except (OSError, subprocess.SubprocessError) as error:
        return Toolchain(missing=f"Erlang's peer programs do not compile ({error})")


def _compile() -> None:
    """Apart, and moved into place: others may run these programs at the same time."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=BUILD) as apart:
        _quietly(["erlc", "-o", apart, *map(str, sorted(PEERS.rglob("*.erl")))])
        for compiled in Path(apart).glob("*.beam"):
            compiled.replace(BUILD / compiled.name)


def _is_installed() -> bool:
    return all(shutil.which(tool) for tool in ("erl", "erlc"))


def _try_to_install() -> None:
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return
    print("Erlang is not on PATH: installing erlang-base with apt-get", file=sys.stderr, flush=True)
    try:
        _quietly(["apt-get", "update"])
        _quietly(["apt-get", "install", "-y", "--no-install-recommends", "erlang-base"])
    except (OSError, subprocess.SubprocessError) as error:
        print(f"Erlang could not be installed: {error}", file=sys.stderr, flush=True)


def _quietly(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return done.stdout.strip()
