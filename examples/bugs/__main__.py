"""Find all of them, and say where."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from examples.bugs import ask_cycle, late_message, lost_update, rare_order
from greenroom.testing import Report

BUGS: dict[str, Callable[[TextIO | None], Report]] = {
    "lost update": lost_update.find,
    "ask cycle under load": ask_cycle.find,
    "message to an actor that is stopping": late_message.find,
    "a rare order": rare_order.find,
}


def main() -> None:
    """Look for each, and say at which seed it shows."""
    for name, find in BUGS.items():
        report = find(None)
        failure = report.failure
        assert failure is not None
        print(f"{name}: seed {failure.seed}, after {report.runs} runs: {failure.error!r}")


if __name__ == "__main__":
    main()
