"""What a kubelet needs of the troupe that it looks after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from greenroom.pods.kubelet.heartbeat import Heart
    from greenroom.pods.kubelet.podrecord import PodRecord
    from greenroom.pods.manifest.settings import KubeletConfig

__all__ = ["Ends", "TroupeParts"]

Ends = Callable[[BaseException | None, str | None], object]
"""Called, once, when a troupe has come to its end: with a cause and a pod's name, if it has failed."""


class TroupeParts(Protocol):
    """A troupe, to its kubelet."""

    name: str
    config: KubeletConfig
    pods: dict[str, PodRecord]
    heart: Heart
    # What the troupe is to the kubelet above, if it is within another.
    outer: PodRecord | None
    ends: Ends
    # Whether the kubelet's thread is its own, and not that of a program's asyncio.
    has_own_thread: Callable[[], bool]

    def let_all_go(self, why: str) -> None:
        """None of its pods will come back, nor of those of troupes within. `why` is what has become of a troupe."""
        ...

    def let_senders_wait(self, wait: bool) -> None:
        """Whether its actors wait for room, and for pods that are restarted."""
        ...

    def bring_up(self, record: PodRecord) -> None:
        """Spawn what supervises a pod."""
        ...
