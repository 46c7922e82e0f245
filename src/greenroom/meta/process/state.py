"""The three states of a meta-process."""

from __future__ import annotations

from enum import Enum

__all__ = ["MetaState"]


class MetaState(Enum):
    """What a meta-process does at present, besides reading."""

    SLEEP = "asleep"
    """No handler of it runs. Its reader may."""
    RUNNING = "running"
    """A handler runs, beside the reader."""
    TERMINATED = "terminated"
    """It has ended, or is about to: `terminate()` has been called."""
