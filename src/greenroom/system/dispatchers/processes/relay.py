"""Reports the outcome of a question to the process that asked it."""

from __future__ import annotations

from collections.abc import Callable

from greenroom.wire.failures import Failure

__all__ = ["OnOutcome", "Relay", "error_of"]

OnOutcome = Callable[[bool, object], object]
"""Called with the outcome of something: True and the result, or False and a `Failure`."""


class Relay:
    """The part of a future that a question needs: it calls `tell` with the outcome."""

    __slots__ = ("_is_done", "_tell")

    def __init__(self, tell: OnOutcome) -> None:
        self._tell = tell
        self._is_done = False

    def done(self) -> bool:
        """Whether there is an outcome."""
        return self._is_done

    def cancel(self) -> bool:
        """Nobody waits in this process, so there is nothing to cancel."""
        return False

    def set_result(self, value: object) -> None:
        """The question has been answered."""
        self._is_done = True
        self._tell(True, value)

    def set_exception(self, error: BaseException) -> None:
        """The question has failed."""
        self._is_done = True
        self._tell(False, Failure.of(error))


def error_of(failure: object) -> BaseException:
    """The exception in an outcome that is a `Failure`."""
    assert isinstance(failure, Failure)
    return failure.restore()
