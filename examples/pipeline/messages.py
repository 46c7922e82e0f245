"""What passes through the pipeline: lines that the tills of a chain of shops print, what they say, and a few requests.

>>> parse("09:41:07,17,figs,2,3.49")
Sale(shop=17, product='figs', cents=698)
>>> Totals(1, 698) + Totals(2, 5)
Totals(sales=3, cents=703)
"""

from random import Random
from typing import NamedTuple

from greenroom import MailboxConfig, Request

PRODUCTS: tuple[str, ...] = ("apples", "bread", "candles", "dates", "eggs", "figs", "grapes", "honey")
LINES_PER_REMARK = 1000
LINES_PER_ACCIDENT = 10_000
# How much may wait at each stage.
MAILBOXES = {
    "Source": MailboxConfig(capacity=4),
    "Parser": MailboxConfig(capacity=16),
    "Aggregator": MailboxConfig(capacity=512),
    "Sink": MailboxConfig(capacity=1024),
}


class Sale(NamedTuple):
    """Something was sold."""

    shop: int
    product: str
    cents: int


class Remark(NamedTuple):
    """Something else was printed."""

    shop: int
    text: str


class Totals(NamedTuple):
    """Many sales, added up."""

    sales: int = 0
    cents: int = 0

    def __add__(self, other: object) -> "Totals":
        if not isinstance(other, Totals):
            return NotImplemented
        return Totals(self.sales + other.sales, self.cents + other.cents)


class GetTotals(Request[Totals]):
    """How much is it so far? What `ask` returns for it is known to be a `Totals`."""


class Flush:
    """Hand on what you have added up, and begin again."""


class PowerCut:
    """Fail: the plug was pulled."""


class Tick:
    """Do the next piece of work."""


class Close:
    """Finish what you have begun, and begin nothing new."""


def make_line(shop: int, random: Random) -> str:
    """What a till prints: mostly sales, now and then a remark, and seldom a line that was torn off."""
    number = random.getrandbits(30)
    stamp = f"{number % 24:02}:{number % 59:02}:{number % 53:02}"
    if number % LINES_PER_REMARK == 1:
        return f"{stamp},{shop},remark,1,the drawer is stuck"
    line = f"{stamp},{shop},{PRODUCTS[number % 8]},{1 + number % 7},{number % 31}.{number % 100:02}"
    return line[:12] if number % LINES_PER_ACCIDENT == 2 else line


def parse(line: str) -> Sale | Remark:
    """What a line says; ValueError if it is torn."""
    _, shop, product, pieces, price = line.split(",")
    if product == "remark":
        return Remark(int(shop), price)
    whole, cents = price.split(".")
    return Sale(int(shop), product, int(pieces) * (int(whole) * 100 + int(cents)))
