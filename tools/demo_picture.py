"""``python -m tools.demo_picture FILE``: run the demo, and draw its live view as it looked at a busy moment (SVG)."""

import asyncio
import io
import logging
import sys
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from examples.pipeline.__main__ import run
from examples.pipeline.gauges import Reading
from examples.pipeline.live import LiveView, draw

SECONDS = 15.0
TAKEN_AFTER, TAKEN_BEFORE = 8.0, 11.0  # when a crash is the headline
COLUMNS, LINES = 100, 28


class Album:
    """A view that keeps what it is shown."""

    interval = LiveView.interval

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    def show(self, reading: Reading) -> None:
        """Keep it."""
        self.readings.append(reading)

    def pick(self) -> list[Reading]:
        """Everything up to the busiest moment after the crash, for the mailboxes to have something in them."""
        places = [i for i, one in enumerate(self.readings) if TAKEN_AFTER <= one.elapsed <= TAKEN_BEFORE]
        busiest = max(places, key=lambda place: self.readings[place].ledger.queued)
        return self.readings[: busiest + 1]


def main() -> int:
    """Returns 1 when the demo failed: of that there shall be no picture."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.demo_picture FILE")
    logging.getLogger("greenroom").setLevel(logging.CRITICAL)
    album = Album()
    if not asyncio.run(run(SECONDS, nullcontext(album))):
        return 1
    console = Console(record=True, width=COLUMNS, height=LINES, force_terminal=True, file=io.StringIO())
    console.print(draw(album.pick()))
    Path(sys.argv[1]).write_text(console.export_svg(title="make demo"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
