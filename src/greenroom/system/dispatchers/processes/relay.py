"""How the outcome of a question gets to the process that asked it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenroom.wire.failures import Failure

__all__ = ["Relay"]


class Relay:
    """A future, as far as a question needs one: it tells somebody whether there is an answer, and which."""

    __slots__ = ("_is_done", "_tell")

    def __init__(self, tell: Callable[[bool, Any], object]) -> None:
        self._tell = tell
        self._is_done = False

    def done(self) -> bool:
        """Whether it has been told."""
        return self._is_done

    def cancel(self) -> bool:
        """Nobody waits here who could."""
        return False

    def set_result(self, value: object) -> None:
        """It has been answered."""
        self._is_done = True
        self._tell(True, value)

    def set_exception(self, error: BaseException) -> None:
        """It has not, and this is why."""
        self._is_done = True
        self._tell(False, Failure.of(error))
