"""The stages of the pipeline: each is an actor with a program of its own.

A stage sends the next one a `Line` for each line, and waits when that has enough; and `End` after the last.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from pathlib import Path
from typing import Any

from examples.programs.messages import Crashed, End, Line
from greenroom import Actor, ActorRef, handles
from greenroom.meta import CloseWrite, Exited, Output, Port, Write

DOUBLER = str(Path(__file__).with_name("doubler.py"))


class Source(Actor[object]):
    """`seq`."""

    def __init__(self, count: int, target: ActorRef) -> None:
        self.count, self.target = count, target

    def pre_start(self) -> None:
        """Start the program."""
        self.ctx.spawn_meta(Port(["seq", "1", str(self.count)]))

    @handles(Output)
    async def pass_on(self, message: Output) -> None:
        """A line of the program."""
        await self.target.send(Line(message.data))

    @handles(Exited)
    async def end(self, message: Exited) -> None:
        """That was all."""
        await self.target.send(End())


class Filter(Actor[object]):
    """The program that crashes. Then this actor fails too, and is restarted; its next life has a fresh program.

    What it keeps (`snapshot`) are the lines that the program has not answered: the next one gets them first.
    """

    def __init__(self, target: ActorRef, seed: int) -> None:
        self.target, self.seed = target, seed
        self.unanswered: deque[bytes] = deque()
        self.is_last = False
        self.crashes = 0

    def snapshot(self) -> Any:
        """What the next life needs."""
        return self.unanswered, self.is_last, self.crashes + 1

    def restore(self, state: Any) -> None:
        """What the last life left."""
        self.unanswered, self.is_last, self.crashes = state

    def post_start(self) -> None:
        """Start the program, with what the last one has not answered. Each crashes at another moment."""
        command = [sys.executable, DOUBLER, f"{self.seed}-{self.crashes}"]
        self.port = self.ctx.spawn_meta(Port(command, stderr="null"))
        for line in self.unanswered:
            self.port.tell(Write(line))
        self.end_if_done()

    @handles(Line)
    async def ask(self, message: Line) -> None:
        """A line of the stage before."""
        self.unanswered.append(message.data)
        await self.port.send(Write(message.data))

    @handles(End)
    def note_end(self, message: End) -> None:
        """The stage before is done."""
        self.is_last = True
        self.end_if_done()

    @handles(Output)
    async def pass_on(self, message: Output) -> None:
        """An answer of the program."""
        if message.alias == self.port:
            self.unanswered.popleft()
            if message.data != b"-":
                await self.target.send(Line(message.data))
            self.end_if_done()

    @handles(Exited)
    async def ended(self, message: Exited) -> None:
        """The program is done, or has crashed."""
        if message.alias == self.port:
            if message.status != 0:
                raise Crashed(f"status {message.status}")
            await self.target.send(End())

    def end_if_done(self) -> None:
        """When all is answered, let the program end."""
        if self.is_last and not self.unanswered:
            self.port.tell(CloseWrite())

    def inspect(self, *items: str) -> dict[str, object]:
        """How often the program has crashed."""
        return {"crashes": self.crashes}


class Sink(Actor[object]):
    """`sort -rn`: its lines are the result."""

    def __init__(self, done: asyncio.Future[list[int]]) -> None:
        self.done = done
        self.lines: list[int] = []

    def pre_start(self) -> None:
        """Start the program."""
        self.port = self.ctx.spawn_meta(Port(["sort", "-rn"]))

    @handles(Line)
    async def write(self, message: Line) -> None:
        """A line of the stage before."""
        await self.port.send(Write(message.data))

    @handles(End)
    def end(self, message: End) -> None:
        """The stage before is done."""
        self.port.tell(CloseWrite())

    @handles(Output)
    def keep(self, message: Output) -> None:
        """A line of the result."""
        self.lines.append(int(message.data))

    @handles(Exited)
    def ended(self, message: Exited) -> None:
        """That is all of it."""
        self.done.set_result(self.lines)
