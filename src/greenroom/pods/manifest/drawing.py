"""A manifest as text, as Mermaid and as a picture: what `Troupe.describe()` returns.

The picture has a box for each pod, its actors inside, and arrows to whom they send. Pods stand in columns, senders to
the left of those they send to, as far as that goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from greenroom.errortext import counted
from greenroom.pods.manifest.manifest import Manifest
from greenroom.pods.manifest.pod import Pod, is_troupe
from greenroom.pods.manifest.settings import ThreadModel

_PLACES = {
    ThreadModel.MAIN: "the thread that calls play()",
    ThreadModel.DEDICATED: "threads of their own",
    ThreadModel.COOPERATIVE: "the kubelet's thread",
    ThreadModel.PROCESS: "processes of their own",
}

# In pixels.
_MARGIN, _GAP, _ROW_GAP = 24.0, 96.0, 28.0
_WIDTH, _HEAD, _ACTOR, _PAD = 216.0, 52.0, 34.0, 12.0
_TOP = 64.0
_ARROW = 7.0
_LANE = 12.0
"""Between two arrows that run below all pods."""

_COLORS = {
    ThreadModel.MAIN: ("#fff4e0", "#c98a1b"),
    ThreadModel.DEDICATED: ("#e6f0fb", "#3b74b9"),
    ThreadModel.COOPERATIVE: ("#e7f5ec", "#3c8a57"),
    ThreadModel.PROCESS: ("#f3e9f9", "#8a4fae"),
}
"""The filling and the border of pods, by where they run."""
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"

Edge = tuple[str, str]


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
                lines += [f"    {pod.name:{wide}}  {_actors(pod)}  [{_settings(pod)}]" for pod in here]
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
        """Return the manifest as a Mermaid flowchart."""
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
        """Return the manifest as a picture that stands by itself."""
        return _draw(self._manifest)

    def _repr_svg_(self) -> str:
        """For notebooks."""
        return self.svg()


def _edges(manifest: Manifest) -> list[Edge]:
    """Who sends to whom, as far as that is declared or can be seen in the code."""
    return [(actor, peer) for actor, peers in manifest.uses.items() for peer in peers]


def _actors(pod: Pod) -> str:
    return ", ".join(f"{name} (troupe)" if is_troupe(one) else name for name, one in pod.actors.items())


def _settings(pod: Pod) -> str:
    shown = [pod.thread.value, f"restart {pod.restart.value.replace('_', ' ')}"]
    if pod.core is not None:
        shown.append(f"core {pod.core}")
    return ", ".join(shown)


# -- the picture


class _Box:
    """Where a pod stands."""

    def __init__(self, pod: Pod, left: float, top: float) -> None:
        self.pod = pod
        self.left = left
        self.top = top
        self.height = _HEAD + len(pod.actors) * _ACTOR + _PAD - 8.0
        self.bottom = top + self.height

    def middle_of(self, actor: str) -> float:
        """The height at which arrows reach an actor."""
        return self.top + _HEAD + list(self.pod.actors).index(actor) * _ACTOR + (_ACTOR - 8.0) / 2


def _draw(manifest: Manifest) -> str:
    boxes = _place(manifest)
    edges = [(boxes[manifest.owners[a]], a, boxes[manifest.owners[b]], b) for a, b in _edges(manifest)]
    bottom = max((box.bottom for box in boxes.values()), default=0.0)
    arrows, detours = _arrows(edges, bottom)
    right = max((box.left for box in boxes.values()), default=0.0) + _WIDTH + (_GAP if detours else _MARGIN)
    bottom += _MARGIN + detours * _LANE
    high = bottom + 28
    used = {pod.thread for pod in manifest.pods.values()}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:g} {high:g}" width="{right:g}" height="{high:g}"',
        f'font-family="{_FONT}" font-size="13" role="img">',
        f"<title>The troupe {escape(manifest.name)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(_MARGIN, 36, manifest.name, 'font-size="18" font-weight="600" '),
        *arrows,
        *(_pod(box, manifest.exposed) for box in boxes.values()),
        *_legend([model for model in ThreadModel if model in used], bottom, bool(manifest.exposed)),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _text(left: float, base: float, text: str, style: str = "", color: str = "#1f2937") -> str:
    return f'<text x="{left:g}" y="{base:g}" {style}fill="{color}">{escape(text)}</text>'


def _place(manifest: Manifest) -> dict[str, _Box]:
    owners = manifest.owners
    columns = _columns(list(manifest.pods), [(owners[a], owners[b]) for a, b in _edges(manifest)])
    tops: dict[int, float] = {}
    boxes: dict[str, _Box] = {}
    for pod in manifest.pods.values():
        column = columns[pod.name]
        box = boxes[pod.name] = _Box(pod, _MARGIN + column * (_WIDTH + _GAP), tops.get(column, _TOP))
        tops[column] = box.bottom + _ROW_GAP
    return boxes


def _columns(names: Sequence[str], edges: Sequence[Edge]) -> Mapping[str, int]:
    """How many steps each pod is from one without senders; an edge that closes a circle does not count."""
    forward: list[Edge] = []
    for sender, receiver in edges:
        if not _reaches(receiver, sender, forward):
            forward.append((sender, receiver))
    columns = dict.fromkeys(names, 0)
    for _ in names:
        for sender, receiver in forward:
            columns[receiver] = max(columns[receiver], columns[sender] + 1)
    return columns


def _reaches(start: str, end: str, edges: Sequence[Edge]) -> bool:
    seen = [start]
    for here in seen:
        seen += {receiver: None for sender, receiver in edges if sender == here and receiver not in seen}
    return end in seen


def _pod(box: _Box, exposed: Sequence[str]) -> str:
    fill, border = _COLORS[box.pod.thread]
    left, top = box.left, box.top
    parts = [
        f'<rect x="{left:g}" y="{top:g}" width="{_WIDTH:g}" height="{box.height:g}" rx="10"',
        f'fill="{fill}" stroke="{border}" stroke-width="1.5"/>',
        _text(left + _PAD, top + 21, box.pod.name, 'font-weight="600" '),
        _text(left + _PAD, top + 38, _settings(box.pod), 'font-size="11" ', "#4b5563"),
    ]
    for actor in box.pod.actors:
        middle = box.middle_of(actor)
        width = 2.5 if actor in exposed else 1
        parts.append(
            f'<rect x="{left + _PAD:g}" y="{middle - 13:g}" width="{_WIDTH - 2 * _PAD:g}" height="26" rx="6" '
            f'fill="#ffffff" stroke="{border}" stroke-width="{width:g}"/>' + _text(left + 2 * _PAD, middle + 4.5, actor)
        )
    return " ".join(parts)


def _arrows(edges: Iterable[tuple[_Box, str, _Box, str]], bottom: float) -> tuple[list[str], int]:
    """Straight to the next column; below all pods, by a detour, if others stand between, or if it goes back."""
    found: list[str] = []
    detours = 0
    for sender, from_actor, receiver, to_actor in edges:
        start, end = sender.middle_of(from_actor), receiver.middle_of(to_actor)
        right, left = sender.left + _WIDTH, receiver.left
        if left == right + _GAP:
            half = _GAP / 2
            path = f"M{right:g},{start:g} c{half:g},0 {half:g},{end - start:g} {_GAP - _ARROW:g},{end - start:g}"
        else:
            lane = bottom + 18 + detours * _LANE
            out, into = right + 14 + 6 * (detours % 5), left - 22 - 6 * (detours % 5)
            turns = [(right, start), (out, start), (out, lane), (into, lane), (into, end), (left - _ARROW, end)]
            path = "M" + " L".join(f"{x:g},{y:g}" for x, y in turns)
            detours += 1
        found.append(
            f'<path d="{path}" fill="none" stroke="#6b7280" stroke-width="1.5" stroke-linejoin="round"/>'
            f'<path d="M{left:g},{end:g} l-{_ARROW:g},-4 l0,8 z" fill="#6b7280"/>'
        )
    return found, detours


def _legend(models: Sequence[ThreadModel], bottom: float, has_exposed: bool) -> list[str]:
    entries = [(model.value, *_COLORS[model], "") for model in models]
    if has_exposed:
        entries.append(("exposed", "#ffffff", "#4b5563", ' stroke-width="2.5"'))
    parts, left = [], _MARGIN
    for label, fill, border, style in entries:
        parts.append(
            f'<rect x="{left:g}" y="{bottom:g}" width="14" height="14" rx="3" fill="{fill}" stroke="{border}"{style}/>'
            + _text(left + 20, bottom + 11.5, label, 'font-size="11" ', "#4b5563")
        )
        left += 20 + 7.2 * len(label) + 18
    return parts
