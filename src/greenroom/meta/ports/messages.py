"""What passes between a program and its owner, beside `Write`, `CloseWrite` and `Close`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import Alias

__all__ = ["Exited", "Output", "SendSignal"]


@dataclass(slots=True, unsafe_hash=True)
class Output:
    """A frame that the program has written, to `"stdout"` or to `"stderr"`."""

    alias: Alias
    data: Any
    stream: str = "stdout"


@dataclass(slots=True, unsafe_hash=True)
class Exited:
    """The program has ended: the last message of a `Port`. `status` is 0 if all went well, -9 if signal 9 ended it.

    `error` says what broke it off, if its output did: a frame that is too large, say.
    """

    alias: Alias
    status: int
    error: BaseException | None = None


@dataclass(slots=True, unsafe_hash=True)
class SendSignal:
    """Send the program, and all it has started, a signal."""

    signal: int = signal.SIGTERM
