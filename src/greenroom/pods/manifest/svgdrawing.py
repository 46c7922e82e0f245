"""A manifest as a picture: a box for each pod, its actors inside, and arrows to whom they send.

Pods stand in columns, senders to the left of those they send to, as far as that goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from greenroom.pods.manifest.settings import ThreadModel

if TYPE_CHECKING:
    from greenroom.pods.manifest.pod import Pod

__all__ = ["draw"]

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


class _Box:
    """Where a pod stands."""

    def __init__(self, pod: Pod, settings: str, left: float, top: float) -> None:
        self.pod = pod
        self.settings = settings
        self.left = left
        self.top = top
        self.height = _height(pod)

    def middle_of(self, actor: str) -> float:
        """The height at which arrows reach an actor."""
        return self.top + _HEAD + list(self.pod.actors).index(actor) * _ACTOR + (_ACTOR - 8.0) / 2


def draw(name: str, pods: Sequence[tuple[Pod, str]], edges: Sequence[Edge], exposed: Sequence[str]) -> str:
    """The picture, as SVG."""
    owners = {actor: pod.name for pod, _ in pods for actor in pod.actors}
    boxes = _place(pods, _columns([pod.name for pod, _ in pods], [(owners[a], owners[b]) for a, b in edges]))
    by_actor = {actor: boxes[owner] for actor, owner in owners.items()}
    arrows = _arrows([(by_actor[a], a, by_actor[b], b) for a, b in edges], _bottom_of(boxes.values()))
    detours = sum(1 for arrow in arrows if arrow.is_detour)
    right = max((box.left for box in boxes.values()), default=0.0) + _WIDTH + (_GAP if detours else _MARGIN)
    bottom = _bottom_of(boxes.values()) + _MARGIN + detours * _LANE
    high = bottom + 28
    used = {pod.thread for pod, _ in pods}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:g} {high:g}" width="{right:g}" height="{high:g}"',
        f'font-family="{_FONT}" font-size="13" role="img">',
        f"<title>The troupe {escape(name)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{_MARGIN:g}" y="36" font-size="18" font-weight="600" fill="#1f2937">{escape(name)}</text>',
    ]
    parts += [arrow.drawn for arrow in arrows]
    parts += [_pod(box, exposed) for box in boxes.values()]
    parts += _legend([model for model in ThreadModel if model in used], bottom, bool(exposed))
    return "\n".join([*parts, "</svg>", ""])


def _height(pod: Pod) -> float:
    return _HEAD + len(pod.actors) * _ACTOR + _PAD - 8.0


def _columns(names: Sequence[str], edges: Sequence[Edge]) -> Mapping[str, int]:
    """How many steps each pod is from one that nobody sends to; what closes a circle does not count."""
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
    seen, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        if here == end:
            return True
        for sender, receiver in edges:
            if sender == here and receiver not in seen:
                seen.add(receiver)
                waiting.append(receiver)
    return False


def _place(pods: Sequence[tuple[Pod, str]], columns: Mapping[str, int]) -> dict[str, _Box]:
    tops: dict[int, float] = {}
    boxes: dict[str, _Box] = {}
    for pod, settings in pods:
        column = columns[pod.name]
        top = tops.get(column, _TOP)
        boxes[pod.name] = _Box(pod, settings, _MARGIN + column * (_WIDTH + _GAP), top)
        tops[column] = top + _height(pod) + _ROW_GAP
    return boxes


def _pod(box: _Box, exposed: Sequence[str]) -> str:
    fill, border = _COLORS[box.pod.thread]
    left, top = box.left, box.top
    parts = [
        f'<rect x="{left:g}" y="{top:g}" width="{_WIDTH:g}" height="{box.height:g}" rx="10"',
        f'fill="{fill}" stroke="{border}" stroke-width="1.5"/>',
        f'<text x="{left + _PAD:g}" y="{top + 21:g}" font-weight="600" fill="#1f2937">{escape(box.pod.name)}</text>',
        f'<text x="{left + _PAD:g}" y="{top + 38:g}" font-size="11" fill="#4b5563">{escape(box.settings)}</text>',
    ]
    for actor in box.pod.actors:
        middle = box.middle_of(actor)
        width = 2.5 if actor in exposed else 1
        parts.append(
            f'<rect x="{left + _PAD:g}" y="{middle - 13:g}" width="{_WIDTH - 2 * _PAD:g}" height="26" rx="6" '
            f'fill="#ffffff" stroke="{border}" stroke-width="{width:g}"/>'
            f'<text x="{left + 2 * _PAD:g}" y="{middle + 4.5:g}" fill="#1f2937">{escape(actor)}</text>'
        )
    return " ".join(parts)


class _Arrow(NamedTuple):
    """From an actor to an actor; by a detour, if that is below all pods."""

    drawn: str
    is_detour: bool


def _arrows(edges: Sequence[tuple[_Box, str, _Box, str]], bottom: float) -> list[_Arrow]:
    """Straight to the next column; below all pods if there are others between, or if it goes back."""
    found: list[_Arrow] = []
    detours = 0
    for sender, from_actor, receiver, to_actor in edges:
        start, end = sender.middle_of(from_actor), receiver.middle_of(to_actor)
        right, left = sender.left + _WIDTH, receiver.left
        if left == right + _GAP:
            half = _GAP / 2
            path = f"M{right:g},{start:g} c{half:g},0 {half:g},{end - start:g} {_GAP - _ARROW:g},{end - start:g}"
            found.append(_Arrow(_line(path, left, end), False))
        else:
            lane = bottom + 18 + detours * _LANE
            out, into = right + 14 + 6 * (detours % 5), left - 22 - 6 * (detours % 5)
            turns = [(right, start), (out, start), (out, lane), (into, lane), (into, end), (left - _ARROW, end)]
            path = "M" + " L".join(f"{x:g},{y:g}" for x, y in turns)
            found.append(_Arrow(_line(path, left, end), True))
            detours += 1
    return found


def _line(path: str, tip: float, height: float) -> str:
    head = f"M{tip:g},{height:g} l-{_ARROW:g},-4 l0,8 z"
    drawn = f'<path d="{path}" fill="none" stroke="#6b7280" stroke-width="1.5" stroke-linejoin="round"/>'
    return f'{drawn}<path d="{head}" fill="#6b7280"/>'


def _bottom_of(boxes: Iterable[_Box]) -> float:
    return max((box.top + box.height for box in boxes), default=0.0)


def _legend(models: Sequence[ThreadModel], bottom: float, has_exposed: bool) -> list[str]:
    parts, left = [], _MARGIN
    for model in models:
        fill, border = _COLORS[model]
        parts.append(
            f'<rect x="{left:g}" y="{bottom:g}" width="14" height="14" rx="3" fill="{fill}" stroke="{border}"/>'
            f'<text x="{left + 20:g}" y="{bottom + 11.5:g}" font-size="11" fill="#4b5563">{model.value}</text>'
        )
        left += 20 + 7.2 * len(model.value) + 18
    if has_exposed:
        parts.append(
            f'<rect x="{left:g}" y="{bottom:g}" width="14" height="14" rx="3" fill="#ffffff" stroke="#4b5563" '
            'stroke-width="2.5"/>'
            f'<text x="{left + 20:g}" y="{bottom + 11.5:g}" font-size="11" fill="#4b5563">exposed</text>'
        )
    return parts
