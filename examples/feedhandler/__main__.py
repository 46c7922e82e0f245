"""A cancel that overtakes a flood of quotes: `python -m examples.feedhandler --quotes 100000`."""

from __future__ import annotations

import argparse
import sys

from examples.feedhandler.desk import Desk
from examples.feedhandler.messages import Flood


def main(quotes: int) -> int:
    """Start the flood, wait for its end, and account for every message."""
    desk = Desk.new()
    desk.exposed().feed.send(Flood(quotes))
    desk.play()
    ledger = desk.system.ledger()
    print(f"The ledger {'balances' if ledger.balanced else 'does NOT balance'}: {ledger}")
    return 0 if ledger.balanced else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quotes", type=int, default=100_000, help="how many quotes (100000)")
    options = parser.parse_args()
    if options.quotes < 2:
        parser.error("--quotes must be 2 or more: the market falls in the middle")
    sys.exit(main(options.quotes))
