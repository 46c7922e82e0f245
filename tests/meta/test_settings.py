"""What a meta-process finds out about itself, and what it sets: environment, log, lane, compression (E8)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import ActorSystem, Lane, MailboxConfig, MailboxFull
from greenroom.errors import BadArgument, ConfigError
from greenroom.meta import Compression, MetaOptions, MetaProcess
from tests.meta.owners import (
    AsyncOwner,
    Diary,
    Heard,
    Held,
    Quiet,
    Scene,
    kinds,
)

if TYPE_CHECKING:
    from tests.conftest import Play

# -- what it finds out and sets


@pytest.mark.config(env={"a": "system", "b": "system"})
async def test_env_is_its_own_over_its_parents_over_the_systems(system: ActorSystem) -> None:  # E8
    scene = Scene(system, env={"b": "parent", "c": "parent"})
    meta = Quiet()
    await scene.spawn(meta, MetaOptions(env={"c": "own"}))
    assert dict(meta.env) == {"a": "system", "b": "parent", "c": "own"}
    assert sorted(meta.env) == ["a", "b", "c"]
    assert meta.env.get("d", "default") == "default"
    assert await asyncio.to_thread(lambda: meta.env["c"]) == "own"


def test_log_records_say_which_meta_process_logs(play: Play, caplog: pytest.LogCaptureFixture) -> None:  # E8
    class Chatty(MetaProcess):
        def start(self) -> None:
            self.log.warning("reading %d", 1, extra={"more": 2})
            self.wait()

        def handle_message(self, message: Any) -> None:
            self.log.warning("handling %s", message)

    async def program(system: ActorSystem) -> None:
        scene = Scene(system, name="owner")
        alias = await scene.spawn(Chatty(), MetaOptions(name="chatty"))
        alias.tell("it")
        await system.settle()

    with caplog.at_level(logging.INFO):
        system = play(program)
    said = {record.getMessage().removeprefix("/owner/chatty: "): vars(record) for record in caplog.records}
    for words in ("reading 1", "handling it"):
        assert (said[words]["actor"], said[words]["system"]) == ("/owner/chatty", system.name)
        assert isinstance(said[words]["actor_id"], int)
    assert said["reading 1"]["more"] == 2


@kinds
async def test_what_it_sends_goes_by_its_own_lane_unless_it_says_otherwise(
    system: ActorSystem, kind: type[Diary]
) -> None:  # E8
    scene = Scene(system)
    alias = await scene.spawn(kind(), MetaOptions(send_lane=Lane.CONTROL))

    def send(meta: Diary) -> Lane:
        meta.send(meta.parent, "first")
        meta.send(meta.parent, "second", lane=Lane.LOG)
        meta.send_lane = Lane.MANAGEMENT
        meta.send(meta.parent, "third")
        return meta.send_lane

    assert await alias.ask(send, timeout=None) is Lane.MANAGEMENT
    heard = {(await scene.probe.receive()) for _ in range(3)}
    assert {one.message: one.lane for one in heard} == {
        "first": Lane.CONTROL,
        "second": Lane.LOG,
        "third": Lane.MANAGEMENT,
    }
    assert {one.sender for one in heard} == {alias}
    default = Diary()
    await scene.spawn(default)
    assert default.send_lane is Lane.DATA


@kinds
async def test_compression_and_lane_are_checked_when_they_are_set(system: ActorSystem, kind: type[Diary]) -> None:  # E8
    wanted = Compression(enabled=True, kind="lzma", level=1, threshold=10)

    def settle(meta: Diary) -> Any:
        before = meta.compression
        with pytest.raises(ConfigError, match="must be a Compression"):
            meta.compression = "zlib"  # type: ignore[assignment]
        with pytest.raises(BadArgument, match="lane=42"):
            meta.send_lane = 42  # type: ignore[assignment]
        unchanged = before == meta.compression and meta.send_lane is Lane.DATA
        meta.compression = wanted
        return before, unchanged, meta.compression

    alias = await Scene(system).spawn(kind())
    assert await alias.ask(settle, timeout=None) == (Compression(), True, wanted)


async def test_a_full_mailbox_is_an_error_or_is_waited_for(system: ActorSystem) -> None:  # E8
    held = Held()

    class Flood(MetaProcess):
        def start(self) -> None:
            held.enter()
            full: Any = None
            try:
                for number in range(10):
                    self.send(self.parent, number)
            except MailboxFull as exc:
                full = exc.ref
            self.send(self.parent, "waited", wait=True)
            for number in range(50):
                self.send(self.parent, number, wait=True)
            self.send(self.parent, full, wait=True)
            self.wait()

    scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=2))
    alias = await scene.spawn(Flood())
    busy = Held()
    scene.owner.tell(lambda ctx: busy.enter_async())
    await busy.entered.wait()
    held.let_go()
    await held.entered.wait()
    while system.ledger(scene.owner).rejected == 0:  # noqa: ASYNC110 - nothing tells of a refusal
        await asyncio.sleep(0)
    busy.let_go()
    heard = [await scene.probe.expect(Heard) for _ in range(54)]
    assert [one.message for one in heard] == [0, 1, "waited", *range(50), scene.owner]
    assert {one.sender for one in heard} == {alias}
