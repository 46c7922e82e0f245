"""The phases of a system's life, and the report on its end."""

from __future__ import annotations

from collections.abc import Mapping

from greenroom.frozen import Frozen


class Phase:
    """The phases of a system's life."""

    NEW = "new"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPING = "stopping"
    STOPPED = "stopped"


class ShutdownReport(Frozen):
    """How a system ended.

    `forced` has the paths of the actors that did not stop in time: at most a thousand, the first and the last of a
    system's life. `forced_count` counts them all. `discarded` says how many messages of which actor were not handled,
    not counting those that it had told itself; `discarded_count` is their sum. `busy` names the actors that were still
    at work when `drain_timeout` was over: if there are none, the system was quiet, or was not to drain. `signal` is the
    number of the signal that ended the system, if one did.
    """

    __slots__ = (  # noqa: RUF023 - in the order of the arguments
        "started",
        "terminated",
        "forced",
        "seconds",
        "cause",
        "forced_count",
        "discarded",
        "discarded_count",
        "busy",
        "signal",
    )

    started: int
    terminated: int
    forced: tuple[str, ...]
    seconds: float
    cause: BaseException | None
    forced_count: int
    discarded: Mapping[str, int]
    discarded_count: int
    busy: tuple[str, ...]
    signal: int | None

    def __init__(
        self,
        started: int,
        terminated: int,
        forced: tuple[str, ...],
        seconds: float,
        cause: BaseException | None,
        forced_count: int,
        discarded: Mapping[str, int],
        discarded_count: int,
        busy: tuple[str, ...],
        signal: int | None,
    ) -> None:
        self._set(started, terminated, forced, seconds, cause, forced_count, discarded, discarded_count, busy, signal)
