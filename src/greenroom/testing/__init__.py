"""For tests of programs built on Greenroom: probes, a clock to turn by hand, and checks of how things went."""

from greenroom.clock import ManualClock
from greenroom.testing import faults
from greenroom.testing.checks.leaks import Leak, LeaksFound, detect_leaks
from greenroom.testing.checks.ledgers import assert_ledger_balanced
from greenroom.testing.checks.lifecycles import HookCall, HookLog, assert_ended, assert_states
from greenroom.testing.checks.logs import CapturedLogs, capture_logs
from greenroom.testing.exploring.exploration import Failure, Report, explore
from greenroom.testing.harness.harness import ActorHarness
from greenroom.testing.probing.probe import TestProbe
from greenroom.testing.simulating.simulation import Simulation
from greenroom.testing.tracing.events import Event
from greenroom.testing.tracing.trace import Trace

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
