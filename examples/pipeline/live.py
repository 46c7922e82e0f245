"""The live view, by Rich: it fills the terminal, and is drawn anew four times a second."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from rich.bar import Bar
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.pipeline.gauges import Depth, Reading
from examples.pipeline.view import BUILD, describe
from greenroom import Ledger

COLUMNS, LINES = 80, 24
BLOCKS = " ▁▂▃▄▅▆▇█"
LEFT = ("sent", "handled", "failed", "queued", "in_hand")
RIGHT = ("unhandled", "dead_lettered", "dropped", "redirected", "lost")


class LiveView:
    """Shows readings on the terminal's other screen, and gives the first one back at the end."""

    interval = 0.25

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._history: list[Reading] = []

    @property
    def fits(self) -> bool:
        """Whether the terminal can be drawn on, and is large enough."""
        width, height = self._console.size
        return self._console.is_interactive and width >= COLUMNS and height >= LINES

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._live.stop()

    def show(self, reading: Reading) -> None:
        """Draw the next frame."""
        self._history.append(reading)
        self._live.update(draw(self._history), refresh=True)


def draw(history: Sequence[Reading]) -> Layout:
    """A frame: the last reading, and how fast it went so far. The chart takes the height that is left."""
    now = history[-1]
    peak = max(one.rate for one in history)
    speed = f"Throughput  [bold]{now.rate:,.0f} messages/s[/]  [dim]peak {peak:,.0f}[/]"
    balance = "the ledger balances" if now.ledger.balanced else "the ledger does NOT balance"
    frame, actors, messages = Layout(), Layout(size=7), Layout(size=7)
    frame.split_column(
        Layout(headline(now), size=1),
        Layout(panel(speed, Chart(history, peak))),
        actors,
        messages,
        Layout(progress(now), size=1),
    )
    actors.split_row(
        Layout(panel("Mailboxes", mailboxes(now.depths)), ratio=7),
        Layout(panel("Actors", counts(now.lives)), ratio=4),
    )
    messages.split_row(
        Layout(panel(f"Messages  [dim]{balance}[/]", columns(now.ledger)), ratio=7),
        Layout(panel("Dead letters", counts(now.dead_letters)), ratio=4),
    )
    return frame


def panel(title: str, content: RenderableType) -> Panel:
    return Panel(content, title=title, title_align="left", border_style="cyan")


def grid(shape: str, rows: Iterable[Sequence[RenderableType]]) -> Table:
    """Rows of cells. `shape` has a sign for each column: < flush left, > flush right, = takes the room that is left."""
    table = Table.grid(padding=(0, 1), expand=True)
    for sign in shape:
        table.add_column(no_wrap=True, justify="right" if sign == ">" else "left", ratio=1 if sign == "=" else None)
    for row in rows:
        table.add_row(*row)
    return table


def headline(now: Reading) -> Table:
    what = Text.assemble((" Greenroom", "bold cyan"), f"  {now.running:,} actors on one thread, {BUILD}")
    if now.crash is not None and now.elapsed - now.crash.time < 4.0:
        what = Text(f" {describe(now.crash)}", style="bold green" if now.crash.healed else "bold red")
    return grid("=>", [(what, Text("Ctrl-C ends it early ", style="dim"))])


def progress(now: Reading) -> Table:
    over = now.elapsed >= now.seconds
    until = "nothing more comes in, it runs dry " if over else f"of {now.seconds:g} s "
    bar = ProgressBar(now.seconds, min(now.elapsed, now.seconds), complete_style="cyan", finished_style="cyan")
    return grid(">=<", [(f"{now.elapsed:5.1f} s", bar, Text(until, style="dim"))])


def mailboxes(depths: Sequence[Depth]) -> Table:
    rows: list[Sequence[RenderableType]] = [
        [Text(head, style="dim") for head in ("", "actors", "room taken", "queued")]
    ]
    for depth in depths:
        colour = "green" if depth.share < 0.5 else "yellow" if depth.share < 0.9 else "red"
        bar = Bar(1.0, 0.0, depth.share, color=colour, bgcolor="grey23")
        rows.append((depth.stage, f"{depth.actors:,}", bar, f"{depth.queued:,}"))
    return grid("<>=>", rows)


def counts(numbers: Mapping[str, int]) -> Table:
    return grid("=>", [(name, f"{number:,}") for name, number in numbers.items()])


def columns(ledger: Ledger) -> Table:
    def cell(name: str) -> tuple[str, str]:
        return name.replace("_", " "), f"{getattr(ledger, name):,}"

    return grid("=><=>", [(*cell(left), " ", *cell(right)) for left, right in zip(LEFT, RIGHT, strict=True)])


class Chart:
    """How fast it went, from the beginning of the run to its end, in as many rows as there are."""

    def __init__(self, history: Sequence[Reading], peak: float) -> None:
        self._times = [one.elapsed for one in history]
        self._shares = [one.rate / max(peak, 1.0) for one in history]
        self._span = max(history[-1].elapsed, history[-1].seconds)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or 1
        drawn = round(width * self._times[-1] / self._span)
        eighths = []
        for column in range(drawn):
            place = bisect_left(self._times, (column + 1) / width * self._span)
            eighths.append(round(8 * height * self._shares[min(place, len(self._shares) - 1)]))
        for row in reversed(range(height)):
            text = "".join(BLOCKS[min(max(level - 8 * row, 0), 8)] for level in eighths)
            yield Text(text, style="green", no_wrap=True)
