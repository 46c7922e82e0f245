"""Exceptions between processes: sent as they are if possible, with the original traceback as text.

>>> failure = Failure.of(ValueError("bad"))
>>> failure.restore()
ValueError('bad')
"""

from __future__ import annotations

import pickle
import traceback
from types import GetSetDescriptorType, MemberDescriptorType
from typing import NamedTuple

from greenroom.errors import FailedElsewhere
from greenroom.errortext import in_words
from greenroom.tracebacks import ShownElsewhere, fold


class TracebackElsewhere(ShownElsewhere):
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


_MEMBERS = MemberDescriptorType, GetSetDescriptorType
_PICKLING = "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"

Parts = tuple[type[BaseException], tuple[object, ...], dict[str, object]]
"""What an exception is made of: its class, its `args` and its attributes."""


def parts_of(exc: BaseException) -> Parts | None:
    """What can be sent of one that is not portable; None if it would not be the same when it is put together there.

    Its constructor is not called again: most often it is this that prevents the unpickling, because it takes something
    else than the text which it gives to `Exception`.
    """
    if not _is_all_in_parts(exc):
        return None
    parts = type(exc), exc.args, dict(vars(exc))
    try:
        again = assemble(*pickle.loads(pickle.dumps(parts, 5)))
        return parts if in_words(again) == in_words(exc) else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def _is_all_in_parts(exc: BaseException) -> bool:
    """Whether nothing of it is kept in slots, by C code, or by a way of pickling of its own."""
    kind = type(exc)
    if any(getattr(kind, name) is not getattr(BaseException, name) for name in _PICKLING):
        return False
    own = kind.__mro__[: kind.__mro__.index(BaseException)]
    members = {name for one in own for name, what in list(vars(one).items()) if isinstance(what, _MEMBERS)}
    return all(getattr(exc, name, None) is None for name in members - {"__dict__", "__weakref__"})


def assemble(kind: type[BaseException], args: tuple[object, ...], attributes: dict[str, object]) -> BaseException:
    exc = kind.__new__(kind, *args)
    exc.args = args
    vars(exc).update(attributes)
    return exc


class Failure(NamedTuple):
    """An exception in the form in which it is sent."""

    exc: BaseException
    text: str
    parts: Parts | None = None

    @classmethod
    def of(cls, exc: BaseException) -> Failure:
        fold(exc)
        text = "".join(traceback.format_exception(exc))
        if is_portable(exc):
            return cls(exc, text)
        parts = parts_of(exc)
        portable = exc if parts is not None else FailedElsewhere(type(exc).__qualname__, in_words(exc))
        return cls(portable, text, parts)

    def __reduce__(self) -> tuple[object, ...]:
        return (Failure, (self.exc, self.text)) if self.parts is None else (_arrive, (self.parts, self.text))

    def restore(self) -> BaseException:
        """The exception, with the original traceback as its cause."""
        self.exc.__cause__ = TracebackElsewhere(self.text)
        return self.exc


def _arrive(parts: Parts, text: str) -> Failure:
    return Failure(assemble(*parts), text)
