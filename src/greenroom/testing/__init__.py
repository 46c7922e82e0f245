"""For tests of programs built on Greenroom: probes, a clock to turn by hand, and checks of the ledger."""

from greenroom.clock import ManualClock
from greenroom.testing.ledgers import assert_ledger_balanced
from greenroom.testing.probe import TestProbe

__all__ = ["ManualClock", "TestProbe", "assert_ledger_balanced"]
