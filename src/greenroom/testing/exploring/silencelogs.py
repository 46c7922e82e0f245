"""Silences Greenroom's logs during many runs: every line would be printed a thousand times."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["silence_logs"]


def _is_not_greenroom(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] != "greenroom"


@contextmanager
def silence_logs() -> Iterator[None]:
    """Keep Greenroom's records from the handlers of the root logger. Handlers that a program adds still get them."""
    handlers = [*logging.getLogger().handlers]
    if logging.lastResort is not None:
        handlers.append(logging.lastResort)
    for handler in handlers:
        handler.addFilter(_is_not_greenroom)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_not_greenroom)
