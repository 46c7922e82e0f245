"""How an exception travels: as it is if that can be, with the traceback it had where it was raised.

>>> failure = Failure.of(ValueError("bad"))
>>> failure.restore()
ValueError('bad')
"""

from __future__ import annotations

import pickle
import traceback
from typing import NamedTuple

from greenroom.errors import FailedElsewhere, in_words

__all__ = ["Failure", "TracebackElsewhere", "is_portable"]


class TracebackElsewhere(Exception):
    """Not raised: stands as the cause of an exception from another process, and shows where that was raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def is_portable(exc: BaseException) -> bool:
    """Whether an exception can be pickled, and unpickled: many a class of them can only be the first."""
    try:
        return isinstance(pickle.loads(pickle.dumps(exc, 5)), BaseException)
    except Exception:
        return False


class Failure(NamedTuple):
    """An exception on its way."""

    exc: BaseException
    text: str

    @classmethod
    def of(cls, exc: BaseException) -> Failure:
        """What of `exc` can travel."""
        text = "".join(traceback.format_exception(exc))
        portable = exc if is_portable(exc) else FailedElsewhere(type(exc).__qualname__, in_words(exc))
        return cls(portable, text)

    def restore(self) -> BaseException:
        """The exception, with what is known of its origin as its cause."""
        self.exc.__cause__ = TracebackElsewhere(self.text)
        return self.exc
