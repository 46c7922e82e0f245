"""Whatever a program writes: frames, or a clear end; and nothing is left of it (R7, E10)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greenroom import ActorSystem, ExitKind, MailboxConfig
from greenroom.errors import FrameError, FrameTooLarge
from greenroom.meta import Exited, Framing, Lines, MetaOptions, Raw, Write
from tests.gates import turns
from tests.meta.framings import all_framings
from tests.meta.owners import Scene
from tests.meta.ports.programs import REST, hear, is_gone, python, sh, start

if TYPE_CHECKING:
    from tests.conftest import Play

pytestmark = pytest.mark.usefixtures("no_memory_is_left")


quick = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORDS = [b"seven!!", b"\r\n", b"\n", b"3abc", b"\x03abc", b"\x02\0\0\0\0\0\0\0ab", "grün".encode()]
PIECES = st.lists(st.one_of(st.sampled_from(WORDS), st.binary(max_size=30), st.just(b"x" * 300)), max_size=8)
"""What a program writes, one after the other: words of this framing or that, rubbish, and now and then too much."""


FLOOD = """
import os, sys
data = bytes.fromhex(sys.argv[1]) or b"x"
while True:
    os.write(1, data)
    os.write(2, data)
"""


def expected_of(framing: Framing, written: bytes) -> tuple[list[Any], type[BaseException] | None]:
    """The frames of it, and what is wrong with what comes after them."""
    decoder = framing.decoder()
    frames: list[Any] = []
    try:
        frames.extend(decoder.feed(written))
        frames.extend(decoder.finish())
    except (FrameError, FrameTooLarge) as exc:
        return frames, type(exc)
    return frames, None


@all_framings
@quick
@given(pieces=PIECES, is_slow=st.booleans(), lives_on=st.booleans(), capacity=st.sampled_from([1, 1000]))
def test_whatever_a_program_writes_there_are_frames_and_a_clear_end(  # R7, E10
    play: Play, tmp_path: Path, framing: Framing, pieces: list[bytes], is_slow: bool, lives_on: bool, capacity: int
) -> None:
    for place, piece in enumerate(pieces):
        (tmp_path / str(place)).write_bytes(piece)
    pause = "; sleep 0.005; " if is_slow else "; "
    end = f"echo over >&2; {REST}" if lives_on else "exit 3"
    script = pause.join([*(f"cat {place}" for place in range(len(pieces))), end])
    frames, error = expected_of(framing, b"".join(pieces))

    async def program(system: ActorSystem) -> None:
        scene = Scene(system, mailbox=MailboxConfig(capacity=capacity))
        alias = await start(scene, sh(script), framing=framing, cwd=tmp_path)
        pid = (await alias.inspect("pid", timeout=None))["pid"]
        found: list[Any] = []
        while not isinstance(message := await hear(scene), Exited):
            if message.stream == "stderr":
                alias.stop()  # all is written, and not all of it may have been heard
            else:
                found.append(message.data)
        if isinstance(framing, Raw):
            assert b"".join(found) == b"".join(frames)
        else:
            assert found == frames
        assert type(message.error) is (type(None) if error is None else error)
        assert message.status in ((-15,) if lives_on else (3,) if error is None else (3, -15))
        assert (await alias.terminated()).kind is not ExitKind.FAIL
        assert is_gone(pid)
        assert system.dead_letters.count == 0

    play(program)


@all_framings
@quick
@given(data=st.binary(max_size=2000), number=st.integers(0, 30))
def test_a_program_that_writes_rubbish_may_be_killed_at_any_moment(  # R7, E10
    play: Play, framing: Framing, data: bytes, number: int
) -> None:
    async def program(system: ActorSystem) -> None:
        scene = Scene(system, mailbox=MailboxConfig(capacity=20))
        room = MetaOptions(mailbox=MailboxConfig(capacity=9))
        alias = await start(scene, python(FLOOD, data.hex()), room, framing=framing)
        pid = (await alias.inspect("pid", timeout=None))["pid"]
        good: Any = "good" if isinstance(framing, Lines) and framing.encoding else b"seven!!"
        for _ in range(8):
            alias.tell(Write(good))
        await turns(number)
        scene.owner.kill()
        await alias.terminated()
        assert is_gone(pid)

    play(program)
