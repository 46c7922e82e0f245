"""Telemetry: counts what the engine does, on the kubelet's thread, because it never has much to do."""

from __future__ import annotations

from contextlib import suppress

from examples.studio.messages import Made, Report, Started
from greenroom import Actor, handles
from greenroom.pods import Handles, Mates, PodGone, ServiceHandle


class Logger(Actor[str, None]):
    """Keeps notes; the newest is shown."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def receive(self, message: str) -> None:
        """Another note."""
        self.notes.append(message)


class MetricsPeers(Handles):
    """Whom metrics sends to."""

    display: ServiceHandle[Report]


class MetricsMates(Mates):
    """Who shares its pod."""

    logger: Logger


class Metrics(Actor[Made | Started, None]):
    """Counts frames, and starts of the engine."""

    peers: MetricsPeers
    pod: MetricsMates

    def __init__(self) -> None:
        self.frames = self.starts = 0
        self.last = 0.0

    @handles(Started)
    def count_start(self, started: Started) -> None:
        """The engine is here; if it was here before, this is a restart."""
        self.starts += 1
        if self.starts > 1:
            self.pod.logger.notes.append(f"restart {self.starts - 1} after frame {self.frames}")
        self.tell_display()

    @handles(Made)
    def count_frame(self, made: Made) -> None:
        """One more frame."""
        self.frames += 1
        self.last = made.seconds
        self.tell_display()

    def tell_display(self) -> None:
        """Have it shown."""
        notes = self.pod.logger.notes
        with suppress(PodGone):  # the show is over
            self.peers.display.send(Report(self.frames, self.starts, 1e3 * self.last, notes[-1] if notes else ""))
