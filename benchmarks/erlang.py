"""Erlang as a peer: found on PATH or installed where that is possible, compiled into the build folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from benchmarks.launch import ROOT
from benchmarks.model import Setting
from benchmarks.program import Unavailable

MODULE = "greenroom_peer"
SOURCE = ROOT / "benchmarks" / "peers" / f"{MODULE}.erl"
BUILD = ROOT / "build" / "bench"
# One scheduler, as the targets say; room for every idle process.
EMULATOR = ("erl", "+S", "1:1", "+P", "2000000", "-noshell")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A ready Erlang with the peer programs compiled, or the reason there is none."""

    release: str = ""
    missing: str = ""


def launch_erlang(work: str, _: Setting, size: int) -> list[str]:
    """The command line of one of the works in the peer module."""
    tools = toolchain()
    if tools.missing:
        raise Unavailable(tools.missing)
    return [*EMULATOR, "-pa", str(BUILD), "-run", MODULE, "main", work, str(size)]


@cache
def toolchain() -> Toolchain:
    """Prepare Erlang once per run."""
    if not _is_installed():
        _try_to_install()
    if not _is_installed():
        return Toolchain(missing="Erlang is not on PATH (install erlang-base or erlang)")
    try:
        BUILD.mkdir(parents=True, exist_ok=True)
        _quietly(["erlc", "-o", str(BUILD), str(SOURCE)])
        ask = 'io:format("~s", [erlang:system_info(otp_release)]), halt().'
        return Toolchain(release=_quietly([*EMULATOR, "-eval", ask]))
    except (OSError, subprocess.SubprocessError) as error:
        return Toolchain(missing=f"Erlang's peer programs do not compile ({error})")


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
