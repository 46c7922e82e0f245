"""How the pipeline is shown: live on a terminal, else line by line; and the summary at its end."""

import asyncio
import sys
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from importlib.util import find_spec
from itertools import zip_longest
from typing import Protocol

import greenroom
from examples.pipeline.gauges import Crash, Gauges, Reading
from examples.pipeline.messages import Totals
from greenroom import ActorSystem, Ledger

BUILD = "compiled" if greenroom.COMPILED else "plain Python"
OUTSIDE_THE_BALANCE = ("rejected", "late_replies", "refused")


class View(Protocol):
    """Something that shows readings."""

    interval: float
    """Seconds from one to the next."""

    def show(self, reading: Reading) -> None:
        """Show what the gauges say."""


class PlainView:
    """One line a second."""

    interval = 1.0

    def __init__(self) -> None:
        self._crash_told = False

    def show(self, reading: Reading) -> None:
        """Print the line."""
        if reading.crash is not None and reading.crash.healed and not self._crash_told:
            self._crash_told = True
            print(describe(reading.crash), flush=True)
        print(
            f"{reading.elapsed:3.0f} s {reading.rate:>9,.0f} messages/s {reading.running:>6,} actors "
            f"{reading.ledger.queued:>7,} queued {sum(reading.dead_letters.values()):>7,} dead letters",
            flush=True,
        )


def describe(crash: Crash) -> str:
    """A crash in one line."""
    if not crash.healed:
        return f"Crash: {crash.actors - crash.back} of {crash.actors} aggregators are down"
    return f"Crash healed: all {crash.actors} aggregators were back after {crash.seconds:.1f} s"


def choose_view(plain: bool) -> AbstractContextManager[View]:
    """The live view if there is a terminal for it and Rich is installed."""
    if not plain and sys.stdout.isatty():
        if find_spec("rich") is None:
            print("Rich is not installed, so there is one line a second instead of the live view.")
        else:
            from examples.pipeline.live import LiveView

            view = LiveView()
            if view.fits:
                return view
    return nullcontext(PlainView())


async def follow(work: Awaitable[None], gauges: Gauges, view: View) -> None:
    """Show what the gauges say until `work` is done."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=view.interval)
            view.show(gauges.read())
        await task
    finally:
        task.cancel()


def print_summary(system: ActorSystem, last: Reading, totals: Totals | None) -> None:
    """Where every message went, and how the actors fared."""
    ledger, report = system.ledger(), system.report
    print(f"\n{ledger.sent:,} messages in {last.elapsed:.1f} s: {ledger.sent / last.elapsed:,.0f} a second, {BUILD}\n")
    left = ["Where every message went", *columns(ledger)]
    right = ["What became of the actors", *(row(name, count) for name, count in last.lives.items())]
    right += ["", "Dead letters, and why", *(row(why, count) for why, count in last.dead_letters.items())]
    for one, other in zip_longest(left, right, fillvalue=""):
        print(f"  {one:<40}{other}".rstrip())
    print()
    if last.crash is not None:
        print(describe(last.crash) + ".")
    if totals is not None:
        print(f"{totals.sales:,} sales, worth {totals.cents / 100:,.2f}, have arrived in the sink.")
    if report is not None:
        print(
            f"Shutdown in {report.seconds:.3f} s: {report.started:,} actors started, "
            f"{report.terminated:,} terminated, {len(report.forced)} forced."
        )
    if ledger.balanced:
        print("The ledger balances: every message is in exactly one column.")
    else:
        print(f"The ledger does NOT balance: {ledger.accounted:,} of {ledger.sent:,} are accounted for. This is a bug.")


def columns(ledger: Ledger) -> list[str]:
    """A line for each column of the ledger, the sum first."""
    names = [column.name for column in fields(ledger)]
    signs = {"sent": " ", "handled": "=", **dict.fromkeys(OUTSIDE_THE_BALANCE, " ")}
    return [f"{signs.get(name, '+')} {row(name.replace('_', ' '), getattr(ledger, name))}" for name in names]


def row(name: str, count: int) -> str:
    return f"{name:<16}{count:>14,}"
