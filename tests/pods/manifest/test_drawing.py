"""A manifest drawn: as text, as Mermaid and as a picture."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from greenroom import Actor
from greenroom.pods import Handles, Pod, RestartPolicy, ServiceHandle, ThreadModel, Troupe


class EnginePeers(Handles):
    display: ServiceHandle[str]


class Vsync(Actor[int, None]):
    def receive(self, message: int) -> None:
        self.peers.engine.send(message)  # type: ignore[attr-defined]


class Engine(Actor[int, None]):
    peers: EnginePeers

    def receive(self, message: int) -> None:
        self.peers.display.send(str(message))


class Sink(Actor[object, None]):
    def receive(self, message: object) -> None: ...


class Studio(Troupe):
    vsync = Pod(Vsync, restart=RestartPolicy.ALWAYS, expose=True)
    engine = Pod(engine=Engine, config=Sink, core=1)
    display = Pod(Sink, thread=ThreadModel.MAIN)
    telemetry = Pod(metrics=Sink, thread=ThreadModel.COOPERATIVE)


class House(Troupe):
    studio = Pod(Studio)


TEXT = """\
Studio: 4 pods, 5 actors

  on the thread that calls play()
    display    display  [main, restart never]

  on threads of their own
    vsync      vsync  [dedicated, restart always]
    engine     engine, config  [dedicated, restart on failure, core 1]

  on the kubelet's thread
    telemetry  metrics  [cooperative, restart on failure]

  sends
    vsync  -> engine
    engine -> display

  exposed: vsync"""

MERMAID = """\
flowchart LR
    subgraph pod_vsync["vsync: dedicated, restart always"]
        vsync(["vsync"])
    end
    subgraph pod_engine["engine: dedicated, restart on failure, core 1"]
        engine["engine"]
        config["config"]
    end
    subgraph pod_display["display: main, restart never"]
        display["display"]
    end
    subgraph pod_telemetry["telemetry: cooperative, restart on failure"]
        metrics["metrics"]
    end
    vsync --> engine
    engine --> display"""


def test_a_manifest_can_be_read() -> None:  # K9
    assert str(Studio.describe()) == TEXT
    assert "studio (troupe)" in str(House.describe())


def test_a_manifest_is_a_flowchart() -> None:  # K9
    assert Studio.describe().mermaid() == MERMAID


def test_a_manifest_is_a_picture_with_every_pod_actor_and_way() -> None:  # K9
    picture = Studio.describe().svg()
    root = ET.fromstring(picture)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for word in ("Studio", "vsync", "engine", "config", "display", "telemetry", "metrics", "exposed"):
        assert word in texts
    arrows = [element for element in root.iter("{http://www.w3.org/2000/svg}path") if element.get("fill") != "none"]
    assert len(arrows) == 2
    assert Studio.describe()._repr_svg_() == picture
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        if "x" in box.attrib:
            assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
            assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height
