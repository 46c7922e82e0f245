"""A manifest as text, as Mermaid and as a picture: what `Troupe.describe()` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.errors.base import counted
from greenroom.pods.manifest.factories import is_troupe
from greenroom.pods.manifest.manifest import Manifest
from greenroom.pods.manifest.settings import ThreadModel

if TYPE_CHECKING:
    from greenroom.pods.manifest.pod import Pod

__all__ = ["Description"]

_PLACES = {
    ThreadModel.MAIN: "the thread that calls play()",
    ThreadModel.DEDICATED: "threads of their own",
    ThreadModel.COOPERATIVE: "the kubelet's thread",
    ThreadModel.PROCESS: "processes of their own",
}


class Description:
    """A drawing of a troupe's manifest. Its text is `str(...)`."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest

    def __repr__(self) -> str:
        return f"<Description of {self._manifest.name}>"

    def __str__(self) -> str:
        manifest = self._manifest
        pods = list(manifest.pods.values())
        lines = [f"{manifest.name}: {counted(len(pods), 'pod')}, {counted(len(manifest.owners), 'actor')}"]
        wide = max((len(pod.name) for pod in pods), default=0)
        for model, place in _PLACES.items():
            here = [pod for pod in pods if pod.thread is model]
            if here:
                lines += ["", f"  on {place}"]
                lines += [f"    {pod.name:{wide}}  {_actors(pod, manifest)}  [{_settings(pod)}]" for pod in here]
        edges = _edges(manifest)
        if edges:
            senders: dict[str, list[str]] = {}
            for sender, receiver in edges:
                senders.setdefault(sender, []).append(receiver)
            lines += ["", "  sends"]
            far = max(map(len, senders))
            lines += [f"    {sender:{far}} -> {', '.join(receivers)}" for sender, receivers in senders.items()]
        if manifest.exposed:
            lines += ["", f"  exposed: {', '.join(manifest.exposed)}"]
        return "\n".join(lines)

    def mermaid(self) -> str:
        """As a Mermaid flowchart."""
        manifest = self._manifest
        lines = ["flowchart LR"]
        for pod in manifest.pods.values():
            lines.append(f'    subgraph pod_{pod.name}["{pod.name}: {_settings(pod)}"]')
            for actor in pod.actors:
                open_, close = ("([", "])") if actor in manifest.exposed else ("[", "]")
                lines.append(f'        {actor}{open_}"{actor}"{close}')
            lines.append("    end")
        lines += [f"    {sender} --> {receiver}" for sender, receiver in _edges(manifest)]
        return "\n".join(lines)

    def svg(self) -> str:
        """As a picture that stands by itself."""
        from greenroom.pods.manifest.svgdrawing import draw

        pods = [(pod, _settings(pod)) for pod in self._manifest.pods.values()]
        return draw(self._manifest.name, pods, _edges(self._manifest), self._manifest.exposed)

    def _repr_svg_(self) -> str:
        """For notebooks."""
        return self.svg()


def _edges(manifest: Manifest) -> list[tuple[str, str]]:
    """Who sends to whom, as far as that is declared or can be seen in the code."""
    return [(actor, peer) for actor, peers in manifest.uses.items() for peer in peers]


def _actors(pod: Pod, manifest: Manifest) -> str:
    return ", ".join(f"{name} (troupe)" if is_troupe(one) else name for name, one in pod.actors.items())


def _settings(pod: Pod) -> str:
    shown = [pod.thread.value, f"restart {pod.restart.value.replace('_', ' ')}"]
    if pod.core is not None:
        shown.append(f"core {pod.core}")
    return ", ".join(shown)
