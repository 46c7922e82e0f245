"""The picture in a window, by Tk: a GUI whose main loop has the main thread, and polls the MAIN pod.

>>> list(pixels_of("\\x1b[38;5;196;48;5;21m▀\\x1b[0m"))
[('#ff0000', '#0000ff')]
"""

from __future__ import annotations

import re
import tkinter as tk
from collections.abc import Iterator
from functools import cache

from examples.studio.display import Screen
from examples.studio.messages import Frame
from examples.studio.plasma import HEIGHT, WIDTH
from greenroom.pods import MainLoop

ZOOM = 12
CELL = re.compile(r"\x1b\[38;5;(\d+);48;5;(\d+)m▀")
LEVELS = (0, 95, 135, 175, 215, 255)


class Window(Screen):
    """Draws into a window. The keys are those of the terminal."""

    def __init__(self) -> None:
        super().__init__(is_terminal=False)
        self.root = tk.Tk()
        self.root.title("Studio")
        self.image = tk.PhotoImage()
        self.picture = tk.Label(self.root, width=WIDTH * ZOOM, height=2 * HEIGHT * ZOOM)
        self.picture.pack()
        self.below = tk.Label(self.root, font="TkFixedFont", justify="left", anchor="w")
        self.below.pack(fill="x")
        self.root.bind("k", lambda event: self.on_key("k"))
        self.root.bind("q", lambda event: self.root.quit())
        self.root.protocol("WM_DELETE_WINDOW", self.root.quit)

    def run(self, main: MainLoop) -> None:
        """Tk's main loop. When it returns, the show is over."""

        def poll() -> None:
            main.poll_once()  # a bounded turn of the MAIN pod, which never waits
            if main.is_over:
                self.root.quit()
            else:
                self.root.after(5, poll)

        poll()
        self.root.mainloop()
        self.root.destroy()

    def draw(self, frame: Frame) -> None:
        """Show its pixels, and the line below."""
        small = tk.PhotoImage(width=WIDTH, height=2 * HEIGHT)
        lines = []
        for row in frame.rows:
            upper, lower = zip(*pixels_of(row), strict=True)
            lines += [f"{{{' '.join(upper)}}}", f"{{{' '.join(lower)}}}"]
        small.put(" ".join(lines))
        self.image = small.zoom(ZOOM)
        self.picture["image"] = self.image
        self.below["text"] = "\n".join(self.status())


def pixels_of(row: str) -> Iterator[tuple[str, str]]:
    """The colours of each character: of its upper pixel and of its lower one."""
    for match in CELL.finditer(row):
        yield rgb(int(match[1])), rgb(int(match[2]))


@cache
def rgb(code: int) -> str:
    """One of the 216 colours of terminals, as Tk writes it."""
    red, rest = divmod(code - 16, 36)
    green, blue = divmod(rest, 6)
    return f"#{LEVELS[red]:02x}{LEVELS[green]:02x}{LEVELS[blue]:02x}"
