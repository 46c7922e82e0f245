"""The ping-pong of ``pingpong``, refused unless this interpreter has the plain-Python build."""

from __future__ import annotations

from benchmarks.ours import pingpong
from benchmarks.ours.stage import require_plain_build
from benchmarks.program import Report, main


def run(n: int) -> Report:
    """About ``n`` messages between two actors of the plain-Python build."""
    require_plain_build()
    return pingpong.run(n)


if __name__ == "__main__":
    main(run)
