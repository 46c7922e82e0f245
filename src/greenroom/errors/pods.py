"""What can go wrong with pods, their handles and their manifests."""

from __future__ import annotations

from greenroom.errors.base import GreenroomError, counted, in_words
from greenroom.errors.messages import MailboxFull
from greenroom.errors.systems import ConfigError, SystemFailed

__all__ = [
    "ConnectTimeout",
    "Fatal",
    "HandleHeld",
    "ManifestError",
    "PodGone",
    "PodRestartLimit",
    "RingFull",
    "TroupeEnding",
    "TroupeFailed",
]


class ManifestError(ConfigError):
    """A troupe's class body makes no sense; the text begins with the line that is wrong."""

    def __init__(self, where: str, name: str, value: object, why: str) -> None:
        GreenroomError.__init__(self, f"{where}: {why}")
        self.where = where
        self.field = name
        self.value = value


class PodGone(GreenroomError):
    """The pod has ended and will not come back. The message was not sent: it is in `.message`.

    `__cause__` is what the pod failed with, if it has failed.
    """

    def __init__(self, pod: str, why: str, message: object = None) -> None:
        super().__init__(f"the pod {pod!r} is gone, and the message was not sent: {why}")
        self.pod = pod
        self.why = why
        self.message = message


class TroupeEnding(PodGone):
    """The pod is gone because its troupe ends. An actor whose handler lets this out has not failed."""


class ConnectTimeout(GreenroomError, TimeoutError):
    """The pod was not restarted in time. The message was not sent: it is in `.message`."""

    def __init__(self, pod: str, seconds: float, why: str, message: object = None) -> None:
        super().__init__(
            f"the pod {pod!r} was not back after {seconds:g} s, and the message was not sent: {why}. Try again, or "
            "give `connect_timeout` in KubeletConfig more time"
        )
        self.pod = pod
        self.message = message


class RingFull(MailboxFull):
    """The holder of a handle has as many messages waiting at the pod as it may. This one is in `.message`."""

    def __init__(
        self,
        pod: str,
        message: object,
        lane: object,
        capacity: int,
        why: str,
        remedy: str = "Send more slowly",
    ) -> None:
        GreenroomError.__init__(
            self,
            f"{counted(capacity, 'message')} of this handle wait at the pod {pod!r} in {lane}, and there is room for "
            f"no more: {why}. The message was not sent, and is in `.message`. {remedy}, or give the pod larger "
            "`buffers`",
        )
        self.ref = pod
        self.message = message
        self.lane = lane
        self.capacity = capacity


class HandleHeld(GreenroomError):
    """A service handle was used by a second thread."""

    def __init__(self, pod: str) -> None:
        super().__init__(
            f"this handle of the pod {pod!r} belongs to another thread, which has sent with it: a handle has one "
            "holder. Give this thread its own with `handle.clone()`"
        )
        self.pod = pod


class Fatal(GreenroomError):
    """Raise this in a pod's actor to say that a restart would be of no use: `raise Fatal("no such device")`."""


class PodRestartLimit(GreenroomError):
    """The pods of a kubelet were restarted too often."""

    def __init__(self, pod: str, limit: int, within: float, cause: BaseException | None) -> None:
        last = "it ended" if cause is None else f"it failed with {in_words(cause)}"
        super().__init__(
            f"the pod {pod!r} would be restart number {limit + 1} in {within:g} s ({last}). Find out why it ends, or "
            "raise `max_restarts` or `within` in KubeletConfig"
        )
        self.pod = pod


class TroupeFailed(SystemFailed):
    """A failure ended the troupe; `__cause__` is what it was, and `.pod` whose."""

    def __init__(self, name: str, cause: BaseException, pod: str | None = None) -> None:
        whose = "" if pod is None else f" of the pod {pod!r}"
        GreenroomError.__init__(self, f"the troupe {name!r} was ended by a failure{whose}: {in_words(cause)}")
        self.name = name
        self.pod = pod
