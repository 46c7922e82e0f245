"""Greenroom: an actor runtime for Python.

The house, from the ground up (a file imports only from floors below its own):

  errors, clock, lanes, exits   what everything speaks of: failures, time and chance, priorities, ends
  _core                         the loop: cells with mailboxes, run queue, timers, inbound, stepping
  policy                        supervision as pure values and functions
  actor, wire                   what a user writes against; bytes between processes and nodes
  supervision, system           carrying out plans; the system and its dispatchers
  pods, meta, toolkit           ways of building with actors
  cluster, observe, testing     many machines, many eyes, many trials
"""

from greenroom._core.build import COMPILED
from greenroom.clock import Clock, ManualClock, MonotonicClock, Random
from greenroom.errors import GreenroomError, MailboxFull
from greenroom.exits import ExitKind, ExitReason
from greenroom.lanes import Lane, MailboxConfig, Overflow

__all__ = [
    "COMPILED",
    "Clock",
    "ExitKind",
    "ExitReason",
    "GreenroomError",
    "Lane",
    "MailboxConfig",
    "MailboxFull",
    "ManualClock",
    "MonotonicClock",
    "Overflow",
    "Random",
]
__version__ = "0.1.0"
