"""What cannot be spawned as a meta-process, and options that it cannot have: each is named (E6, J9)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import Actor, ActorSystem, MailboxConfig
from greenroom.errors import ActorTerminated, ConfigError, GreenroomError, NameTaken, NotAMeta
from greenroom.meta import Compression, MetaOptions, MetaProcess
from tests.meta.owners import (
    AsyncDiary,
    Diary,
    Quiet,
    Scene,
)

# -- what cannot be spawned


class SomeActor(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


class AsyncInit(MetaProcess):
    async def init(self) -> None:
        raise AssertionError


class StartsWithMore(MetaProcess):
    def start(self, what: int) -> None:  # type: ignore[override]
        raise AssertionError


class HandlesNothing(MetaProcess):
    def handle_message(self) -> None:  # type: ignore[override]
        raise AssertionError


class HandlesTwo(MetaProcess):
    def handle_message(self, one: Any, two: Any) -> None:  # type: ignore[override]
        raise AssertionError


class CallsTwo(MetaProcess):
    def handle_call(self, one: Any, two: Any) -> None:  # type: ignore[override]
        raise AssertionError


class EndsWithoutReason(MetaProcess):
    def terminate(self) -> None:  # type: ignore[override]
        raise AssertionError


class Yields(MetaProcess):
    def start(self) -> Any:
        yield 1


class NotAMethod(MetaProcess):
    handle_message = 42  # type: ignore[assignment]


REFUSED: list[tuple[Any, str]] = [
    (42, "42"),
    (None, "None"),
    ("Diary", "'Diary'"),
    (SomeActor, "SomeActor"),
    (lambda: 42, "42"),
    (lambda: None, "None"),
    (AsyncInit, "AsyncInit.init"),
    (StartsWithMore, "StartsWithMore.start"),
    (HandlesNothing, "HandlesNothing.handle_message"),
    (HandlesTwo, "HandlesTwo.handle_message"),
    (CallsTwo, "CallsTwo.handle_call"),
    (EndsWithoutReason, "EndsWithoutReason.terminate"),
    (Yields, "Yields.start"),
    (NotAMethod, "NotAMethod.handle_message"),
]


@pytest.mark.parametrize(("what", "named"), REFUSED, ids=[named for _, named in REFUSED])
async def test_what_is_no_meta_process_is_refused_by_name(system: ActorSystem, what: Any, named: str) -> None:  # E6, J9
    scene = Scene(system)
    for _ in range(2):
        with pytest.raises(NotAMeta) as caught:
            await scene.do(lambda ctx: ctx.spawn_meta(what))
        assert named in str(caught.value)
        assert isinstance(caught.value, GreenroomError)
    assert len(system.actors()) == 2


@pytest.mark.parametrize("options", [42, {"name": "x"}, "name", MailboxConfig()])
async def test_options_of_another_kind_are_refused(system: ActorSystem, options: Any) -> None:  # E6, J9
    scene, meta = Scene(system), Quiet()
    with pytest.raises(NotAMeta, match=r"MetaOptions\(\.\.\.\)"):
        await scene.do(lambda ctx: ctx.spawn_meta(meta, options))
    await scene.spawn(meta)  # nothing has happened to it


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"compression": "zlib"}, "compression"),
        ({"supervision": 3}, "supervision"),
        ({"send_lane": "fast"}, "lane"),
        ({"name": 42}, "name"),
        ({"name": "a/b"}, "a/b"),
        ({"mailbox": 10}, "mailbox"),
        ({"env": 10}, "env"),
        ({"stop_timeout": -1.0}, "stop_timeout"),
        ({"stop_timeout": "soon"}, "stop_timeout"),
    ],
)
async def test_bad_options_are_named(system: ActorSystem, given: dict[str, Any], named: str) -> None:  # E6, J9
    scene, meta = Scene(system), Quiet()
    with pytest.raises(GreenroomError, match=named):
        await scene.do(lambda ctx: ctx.spawn_meta(meta, MetaOptions(**given)))
    assert len(system.actors()) == 2
    await scene.spawn(meta)  # nothing has happened to it


@pytest.mark.parametrize("given", [{"kind": "rar"}, {"level": 10}, {"level": -1}, {"threshold": -1}])
def test_bad_compressions_are_named(given: dict[str, Any]) -> None:  # E8, J9
    with pytest.raises(ConfigError, match=next(iter(given))):
        Compression(**given)


async def test_a_name_in_use_is_refused_and_the_meta_process_can_be_spawned_by_another(
    system: ActorSystem,
) -> None:  # E6
    scene, meta = Scene(system), AsyncDiary()
    await scene.spawn(Quiet(), MetaOptions(name="line"))
    with pytest.raises(NameTaken, match="line"):
        await scene.spawn(meta, MetaOptions(name="line"))
    assert meta.notes == []
    await scene.spawn(meta, MetaOptions(name="other"))


async def test_a_parent_that_has_ended_spawns_no_more(system: ActorSystem) -> None:  # E2
    contexts: list[Any] = []
    scene, meta = Scene(system), Diary()
    await scene.do(contexts.append)
    scene.owner.stop()
    await scene.owner.terminated()
    with pytest.raises(ActorTerminated):
        contexts[0].spawn_meta(meta)
    assert meta.notes == []
