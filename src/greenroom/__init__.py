"""Greenroom: an actor runtime for Python.

The house, from the ground up (a file imports only from floors below its own):

  errors, errortext, clock,     what everything speaks of: failures and their words, time, priorities,
  lanes, exits, ledger,         how actors end, what happened to every message; chance; immutable values
  seededrandom, frozen
  originaldir, runtimelog       where the program was started; the runtime's own log records
  _core                         the loop: cells with mailboxes, run queue, timers, delivery, async handlers
  policy                        supervision as pure values and functions
  actor, wire                   what a user writes against; bytes between processes
  supervision                   Supervisor and DynamicSupervisor
  system                        ActorSystem, its config, shutdown, and dispatchers
  meta                          meta-processes: sockets, subprocesses, files and signals beside actors
  testing                       the test kit: probes, manual clock, simulation
"""

from importlib import import_module
from typing import TYPE_CHECKING

from greenroom._core.build import COMPILED
from greenroom._core.timing.timers import Timer
from greenroom.actor.api.actor import Actor
from greenroom.actor.api.behavior import Behavior, Behaviors
from greenroom.actor.api.context import Context
from greenroom.actor.api.fdwatch import READ, WRITE, FdWatch, IoReady
from greenroom.actor.api.handles import handles
from greenroom.actor.api.props import Props, props
from greenroom.actor.messaging.drain import Drain
from greenroom.actor.messaging.ref import ActorRef, Alias, Asked, Request
from greenroom.actor.messaging.reply import Reply
from greenroom.actor.messaging.signals import (
    ChildTerminated,
    Down,
    Exit,
    MonitorRef,
    PostRestart,
    PostStart,
    PostStop,
    PreRestart,
    PreStart,
    PreStop,
    ReceiveTimeout,
    Signal,
    Terminated,
)
from greenroom.actor.records.states import State
from greenroom.clock import Clock, ManualClock, MonotonicClock
from greenroom.errors import (
    ActorTerminated,
    AskDeadlock,
    AskTimeout,
    DeathPact,
    GreenroomError,
    LinkBroken,
    MailboxFull,
    RestartLimit,
    SystemFailed,
    SystemStopped,
)
from greenroom.exits import ExitKind, ExitReason
from greenroom.lanes import Lane, MailboxConfig, Overflow
from greenroom.ledger import Ledger
from greenroom.originaldir import ORIGINAL_DIR as _ORIGINAL_DIR  # noqa: F401 - now, before the program goes elsewhere
from greenroom.policy.backoff import Backoff
from greenroom.policy.directives import Directive, OnRestart, Scope
from greenroom.policy.specs import Supervision
from greenroom.system.config import OnExit, SystemConfig
from greenroom.system.deadletters import DeadLetter, DeadLetters
from greenroom.system.observers import Observer
from greenroom.system.system import ActorSystem

if TYPE_CHECKING:
    from greenroom.policy.children import AutoShutdown, ChildSpec, DynamicSpec, Restart, Shutdown, SupervisorSpec
    from greenroom.seededrandom import Random
    from greenroom.supervision.dynamic import DynamicSupervisor
    from greenroom.supervision.requests import (
        ChildCounts,
        ChildInfo,
        CountChildren,
        DeleteChild,
        RestartChild,
        StartChild,
        StopChild,
        WhichChildren,
    )
    from greenroom.supervision.supervisor import Supervisor
    from greenroom.system.dispatchers.registry import Dispatchers
    from greenroom.system.dispatchers.settings import Concurrent, Loop, Parallel, Pinned, Process, Spread
    from greenroom.system.snapshot import ActorSnapshot, SystemSnapshot

__all__ = [
    "COMPILED",
    "READ",
    "WRITE",
    "Actor",
    "ActorRef",
    "ActorSnapshot",
    "ActorSystem",
    "ActorTerminated",
    "Alias",
    "AskDeadlock",
    "AskTimeout",
    "Asked",
    "AutoShutdown",
    "Backoff",
    "Behavior",
    "Behaviors",
    "ChildCounts",
    "ChildInfo",
    "ChildSpec",
    "ChildTerminated",
    "Clock",
    "Concurrent",
    "Context",
    "CountChildren",
    "DeadLetter",
    "DeadLetters",
    "DeathPact",
    "DeleteChild",
    "Directive",
    "Dispatchers",
    "Down",
    "Drain",
    "DynamicSpec",
    "DynamicSupervisor",
    "Exit",
    "ExitKind",
    "ExitReason",
    "FdWatch",
    "GreenroomError",
    "IoReady",
    "Lane",
    "Ledger",
    "LinkBroken",
    "Loop",
    "MailboxConfig",
    "MailboxFull",
    "ManualClock",
    "MonitorRef",
    "MonotonicClock",
    "Observer",
    "OnExit",
    "OnRestart",
    "Overflow",
    "Parallel",
    "Pinned",
    "PostRestart",
    "PostStart",
    "PostStop",
    "PreRestart",
    "PreStart",
    "PreStop",
    "Process",
    "Props",
    "Random",
    "ReceiveTimeout",
    "Reply",
    "Request",
    "Restart",
    "RestartChild",
    "RestartLimit",
    "Scope",
    "Shutdown",
    "Signal",
    "Spread",
    "StartChild",
    "State",
    "StopChild",
    "Supervision",
    "Supervisor",
    "SupervisorSpec",
    "SystemConfig",
    "SystemFailed",
    "SystemSnapshot",
    "SystemStopped",
    "Terminated",
    "Timer",
    "WhichChildren",
    "handles",
    "props",
]
__version__ = "0.1.0"


# Names that not every program uses, by their modules: importing those takes a while (P17).
_LATER = {
    "policy.children": ("AutoShutdown", "ChildSpec", "DynamicSpec", "Restart", "Shutdown", "SupervisorSpec"),
    "seededrandom": ("Random",),
    "supervision.dynamic": ("DynamicSupervisor",),
    "supervision.requests": (
        "ChildCounts",
        "ChildInfo",
        "CountChildren",
        "DeleteChild",
        "RestartChild",
        "StartChild",
        "StopChild",
        "WhichChildren",
    ),
    "supervision.supervisor": ("Supervisor",),
    "system.dispatchers.registry": ("Dispatchers",),
    "system.dispatchers.settings": ("Concurrent", "Loop", "Parallel", "Pinned", "Process", "Spread"),
    "system.snapshot": ("ActorSnapshot", "SystemSnapshot"),
}


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
