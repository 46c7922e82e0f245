"""The targets as a bar plot: one bar per target, all on one scale, a line where the target stands.

Ratios run from 1 to 90, and for some less is better; so a bar shows how much of its target a row
reaches (twice a floor, or half a ceiling, is 2), and the text beside it shows the figures.
Bars that go far beyond the scale are cut, with a slanted end. The file stands alone: its own
background and text colours, light or dark as the reader's system asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.report import write_score, write_target
from benchmarks.results import Line, Mark, RowResult

WIDTH = 920
MARGIN = 28
LABELS = 318
BARS = 420
TOP = 112
STEP = 44
BAR_HEIGHT = 18
SCALE_END = 3.0

STYLE = """
  .card { fill: #ffffff; stroke: #d8dee4; }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-size: 19px; font-weight: 600; }
  .soft { fill: #59636e; font-size: 12px; }
  .strong { font-weight: 600; }
  .grid { stroke: #d8dee4; stroke-width: 1; }
  .target { stroke: #1f2328; stroke-width: 1.5; stroke-dasharray: 4 3; }
  .track { fill: #f3f5f7; }
  .meets { fill: #2a9d6f; }
  .misses { fill: #d9822b; }
  .other { fill: #8c959f; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d; }
    text { fill: #e6edf3; }
    .soft { fill: #9198a1; }
    .grid { stroke: #30363d; }
    .target { stroke: #e6edf3; }
    .track { fill: #161b22; }
    .meets { fill: #3fb68b; }
    .misses { fill: #e0913f; }
    .other { fill: #6e7681; }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One target: what it is about, how much of it is reached, and what is written beside it."""

    work: str
    against: str
    reach: float | None
    mark: Mark
    text: str


def draw(facts: Mapping[str, str], results: Sequence[RowResult]) -> str:
    """The plot as the text of an SVG file."""
    bars = [_bar(result, line) for result in results for line in result.lines if line.comparison.target]
    height = TOP + STEP * len(bars) + 44
    body = [_heading(facts), _scale(len(bars))]
    body += [_draw_bar(bar, TOP + STEP * place) for place, bar in enumerate(bars)]
    body.append(_target_line(len(bars)))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Greenroom against its targets">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def reach(line: Line) -> float | None:
    """How much of its target a line reaches: 1 is the target itself, more is better."""
    target = line.comparison.target
    if target is None or line.score is None:
        return None
    return target.bound / line.score if target.is_ceiling else line.score / target.bound


def _bar(result: RowResult, line: Line) -> Bar:
    row, peer = result.row, line.comparison.peer
    against = f"against {peer.name}, target" if peer else "target"
    return Bar(
        work=f"{row.id} {row.work}",
        against=f"{against} {write_target(row, line.comparison)}",
        reach=reach(line),
        mark=line.mark,
        text=str(line.mark) if line.score is None else write_score(row, line),
    )


def _heading(facts: Mapping[str, str]) -> str:
    named = {"greenroom": "Greenroom ", "python": "", "machine": ""}
    where = " · ".join(prefix + facts[name] for name, prefix in named.items() if name in facts)
    return "\n".join(
        (
            _text(MARGIN, 38, "Greenroom against its targets", "title"),
            _text(MARGIN, 60, where, "soft"),
        )
    )


def _scale(bars: int) -> str:
    bottom = TOP + STEP * bars - 8
    marks = []
    for tick in range(int(SCALE_END) + 1):
        at = _at(tick)
        marks.append(f'<line class="grid" x1="{at}" y1="{TOP - 12}" x2="{at}" y2="{bottom}"/>')
        if tick != 1:
            marks.append(_text(at, TOP - 20, f"{tick}" if tick == 0 else f"{tick}x target", "soft", "middle"))
    return "\n".join(marks)


def _target_line(bars: int) -> str:
    at = _at(1)
    bottom = TOP + STEP * bars - 8
    return (
        f'<line class="target" x1="{at}" y1="{TOP - 14}" x2="{at}" y2="{bottom}"/>\n'
        + _text(at, TOP - 20, "target", "strong", "middle")
        + "\n"
        + _text(MARGIN, bottom + 26, "Longer is better. A slanted end: the bar goes on beyond the scale.", "soft")
    )


def _draw_bar(bar: Bar, top: float) -> str:
    middle = top + BAR_HEIGHT / 2
    drawn = [
        _text(MARGIN, top + 8, bar.work),
        _text(MARGIN, top + 24, bar.against, "soft"),
        f'<rect class="track" x="{_at(0)}" y="{top}" width="{BARS}" height="{BAR_HEIGHT}" rx="3"/>',
    ]
    if bar.reach is None:
        return "\n".join([*drawn, _text(_at(0) + 8, middle + 4, bar.text, "soft")])
    drawn += [_shape(bar, bar.reach, top), _text(_at(SCALE_END) + 14, middle + 5, bar.text, "strong")]
    return "\n".join(drawn)


def _shape(bar: Bar, length: float, top: float) -> str:
    kind = {Mark.MEETS: "meets", Mark.BELOW: "misses", Mark.ABOVE: "misses"}.get(bar.mark, "other")
    start, bottom = _at(0), top + BAR_HEIGHT
    if length <= SCALE_END:
        width = max(_at(length) - start, 1.0)
        return f'<rect class="{kind}" x="{start}" y="{top}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="3"/>'
    end = _at(SCALE_END)
    points = f"{start},{top} {end},{top} {end - 10},{bottom} {start},{bottom}"
    return f'<polygon class="{kind}" points="{points}"/>'


def _at(reached: float) -> float:
    return MARGIN + LABELS + BARS * reached / SCALE_END


def _text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    classes = f' class="{kind}"' if kind else ""
    return f'<text{classes} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'
