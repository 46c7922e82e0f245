"""The ping-pong of ``pingpong``, refused unless this interpreter has the plain-Python build."""

from __future__ import annotations

import sys

from benchmarks.ours import pingpong
from benchmarks.program import Report, Unavailable, main
from greenroom import COMPILED


def run(n: int) -> Report:
    """About ``n`` messages between two cells of the plain-Python build."""
    if COMPILED:
        raise Unavailable(f"{sys.executable} has the compiled build, not the plain-Python one")
    return pingpong.run(n)


if __name__ == "__main__":
    main(run)
