"""Plays histories in this process, one after the other, and prints a line of JSON about each.

The program starts it, so that a history that hangs or crashes takes no more with it than this process.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tools.chaos.journal import Event, read_journal
from tools.chaos.model import check
from tools.chaos.plan import Plan, draw
from tools.chaos.remains import Remains, end_forked, open_once
from tools.chaos.stage import play

__all__ = ["main", "run_history"]

SHOWN = 60
"""How many of the last events are shown of a history that went wrong."""


def run_history(plan: Plan, patience: float, keep: str | None = None) -> tuple[list[str], list[Event]]:
    """Play one, and check it: what is wrong, and its journal; a copy of that is kept, if `keep` is a path."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        path = str(Path(folder, "journal"))
        raised: list[str] = []
        remains = Remains()
        with _Hooks(raised):
            facts = play(plan, path, patience)
        events = read_journal(path)
        end_forked(events)
        if keep is not None:
            Path(keep).write_text("".join(f"{event}\n" for event in events))
        workers = {event.pid for event in events if event.pid != os.getpid()}
        left = remains.find(patience, workers)
        return [*check(events, facts), *raised, *left], events


class _Hooks:
    """What is raised where nothing catches it."""

    def __init__(self, raised: list[str]) -> None:
        self._raised = raised

    def __enter__(self) -> None:
        self._before = threading.excepthook, sys.unraisablehook
        threading.excepthook = lambda told: self._note("thread", told.exc_value)
        sys.unraisablehook = lambda told: self._note(f"unraisable {told.object!r}", told.exc_value)

    def __exit__(self, *exc: object) -> None:
        threading.excepthook, sys.unraisablehook = self._before

    def _note(self, where: str, exc: BaseException | None) -> None:
        if not isinstance(exc, SystemExit):
            self._raised.append(f"raised: {where}: {exc!r}"[:300])


def main(arguments: list[str] | None = None) -> None:
    """Play histories until there are enough, or the time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--until", type=float, default=float("inf"))
    parser.add_argument("--without", default="")
    parser.add_argument("--features", default=None)
    parser.add_argument("--patience", type=float, default=20.0)
    parser.add_argument("--journal")
    given = parser.parse_args(arguments)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    logging.getLogger().setLevel(logging.INFO)
    open_once()
    without = [one for one in given.without.split(",") if one]
    only = None if given.features is None else [one for one in given.features.split(",") if one]
    program = os.getppid()
    for number in range(given.count):
        if time.time() > given.until or os.getppid() != program:
            break
        plan = draw(given.first + number * given.step, without, only)
        _say(begins=plan.seed, plan=str(plan))
        began = time.monotonic()
        wrong, events = run_history(plan, given.patience, given.journal)
        shown = [str(event) for event in _last(events)] if wrong else []
        _say(ends=plan.seed, seconds=time.monotonic() - began, events=len(events), wrong=wrong[:20], shown=shown)


def _last(events: list[Event]) -> list[Event]:
    """The last ones that tell something, before it was seen that something is wrong."""
    until = next((number for number, event in enumerate(events, 1) if event.what == "WRONG"), len(events))
    return [event for event in events[:until] if event.what not in ("sent", "dead", "exit")][-SHOWN:]


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
