"""Logging that a test waits for, and logging that is broken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["broken_logging", "logged"]


class _Calls(logging.Handler):
    """Sets an event at the first record with some text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._text = text

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self._loop.call_soon_threadsafe(self.seen.set)


@contextmanager
def logged(text: str) -> Iterator[asyncio.Event]:
    """Give what is set when the runtime, on whichever thread, has logged `text`."""
    logger, handler = logging.getLogger("greenroom"), _Calls(text)
    logger.addHandler(handler)
    try:
        yield handler.seen
    finally:
        logger.removeHandler(handler)


class _Raises(logging.Handler):
    """Raises on some records; can be a handler, or a filter."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def emit(self, record: logging.LogRecord) -> None:
        self.refuse(record)

    def refuse(self, record: logging.LogRecord) -> bool:
        if self._text in record.getMessage():
            raise ValueError("this logging is broken")
        return True


@contextmanager
def broken_logging(name: str, by: str, text: str = "") -> Iterator[None]:
    """Let a "handler" or a "filter" of the logger `name` raise on every record with `text`."""
    logger, raises = logging.getLogger(name), _Raises(text)
    if by == "handler":
        logger.addHandler(raises)
    else:
        logger.addFilter(raises.refuse)
    try:
        yield
    finally:
        logger.removeHandler(raises)
        logger.removeFilter(raises.refuse)
