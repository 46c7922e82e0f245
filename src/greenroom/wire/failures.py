"""Exceptions between processes: sent as they are if possible, with the original traceback as text.

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
    """Never raised: the cause of an exception from another process. It shows the traceback from there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def is_portable(exc: BaseException) -> bool:
    """Whether an exception can be pickled and unpickled. Many exception classes can only be pickled."""
    try:
        return isinstance(pickle.loads(pickle.dumps(exc, 5)), BaseException)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a user's class may raise anything
        return False


class Failure(NamedTuple):
    """An exception in the form in which it is sent."""

    exc: BaseException
    text: str

    @classmethod
    def of(cls, exc: BaseException) -> Failure:
        """`exc`, or a `FailedElsewhere` that describes it, with its traceback."""
        text = "".join(traceback.format_exception(exc))
        portable = exc if is_portable(exc) else FailedElsewhere(type(exc).__qualname__, in_words(exc))
        return cls(portable, text)

    def restore(self) -> BaseException:
        """The exception, with the original traceback as its cause."""
        self.exc.__cause__ = TracebackElsewhere(self.text)
        return self.exc
