"""The manifest of the studio: which parts there are, where they run, and after which ends they are restarted."""

from __future__ import annotations

from examples.studio.display import Display, Screen
from examples.studio.engine import Config, Engine
from examples.studio.messages import Settings
from examples.studio.telemetry import Logger, Metrics
from examples.studio.vsync import Vsync
from greenroom import SystemConfig
from greenroom.pods import KubeletConfig, Pod, RestartPolicy, ThreadModel, Troupe


class Studio(Troupe):
    """Ticks make frames, and frames are drawn."""

    vsync = Pod(Vsync, restart=RestartPolicy.ALWAYS)
    # `config` comes first, so it has started when the engine does.
    engine = Pod(config=Config, engine=Engine, restart=RestartPolicy.ON_FAILURE)
    display = Pod(Display, thread=ThreadModel.MAIN, restart=RestartPolicy.NEVER)
    telemetry = Pod(metrics=Metrics, logger=Logger, thread=ThreadModel.COOPERATIVE)


def make(settings: Settings, screen: Screen) -> Studio:
    """A studio that is ready to play. Kills are the point of it, so no number of restarts is too many."""
    config = SystemConfig(env={"settings": settings, "screen": screen})
    return Studio.new(kubelet=KubeletConfig(max_restarts=None), config=config)
