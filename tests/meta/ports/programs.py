"""Programs for ports to run, and a look at what becomes of their processes."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from greenroom import Alias
from greenroom.meta import Exited, MetaOptions, Output, Port
from tests.meta.owners import Heard, Scene

__all__ = [
    "LIMIT",
    "REST",
    "all_of",
    "children",
    "end_of",
    "gone",
    "hear",
    "is_gone",
    "line",
    "number",
    "poll",
    "python",
    "sh",
    "start",
    "steady",
    "text",
]

LIMIT = 45.0
"""Seconds that what is at once may take on the busiest of machines."""
REST = "while :; do sleep 1000 & wait $!; done"
"""For a shell: rest until a signal comes; its sleep is of its group."""


def sh(script: str) -> list[str]:
    """A script for the shell, as a command."""
    return ["/bin/sh", "-c", script]


def python(script: str, *arguments: str) -> list[str]:
    """A script in Python, as a command."""
    return [sys.executable, "-I", "-S", "-c", script, *arguments]


async def start(scene: Scene, command: Any, meta: MetaOptions | None = None, **options: Any) -> Alias:
    """Have the owner run a program."""
    return await scene.spawn(Port(command, **options), meta)


async def hear(scene: Scene) -> Any:
    """The next message that the owner hears, whichever of its programs have ended meanwhile."""
    return (await scene.probe.fish(Heard)).message


async def line(scene: Scene, stream: str = "stdout") -> Any:
    """The next line that the program has written."""
    output = await hear(scene)
    assert isinstance(output, Output), output
    assert output.stream == stream, output
    return output.data


async def number(scene: Scene) -> int:
    """The next line, which is the number of a process."""
    return int(await line(scene))


async def all_of(scene: Scene) -> tuple[list[Output], Exited]:
    """What is left of a program's output, and its end."""
    outputs = []
    while not isinstance(message := await hear(scene), Exited):
        assert isinstance(message, Output), message
        outputs.append(message)
    await scene.system.settle()
    later = [one for one in scene.probe.messages if isinstance(one, Heard)]
    assert later == []
    return outputs, message


def text(outputs: list[Output], stream: str = "stdout") -> list[Any]:
    """What was written to one of the streams."""
    return [one.data for one in outputs if one.stream == stream]


async def end_of(scene: Scene) -> Exited:
    """A program's end, which is the next thing that its owner hears."""
    outputs, exited = await all_of(scene)
    assert outputs == []
    return exited


# -- processes


def children() -> set[int]:
    """The processes that this one has started, and not reaped."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(after_name[1]) == os.getpid():
                    found.add(int(entry.name))
    return found


def is_gone(pid: int) -> bool:
    """Whether a process has ended, even if nobody has reaped it."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], 0)[0])
    finally:
        os.close(fd)


async def gone(*pids: int) -> None:
    """Return when all of these have ended."""
    async with asyncio.timeout(LIMIT):
        for pid in pids:
            with suppress(ProcessLookupError):
                fd = os.pidfd_open(pid)
                try:
                    await asyncio.to_thread(select.select, [fd], [], [], LIMIT)
                finally:
                    os.close(fd)
            assert is_gone(pid), f"process {pid} lives on"


async def poll(condition: Callable[[], object]) -> None:
    """Return when it is so: for what another process does, of which nobody is told."""
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def steady(alias: Alias, item: str) -> int:
    """What a port shows, when it has not changed for a while: on a slow machine, earlier than need be."""
    last, times = -1, 0
    while times < 10:
        now = (await alias.inspect(item, timeout=None)).get(item, 0)
        last, times = now, times + 1 if now == last else 0
        await asyncio.sleep(0.02)
    return int(last)
