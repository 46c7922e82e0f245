"""The asks of ``ask``, refused unless this interpreter has the plain-Python build."""

from __future__ import annotations

from benchmarks.ours import ask
from benchmarks.ours.stage import require_plain_build
from benchmarks.program import Report, main


def run(n: int) -> Report:
    """``n`` asks between two actors of the plain-Python build."""
    require_plain_build()
    return ask.run(n)


if __name__ == "__main__":
    main(run)
