"""Test tools for programs built on Greenroom: probes, a harness, simulations, a manual clock, and checks.

Each name is imported when it is first used: pytest loads the plugin in this package wherever it runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom.clock import ManualClock
    from greenroom.testing import faults
    from greenroom.testing.checks.leaks import Leak, LeaksFound, detect_leaks
    from greenroom.testing.checks.ledgers import assert_ledger_balanced
    from greenroom.testing.checks.lifecycles import HookCall, HookLog, assert_ended, assert_states
    from greenroom.testing.checks.logs import CapturedLogs, capture_logs
    from greenroom.testing.events import Event
    from greenroom.testing.exploration import Failure, Report, explore
    from greenroom.testing.fakepeer import FakeConnection, FakePeer, FakeProgram
    from greenroom.testing.harness import ActorHarness
    from greenroom.testing.probing.probe import TestProbe
    from greenroom.testing.simulation import Simulation
    from greenroom.testing.trace import Trace

__all__ = [
    "ActorHarness",
    "CapturedLogs",
    "Event",
    "Failure",
    "FakeConnection",
    "FakePeer",
    "FakeProgram",
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

_MODULES = {
    "clock": ("ManualClock",),
    "testing.checks.leaks": ("Leak", "LeaksFound", "detect_leaks"),
    "testing.checks.ledgers": ("assert_ledger_balanced",),
    "testing.checks.lifecycles": ("HookCall", "HookLog", "assert_ended", "assert_states"),
    "testing.checks.logs": ("CapturedLogs", "capture_logs"),
    "testing.events": ("Event",),
    "testing.exploration": ("Failure", "Report", "explore"),
    "testing.fakepeer": ("FakeConnection", "FakePeer", "FakeProgram"),
    "testing.harness": ("ActorHarness",),
    "testing.probing.probe": ("TestProbe",),
    "testing.simulation": ("Simulation",),
    "testing.trace": ("Trace",),
}
"""Where the names come from. `faults` is a module itself."""
_FROM = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "faults":
        return import_module("greenroom.testing.faults")
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"greenroom.{_FROM[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
