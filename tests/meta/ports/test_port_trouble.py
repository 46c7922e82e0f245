"""`Port`: output that is no frame, and programs that are not there (E10)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import ActorSystem, ExitKind
from greenroom.errors import FrameError, FrameTooLarge
from greenroom.meta import (
    CloseWrite,
    Exited,
    Fixed,
    LengthPrefixed,
    Lines,
    MetaOptions,
    Port,
    SendSignal,
    Write,
)
from tests.meta.owners import Scene
from tests.meta.ports.programs import (
    REST,
    all_of,
    children,
    end_of,
    gone,
    hear,
    is_gone,
    line,
    number,
    sh,
    start,
    text,
)

# -- output that is no frame

NO_FRAMES: dict[str, tuple[str, Any, type[Exception], list[bytes]]] = {
    "a line too long": ("echo ok; printf %02000d 1", Lines(max_size=1000), FrameTooLarge, [b"ok"]),
    "a length too large": (r"printf '\0\0\0\1a\377\377\377\377'", LengthPrefixed(), FrameTooLarge, [b"a"]),
    "a length cut short": (r"printf '\0\0\0\1a\0\0'; exit 0", LengthPrefixed(), FrameError, [b"a"]),
    "a frame cut short": (r"printf '\0\0\0\1a\0\0\0\11bcd'; exit 0", LengthPrefixed(), FrameError, [b"a"]),
    "a piece too short": ("printf abcde; exit 0", Fixed(2), FrameError, [b"ab", b"cd"]),
    "no such text": (r"echo ok; printf '\377\n'", Lines(encoding="utf-8"), FrameError, ["ok"]),  # type: ignore[list-item]
}


@pytest.mark.parametrize(("script", "framing", "error", "before"), NO_FRAMES.values(), ids=NO_FRAMES)
async def test_output_that_is_no_frame_ends_the_program_with_a_clear_error(  # E10
    system: ActorSystem, script: str, framing: Any, error: type[Exception], before: list[Any]
) -> None:
    scene = Scene(system)
    alias = await start(scene, sh(f"{script}; {REST}"), framing=framing)
    pid = (await alias.inspect("pid", timeout=None))["pid"]
    outputs, exited = await all_of(scene)
    assert text(outputs) == before
    assert type(exited.error) is error
    assert exited.status == (0 if script.endswith("exit 0") else -15)
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    assert is_gone(pid)


async def test_a_program_whose_output_is_no_frame_is_killed_if_it_does_not_end_when_asked(
    system: ActorSystem,
) -> None:  # E10
    scene = Scene(system)
    script = f"trap '' TERM; echo $$; printf %02000d 1; {REST}"
    alias = await start(scene, sh(script), framing=Lines(max_size=1000), kill_grace=0.05)
    pid = await number(scene)
    await gone(pid)
    exited = await end_of(scene)
    assert exited.status == -9
    assert isinstance(exited.error, FrameTooLarge)
    await alias.terminated()


async def test_a_framing_that_raises_ends_the_program_and_nothing_else(system: ActorSystem) -> None:  # E10
    def broken(data: bytearray) -> list[bytes]:
        raise ZeroDivisionError

    scene = Scene(system)
    await start(scene, sh(f"echo hello; {REST}"), framing=broken)
    exited = await end_of(scene)
    assert isinstance(exited.error, ZeroDivisionError)
    await start(scene, sh("echo fine"))
    assert await hear(scene)
    await end_of(scene)


# -- programs that cannot be started


@pytest.mark.parametrize(
    ("command", "options", "error"),
    [
        (["/no/such/program"], {}, FileNotFoundError),
        (["no-such-program-anywhere"], {}, FileNotFoundError),
        (["/dev/null"], {}, PermissionError),
        (["cat"], {"cwd": "/no/such/folder"}, FileNotFoundError),
        (["cat"], {"cwd": "/dev/null"}, NotADirectoryError),
        (["cat", "x" * 5_000_000], {}, OSError),
    ],
    ids=["path", "name", "no program", "cwd", "no folder", "too long"],
)
async def test_a_program_that_cannot_be_started_is_an_error_of_its_spawn(  # E10
    system: ActorSystem, command: Any, options: Any, error: type[Exception]
) -> None:
    scene = Scene(system)
    before = children()
    for _ in range(3):
        with pytest.raises(error):
            await scene.do(lambda ctx: ctx.spawn_meta(Port(command, **options), MetaOptions(name="port")))
    assert children() == before
    assert await scene.do(lambda ctx: ctx.children) == []
    alias = await start(scene, ["cat"], MetaOptions(name="port"))  # the name is free
    alias.tell(CloseWrite())
    assert await end_of(scene) == Exited(alias, 0)


async def test_a_signal_that_there_is_not_leaves_nothing_behind(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    for number_ in (999, -1, "TERM"):
        alias = await start(scene, ["cat"])
        with pytest.raises((OSError, TypeError, ValueError)):
            await alias.ask(SendSignal(number_), timeout=None)  # type: ignore[arg-type]
        alias.tell(Write(b"still here"))
        assert await line(scene) == b"still here"
        alias.stop()
        await end_of(scene)
