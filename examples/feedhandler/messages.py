"""What the pods of the desk send to one another."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple


class Flood(NamedTuple):
    """Send as many quotes as fast as you can."""

    quotes: int


class Quote(NamedTuple):
    """A price to buy and to sell at. `sent` is the time."""

    number: int
    symbol: str
    bid: int
    ask: int
    sent: float


class End:
    """There are no more quotes."""


class Cancel(NamedTuple):
    """Take an order off the market, whatever else you have to do."""

    order: int
    sent: float


class Result(NamedTuple):
    """What the book has seen."""

    quotes: int
    in_order: bool
    seconds: float
    latencies: list[float]
    """Of all quotes, from when each was sent to when it was handled."""
    overtaken: int
    """Quotes that were sent before the cancel, and handled after it."""
    position: int
    """Quotes that were handled before the cancel."""
    cancel_latency: float

    def table(self) -> str:
        """A few lines that say it all."""
        rows = [
            ("quotes handled", f"{self.quotes:,}, {'in order' if self.in_order else 'OUT OF ORDER'}"),
            ("quotes a second", f"{self.quotes / self.seconds:,.0f}"),
            ("handled before the cancel", f"{self.position:,}"),
            ("overtaken by the cancel", f"{self.overtaken:,}"),
            ("latency of the cancel", f"{1e3 * self.cancel_latency:.2f} ms"),
            ("latency of a quote, median", f"{1e3 * median(self.latencies):.2f} ms"),
            ("latency of a quote, longest", f"{1e3 * max(self.latencies):.2f} ms"),
        ]
        return "\n".join(f"  {name:<30}{value:>20}" for name, value in rows)
