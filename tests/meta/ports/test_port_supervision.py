"""`Port`: programs that fail, and are started again (E10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from greenroom import ActorSystem, Alias, Backoff, ExitKind, Supervision
from greenroom.errors import ProgramFailed
from greenroom.meta import Close, CloseWrite, Exited, MetaOptions, Output, Port, Write
from tests.meta.owners import Ended, Scene
from tests.meta.ports.programs import REST, end_of, gone, hear, is_gone, number, sh, start

FAMILY = f'sh -c "{REST.replace("$", chr(92) + "$")}" & echo $!; echo $$; {REST}'
"""A program that has started another: the number of that, and its own."""


# -- supervision


async def test_a_program_that_fails_is_started_again(system: ActorSystem, tmp_path: Path) -> None:  # E10
    script = 'echo x >> count; echo "life $(wc -l < count)"; [ $(wc -l < count) -ge 3 ] || exit 9; read -r x; echo "$x"'

    (tmp_path / "count").touch()
    scene = Scene(system)
    restarts = MetaOptions(supervision=Supervision(max_restarts=5, within=1000.0, backoff=Backoff(0.001, 0.01)))
    alias: Alias = await scene.do(
        lambda ctx: ctx.spawn_meta(lambda: Port(sh(script), check=True, cwd=tmp_path), restarts)
    )
    for life in (1, 2):
        assert await hear(scene) == Output(alias, b"life %d" % life)
        assert await hear(scene) == Exited(alias, 9)
    assert await hear(scene) == Output(alias, b"life 3")
    alias.tell(Write(b"to the third"))
    assert await hear(scene) == Output(alias, b"to the third")
    assert await end_of(scene) == Exited(alias, 0)
    assert (await alias.terminated()).kind is ExitKind.NORMAL
    assert (tmp_path / "count").read_text() == "x\n" * 3


async def test_a_program_that_keeps_failing_is_given_up(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    twice = MetaOptions(supervision=Supervision(max_restarts=2, within=1000.0, backoff=None))
    alias: Alias = await scene.do(lambda ctx: ctx.spawn_meta(lambda: Port(sh("kill -9 $$"), check=True), twice))
    assert [await hear(scene) for _ in range(3)] == [Exited(alias, -9)] * 3
    reason = await alias.terminated()
    assert reason.kind is ExitKind.FAIL
    await system.settle()


async def test_a_restart_takes_the_whole_group_of_the_former_life_along(system: ActorSystem) -> None:  # E10
    script = f"{FAMILY.rpartition('; while')[0]}; read -r x; exit 1"
    scene = Scene(system)
    once = MetaOptions(supervision=Supervision(max_restarts=5, within=1000.0, backoff=None))
    alias: Alias = await scene.do(lambda ctx: ctx.spawn_meta(lambda: Port(sh(script), check=True), once))
    first = [await number(scene) for _ in range(2)]
    alias.tell(Write(b"fail"))
    assert await hear(scene) == Exited(alias, 1)
    second = [await number(scene) for _ in range(2)]
    await gone(*first)
    assert not any(map(is_gone, second))
    alias.stop()
    assert await end_of(scene) == Exited(alias, -15)
    await gone(*second)


@pytest.mark.parametrize(("script", "status"), [("exit 2", 2), ("kill -15 $$", -15)])
async def test_with_check_a_status_other_than_0_is_a_failure(
    system: ActorSystem, script: str, status: int
) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, sh(script), check=True)
    assert await hear(scene) == Exited(alias, status)
    ended = await scene.probe.expect(Ended)
    assert isinstance(ended.cause, ProgramFailed)
    assert ended.cause.status == status
    assert script in str(ended.cause)
    reason = await alias.terminated()
    assert reason.kind is ExitKind.FAIL
    assert reason.cause is ended.cause


async def test_with_check_a_program_that_ends_well_or_is_stopped_is_no_failure(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await start(scene, ["cat"], check=True)
    alias.tell(CloseWrite())
    assert await hear(scene) == Exited(alias, 0)
    assert await scene.probe.expect(Ended) == Ended(alias, None)
    alias = await start(scene, ["cat"], check=True)
    alias.tell(Close())
    assert await hear(scene) == Exited(alias, -15)
    assert await scene.probe.expect(Ended) == Ended(alias, None)
    assert (await alias.terminated()).kind is ExitKind.NORMAL
