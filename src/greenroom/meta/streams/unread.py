"""Ending a stream without losing what is on its way: what the other side has sent, and that nothing more is sent."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

try:
    from fcntl import ioctl
    from termios import FIONREAD as _FIONREAD

    HOW_MANY_UNREAD = int(_FIONREAD)
except ImportError:  # Windows
    HOW_MANY_UNREAD = 0

__all__ = ["end_writing", "has_unread"]


def has_unread(transport: Any) -> bool:
    """Whether something has come on a transport's socket that was not read: closing it would reset the connection."""
    sock = transport.get_extra_info("socket")
    if sock is None or not HOW_MANY_UNREAD:
        return False
    unread = bytearray(4)
    try:
        ioctl(sock.fileno(), HOW_MANY_UNREAD, unread)  # pyright: ignore[reportPossiblyUnboundVariable]
    except OSError:
        return False
    return int.from_bytes(unread, sys.byteorder) > 0


def end_writing(transport: Any) -> None:
    """Have the other side see the end of the stream; of one that it has reset, the transport says so soon."""
    with suppress(OSError):  # asyncio's own has it from the system, which knows of the reset before anybody reads
        transport.write_eof()
