"""For tests of programs built on Greenroom: probes, a clock to turn by hand, and checks of how things went."""

from greenroom.clock import ManualClock
from greenroom.testing import faults
from greenroom.testing.events import Event
from greenroom.testing.exploring import Failure, Report, explore
from greenroom.testing.harness import ActorHarness
from greenroom.testing.leaks import Leak, LeaksFound, detect_leaks
from greenroom.testing.ledgers import assert_ledger_balanced
from greenroom.testing.lifecycles import HookCall, HookLog, assert_ended, assert_states
from greenroom.testing.logs import CapturedLogs, capture_logs
from greenroom.testing.probe import TestProbe
from greenroom.testing.simulation import Simulation
from greenroom.testing.trace import Trace

__all__ = [
    "ActorHarness",
    "CapturedLogs",
    "Event",
    "Failure",
    "HookCall",
    "HookLog",
    "Leak",
    "LeaksFound",
    "ManualClock",
    "Report",
    "Simulation",
    "TestProbe",
    "Trace",
    "assert_ended",
    "assert_ledger_balanced",
    "assert_states",
    "capture_logs",
    "detect_leaks",
    "explore",
    "faults",
]
