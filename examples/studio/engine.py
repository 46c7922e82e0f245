"""The engine: it makes a frame of each tick. It is killed from time to time, and its senders do not wait for long."""

from __future__ import annotations

from time import perf_counter
from typing import Never

from examples.studio.messages import Frame, Kill, Made, Settings, Started, Tick
from examples.studio.plasma import HEIGHT, rows_of
from greenroom import Actor, Lane, handles
from greenroom.pods import Handles, Mates, PodGone, ServiceHandle


class Killed(Exception):
    """The engine was told to fail."""


class Config(Actor[Settings, None]):
    """The settings, for the engine to read: they are in one pod, so they share a thread, and no message is needed."""

    value: Settings

    def pre_start(self) -> None:
        """Begin with what the command line said."""
        self.value = self.ctx.env["settings"]

    def receive(self, message: Settings) -> None:
        """Others hold from now on."""
        self.value = message


class EnginePeers(Handles):
    """Whom the engine sends to."""

    display: ServiceHandle[Frame]
    metrics: ServiceHandle[Made, Never, Started]


class EngineMates(Mates):
    """Who shares the engine's pod."""

    config: Config


class Engine(Actor[Tick | Kill, None]):
    """Sends whole frames, or none."""

    peers: EnginePeers
    pod: EngineMates

    def post_start(self) -> None:
        """Once for each start, also after a restart."""
        self.peers.metrics.send(Started(), lane=Lane.MANAGEMENT)

    @handles(Tick)
    def draw(self, tick: Tick) -> None:
        """Compute a frame, and send it when it is whole."""
        began = perf_counter()
        rows: list[str] = []
        for row in rows_of(tick.number):
            if len(rows) == HEIGHT // 2 and self.is_killed_at(tick.number):
                raise Killed(f"halfway through frame {tick.number}")
            rows.append(row)
        try:
            self.peers.display.send(Frame.of(tick.number, rows))
            self.peers.metrics.send(Made(tick.number, perf_counter() - began))
        except PodGone:  # the show is over: nobody looks at frames any more
            self.ctx.stop()

    @handles(Kill)
    def die(self, kill: Kill) -> None:
        """Fail between two frames."""
        raise Killed("somebody has pressed a key")

    def is_killed_at(self, number: int) -> bool:
        """Whether the settings want this frame to be lost."""
        every = self.pod.config.value.kill_every
        return every > 0 and number % every == 0
