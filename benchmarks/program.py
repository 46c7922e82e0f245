"""What every measured program shares: its size argument, its one line of JSON, its way to decline.

A program measures one work in its own process and prints one line,
``{"value": 4810000.0, "parts": {}}``, or ``{"skipped": "why"}`` when it cannot run here.
The clock runs only around the work: imports and set-up are outside it.
"""

import argparse
import gc
import importlib
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SEED = 20_240_229


class Unavailable(Exception):
    """This program cannot run here; the text says why, and becomes the row's reason."""


@dataclass(frozen=True, slots=True)
class Report:
    """One measurement: the headline value in its row's unit, and named parts of it."""

    value: float
    parts: Mapping[str, float] = field(default_factory=dict)


def main(work: Callable[[int], Report]) -> None:
    """Run ``work`` at the size given by ``--n`` and print its report as one line of JSON."""
    parser = argparse.ArgumentParser(description=work.__doc__)
    parser.add_argument("--n", type=int, required=True, help="size of the work")
    size: int = parser.parse_args().n
    try:
        report = work(size)
    except Unavailable as reason:
        print(json.dumps({"skipped": str(reason)}), flush=True)
    else:
        print(json.dumps({"value": report.value, "parts": dict(report.parts)}), flush=True)


def settle() -> None:
    """Put set-up garbage out of the measurement; the collector stays on, as users have it."""
    gc.collect()
    gc.freeze()


def require(module: str) -> Any:
    """Import a peer's package, or decline with a reason that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(f"{module} is not installed ({error})") from error


def expect(what: str, actual: int, wanted: int) -> None:
    """Refuse a measurement whose work was not done in full."""
    if actual != wanted:
        raise RuntimeError(f"{what}: {actual:,} instead of {wanted:,}; the figure would be false")


def resident_bytes() -> int:
    """This process's resident memory, as the kernel counts it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError as error:
        raise Unavailable(f"resident memory needs /proc/self/statm ({error})") from error
    import resource

    return pages * resource.getpagesize()


def dice() -> random.Random:
    """The same random choices for every contender and every round."""
    return random.Random(SEED)
