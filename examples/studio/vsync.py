"""The clock: a tick for each frame."""

from __future__ import annotations

from examples.studio.messages import Settings, Tick
from greenroom import Actor, Lane
from greenroom.pods import Handles, ServiceHandle


class Beat:
    """The timer of vsync has fired."""


class VsyncPeers(Handles):
    """Whom vsync sends to."""

    engine: ServiceHandle[Tick]
    logger: ServiceHandle[str]


class Vsync(Actor[Beat, None]):
    """Counts, and sends each number to the engine. While that is restarted, `send` waits."""

    peers: VsyncPeers

    def __init__(self) -> None:
        self.number = 0

    def pre_start(self) -> None:
        """Begin to tick."""
        settings: Settings = self.ctx.env["settings"]
        self.ctx.send_every(1 / settings.fps, self.ctx.self, Beat(), fixed_rate=True)

    def post_start(self) -> None:
        """Once for each start, also after a restart."""
        self.peers.logger.send(f"vsync begins after {self.number}", lane=Lane.LOG)

    def receive(self, message: Beat) -> None:
        """Time for the next frame."""
        self.number += 1
        self.peers.engine.send(Tick(self.number))

    def snapshot(self) -> int:
        """What a restart keeps: the count, for no number comes twice."""
        return self.number

    def restore(self, state: int) -> None:
        """Go on from there."""
        self.number = state
