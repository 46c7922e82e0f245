"""The feed handler: a cancel overtakes the quotes that wait, and all of them are handled."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from examples.feedhandler.desk import Book, Clerk, Desk, Risk
from examples.feedhandler.messages import Cancel, Flood, Quote, Result
from greenroom import handles, props
from greenroom.pods import Buffers, Bursts, Pod, ThreadModel

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 120.0
BURST = 32


class HeldBook(Book):
    """Does not go on with the first quote before the cancel is on its way."""

    def __init__(self, cancelled: threading.Event) -> None:
        super().__init__()
        self.waits_for = cancelled

    @handles(Quote)
    def take(self, quote: Quote) -> None:
        if quote.number == 1:
            assert self.waits_for.wait(PATIENCE)
        super().take(quote)


class TellingRisk(Risk):
    """Says when it has sent the cancel."""

    def __init__(self, cancelled: threading.Event) -> None:
        super().__init__()
        self.cancelled = cancelled

    def receive(self, message: Quote) -> None:
        super().receive(message)
        if not self.holds:
            self.cancelled.set()


class Keeper(Clerk):
    """Keeps the result for the test."""

    def __init__(self, results: list[Result]) -> None:
        self.results = results

    def receive(self, message: Result) -> None:
        self.results.append(message)
        super().receive(message)


def test_a_cancel_overtakes_all_that_waits_but_a_burst() -> None:  # K12
    results: list[Result] = []
    cancelled = threading.Event()

    class Held(Desk):
        book = Pod(props(HeldBook, cancelled), buffers=Buffers(data=4096), bursts=Bursts(data=BURST))
        risk = Pod(props(TellingRisk, cancelled))
        clerk = Pod(props(Keeper, results), thread=ThreadModel.MAIN)

    desk = Held.new()
    desk.exposed().feed.send(Flood(2000))
    desk.play()
    [result] = results
    assert (result.quotes, result.in_order) == (2000, True)
    # If the book had begun, it had the first quote in hand, and can have taken in two bursts before the cancel.
    assert result.position <= 1 + 2 * BURST
    # It was sent when the market had fallen, after quote 1,000; what had come by then was overtaken.
    assert result.overtaken >= 1000 - result.position
    assert desk.system.ledger().balanced


def test_an_order_is_cancelled_once() -> None:
    book = Book()
    first = Cancel(7, 1.0)
    for cancel in (first, Cancel(7, 2.0), Cancel(8, 3.0)):
        book.take_off(cancel)
    assert book.cancel is first
    assert book.order is None


def test_with_more_quotes_than_room_the_feed_waits_and_none_is_lost() -> None:  # K4
    results: list[Result] = []

    class Small(Desk):
        book = Pod(Book, buffers=Buffers(data=64))
        clerk = Pod(props(Keeper, results), thread=ThreadModel.MAIN)

    desk = Small.new()
    desk.exposed().feed.send(Flood(3000))
    desk.play()
    assert [(result.quotes, result.in_order) for result in results] == [(3000, True)]
    assert desk.system.ledger().balanced


def test_it_prints_a_table_and_a_ledger_that_balances() -> None:
    command = [sys.executable, "-m", "examples.feedhandler", "--quotes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=REPOSITORY)
    assert (done.returncode, done.stderr) == (0, "")
    *table, ledger = done.stdout.splitlines()
    assert table[0].split()[-3:] == ["2,", "in", "order"]
    assert len(table) == 7
    # The flood, two quotes for the book and one of them for risk, the end, the cancel and the result.
    assert ledger == "The ledger balances: sent 7, handled 7"
