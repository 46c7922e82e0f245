"""What a table must say about where it was made: machine, interpreter, build, peers' versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from benchmarks.erlang import toolchain

PIP_PEERS = ("pykka", "uvloop", "uvicorn", "xoscar")


def is_compiled() -> bool | None:
    """Whether the installed Greenroom is the compiled build; None when there is none to ask."""
    try:
        from greenroom import COMPILED
    except ImportError:
        return None
    return bool(COMPILED)


def collect(*, compiled: bool | None, with_erlang: bool) -> dict[str, str]:
    """Facts by name, in the order they are shown."""
    facts = {
        "machine": f"{_cpu()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "greenroom": _greenroom(compiled),
    }
    facts |= {name: _version(name) for name in PIP_PEERS}
    if with_erlang:
        tools = toolchain()
        facts["erlang"] = tools.missing or f"OTP {tools.release}, one scheduler"
    return facts


def _greenroom(compiled: bool | None) -> str:
    if compiled is None:
        return "not installed"
    return f"{_version('greenroom')}, {'compiled' if compiled else 'plain-Python'} build"


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    try:
        described = _first_model(Path("/proc/cpuinfo").read_text().splitlines())
    except OSError:
        described = None
    return described or platform.processor() or platform.machine()


def _first_model(lines: Iterable[str]) -> str | None:
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return None
