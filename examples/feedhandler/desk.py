"""The desk: a feed floods the book with quotes, and risk has an order cancelled in the middle of it."""

from __future__ import annotations

from time import perf_counter
from typing import Never

from examples.feedhandler.messages import Cancel, End, Flood, Quote, Result
from greenroom import Actor, Lane, handles
from greenroom.pods import Buffers, Handles, Pod, ServiceHandle, ThreadModel, Troupe

ORDER = 7
SYMBOLS = ("ADA", "BOB", "CYD", "DEE")
LIMIT = 5_000
"""The bid below which risk does not hold the order any longer."""
WATCHED = 50
"""Risk sees one quote in so many."""


class FeedPeers(Handles):
    """Whom the feed sends to."""

    book: ServiceHandle[Quote | End]
    risk: ServiceHandle[Quote]


class Feed(Actor[Flood, None]):
    """Sends quotes as fast as it can. When the book's ring is full, `send` waits for room: that is the backpressure."""

    peers: FeedPeers

    def receive(self, message: Flood) -> None:
        """All of them. In the middle, the market falls."""
        book, risk = self.peers.book, self.peers.risk
        for number in range(1, message.quotes + 1):
            bid = 10_000 + number % 100 if number <= message.quotes // 2 else 4_000
            quote = Quote(number, SYMBOLS[number % 4], bid, bid + 2, perf_counter())
            book.send(quote)
            if number % WATCHED == 0 or number == message.quotes:
                risk.send(quote)
        book.send(End())


class RiskPeers(Handles):
    """Whom risk sends to."""

    book: ServiceHandle[Never, Cancel]


class Risk(Actor[Quote, None]):
    """Cancels the order when the market has fallen."""

    peers: RiskPeers

    def __init__(self) -> None:
        self.holds = True

    def receive(self, message: Quote) -> None:
        """Look at a price."""
        if self.holds and message.bid < LIMIT:
            self.holds = False
            self.peers.book.send(Cancel(ORDER, perf_counter()), lane=Lane.CONTROL)


class BookPeers(Handles):
    """Whom the book sends to."""

    clerk: ServiceHandle[Result]


class Book(Actor[Quote | End | Cancel, None]):
    """Knows the last prices and the best spread of each symbol, and the order that is on the market."""

    peers: BookPeers

    def __init__(self) -> None:
        self.began = perf_counter()
        self.prices: dict[str, tuple[int, int]] = {}
        self.spreads: dict[str, int] = {}
        self.order: int | None = ORDER
        self.cancel: Cancel | None = None
        self.cancelled = 0.0
        self.latencies: list[float] = []
        self.last = self.position = self.overtaken = 0
        self.in_order = True
        self.ended: float | None = None

    @handles(Quote)
    def take(self, quote: Quote) -> None:
        """A new price."""
        self.latencies.append(perf_counter() - quote.sent)
        self.in_order = self.in_order and quote.number == self.last + 1
        self.last = quote.number
        self.prices[quote.symbol] = quote.bid, quote.ask
        self.spreads[quote.symbol] = min(self.spreads.get(quote.symbol, LIMIT), quote.ask - quote.bid)
        if self.cancel is not None and quote.sent < self.cancel.sent:
            self.overtaken += 1

    @handles(Cancel)
    def take_off(self, cancel: Cancel) -> None:
        """The order is not to be filled any more."""
        if self.order == cancel.order:
            self.order, self.cancel = None, cancel
            self.cancelled, self.position = perf_counter(), self.last
            self.report()

    @handles(End)
    def end(self, end: End) -> None:
        """No more quotes."""
        self.ended = perf_counter()
        self.report()

    def report(self) -> None:
        """Say what there was, when all of it was there: with few quotes, the cancel may be the last to come."""
        if self.cancel is not None and self.ended is not None:
            latency = self.cancelled - self.cancel.sent
            counts = len(self.latencies), self.in_order, self.ended - self.began, self.latencies
            self.peers.clerk.send(Result(*counts, self.overtaken, self.position, latency))


class Clerk(Actor[Result, None]):
    """Prints the result. When it ends, the troupe does, because it is the MAIN pod."""

    def receive(self, message: Result) -> None:
        """Here it is."""
        print(message.table())
        self.ctx.stop()


class Desk(Troupe):
    """Who is there. Each holder of a handle to the book has room for 131,072 quotes, made before anything runs."""

    feed = Pod(Feed, expose=True)
    book = Pod(Book, buffers=Buffers(data=1 << 17))
    risk = Pod(Risk)
    clerk = Pod(Clerk, thread=ThreadModel.MAIN)
