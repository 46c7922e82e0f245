"""`SignalSource`: the signals of the operating system, as messages (E10)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from greenroom import ActorSystem, ExitKind, MailboxConfig
from greenroom.errors import ConfigError, WrongThread
from greenroom.meta import Close, SignalReceived, SignalSource
from greenroom.testing import TestProbe
from tests.gates import Gate, turns
from tests.meta.owners import AsyncOwner, Owner, Ref, Scene, Try

if TYPE_CHECKING:
    from tests.conftest import Play

OURS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handled() -> Iterator[list[int]]:
    """Signals that came to those who handled them before; nothing else may handle them afterwards."""
    came: list[int] = []

    def handle(number: int, frame: object) -> None:
        came.append(number)

    before = {number: signal.signal(number, handle) for number in OURS}
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    try:
        yield came
        for number in OURS:
            assert signal.getsignal(number) is handle
        assert signal.set_wakeup_fd(wakeup) == wakeup
    finally:
        for number, what in before.items():
            signal.signal(number, what)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def test_signals_come_as_messages(play: Play, handled: list[int]) -> None:  # E10
    async def program(system: ActorSystem) -> None:
        scene = Scene(system)
        alias = await scene.spawn(SignalSource(*OURS))
        for _ in range(3):
            for number in OURS:
                send(number)
                assert await scene.heard() == SignalReceived(alias, number)
        assert await alias.inspect(timeout=None) == {"SIGUSR1": 3, "SIGUSR2": 3, "SIGHUP": 3}
        assert await alias.inspect("SIGHUP", "SIGKILL", timeout=None) == {"SIGHUP": 3}

    play(program)
    assert handled == []
    send(signal.SIGHUP)
    assert handled == [signal.SIGHUP]


async def test_somebody_else_can_be_told_and_it_comes_from_the_source(system: ActorSystem) -> None:  # E10
    probe, scene = TestProbe(system), Scene(system)
    alias = await scene.spawn(SignalSource(signal.SIGUSR1, owner=probe.ref))
    send(signal.SIGUSR1)
    await probe.expect(SignalReceived(alias, signal.SIGUSR1))
    assert probe.last_sender == alias
    await scene.probe.expect_no()
    probe.ref.stop()
    await alias.terminated()


async def test_the_number_of_a_signal_is_as_good_as_its_name(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    await scene.spawn(SignalSource(int(signal.SIGUSR1)))
    send(signal.SIGUSR1)
    assert (await scene.heard()).signal is signal.SIGUSR1


async def test_a_signal_that_is_named_twice_is_told_once(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    alias = await scene.spawn(SignalSource(signal.SIGUSR1, signal.SIGUSR1))
    send(signal.SIGUSR1)
    send(signal.SIGUSR2)  # to its former handler, which is called in order
    assert await scene.heard() == SignalReceived(alias, signal.SIGUSR1)
    await scene.probe.expect_no()
    assert await alias.inspect(timeout=None) == {"SIGUSR1": 1}


async def test_several_sources_may_wait_for_one_signal(system: ActorSystem, handled: list[int]) -> None:  # E10
    scenes = [Scene(system) for _ in range(3)]
    aliases = [await scene.spawn(SignalSource(signal.SIGUSR1)) for scene in scenes]
    send(signal.SIGUSR1)
    for scene, alias in zip(scenes, aliases, strict=True):
        assert await scene.heard() == SignalReceived(alias, signal.SIGUSR1)
    aliases[0].stop()  # the first, which was there before the others
    await aliases[0].terminated()
    send(signal.SIGUSR1)
    for scene, alias in list(zip(scenes, aliases, strict=True))[1:]:
        assert await scene.heard() == SignalReceived(alias, signal.SIGUSR1)
    for alias in aliases[1:]:
        alias.tell(Close())
        assert (await alias.terminated()).kind is ExitKind.NORMAL
    assert handled == []
    send(signal.SIGUSR1)
    assert handled == [signal.SIGUSR1]
    again = await scenes[0].spawn(SignalSource(signal.SIGUSR1))
    send(signal.SIGUSR1)
    message = (await scenes[0].probe.fish(lambda one: hasattr(one, "message"))).message
    assert message == SignalReceived(again, signal.SIGUSR1)
    assert handled == [signal.SIGUSR1]


@pytest.mark.parametrize("how", ["stop", "kill", "close", "owner stopped", "owner killed", "owner failed"])
async def test_however_it_ends_the_signal_does_again_what_it_did(
    system: ActorSystem, handled: list[int], how: str
) -> None:  # E10
    scene = Scene(system)
    alias = await scene.spawn(SignalSource(signal.SIGUSR1, signal.SIGHUP))
    owner = scene.owner
    {
        "stop": alias.stop,
        "kill": alias.kill,
        "close": lambda: alias.tell(Close()),
        "owner stopped": owner.stop,
        "owner killed": owner.kill,
        "owner failed": lambda: owner.fail(ValueError("bad")),
    }[how]()
    await alias.terminated()
    send(signal.SIGHUP)
    assert handled == [signal.SIGHUP]


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL], ids=["ignored", "default"])
async def test_a_signal_that_was_ignored_is_ignored_again(system: ActorSystem, before: Any) -> None:  # E10
    scene = Scene(system)
    kept = signal.signal(signal.SIGUSR2, before)
    try:
        alias = await scene.spawn(SignalSource(signal.SIGUSR2))
        send(signal.SIGUSR2)
        assert await scene.heard() == SignalReceived(alias, signal.SIGUSR2)
        alias.stop()
        await alias.terminated()
        assert signal.getsignal(signal.SIGUSR2) == before
    finally:
        signal.signal(signal.SIGUSR2, kept)


async def test_a_signal_that_the_event_loop_handles_is_refused_and_stays_as_it_is(system: ActorSystem) -> None:  # E10
    aio = asyncio.get_running_loop()
    came = asyncio.Event()
    kept = signal.getsignal(signal.SIGUSR1)
    aio.add_signal_handler(signal.SIGUSR1, came.set)
    try:
        scene = Scene(system)
        with pytest.raises(ConfigError, match=r"SIGUSR1.*add_signal_handler"):
            await scene.spawn(SignalSource(signal.SIGHUP, signal.SIGUSR1))
        send(signal.SIGUSR1)
        await came.wait()
        await scene.probe.expect_no()
    finally:
        aio.remove_signal_handler(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, kept)
    alias = await scene.spawn(SignalSource(signal.SIGUSR1))
    send(signal.SIGUSR1)
    assert await scene.heard() == SignalReceived(alias, signal.SIGUSR1)


async def test_a_handler_that_the_program_has_set_since_stays(system: ActorSystem) -> None:  # E10
    came: list[int] = []

    def later(number: int, frame: object) -> None:
        came.append(number)

    scene = Scene(system)
    kept = signal.getsignal(signal.SIGUSR1)
    alias = await scene.spawn(SignalSource(signal.SIGUSR1))
    signal.signal(signal.SIGUSR1, later)
    try:
        alias.stop()
        await alias.terminated()
        assert signal.getsignal(signal.SIGUSR1) is later
        send(signal.SIGUSR1)
        assert came == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, kept)


async def test_a_forked_child_has_its_signals_to_itself(system: ActorSystem) -> None:  # E10
    scene = Scene(system)
    kept = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    try:
        await scene.spawn(SignalSource(signal.SIGUSR1))
        child = os.fork()
        if child == 0:
            send(signal.SIGUSR1)  # ends it
            os._exit(0)
        _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
        assert os.waitstatus_to_exitcode(status) == -signal.SIGUSR1
        await scene.owner.ask(Try(lambda ctx: None), timeout=None)
        scene.owner.stop()
        await scene.owner.terminated()
    finally:
        signal.signal(signal.SIGUSR1, kept)


async def test_an_owner_whose_mailbox_is_full_is_no_trouble_for_others(system: ActorSystem) -> None:  # E10
    gate = Gate()

    async def wait(_: Any) -> None:
        await gate

    busy, scene = Scene(system, AsyncOwner, mailbox=MailboxConfig(capacity=1)), Scene(system)
    first = await busy.spawn(SignalSource(signal.SIGUSR1))
    second = await scene.spawn(SignalSource(signal.SIGUSR1))
    busy.owner.tell(wait)
    await turns(50)
    for _ in range(4):
        send(signal.SIGUSR1)
        assert await scene.heard() == SignalReceived(second, signal.SIGUSR1)
    gate.set_result(None)
    assert await busy.heard() == SignalReceived(first, signal.SIGUSR1)
    await system.settle()
    busy.probe.ignore(lambda one: True)
    send(signal.SIGUSR1)
    assert await scene.heard() == SignalReceived(second, signal.SIGUSR1)


@pytest.mark.parametrize(
    "signals",
    [(), (0,), (-1,), (999,), ("SIGHUP",), (None,), (signal.SIGKILL,), (signal.SIGSTOP,), (signal.SIGUSR1, 999)],
)
def test_what_is_no_signal_or_cannot_be_handled_is_refused(signals: Any) -> None:  # E10
    with pytest.raises(ConfigError):
        SignalSource(*signals)


def test_a_system_on_a_thread_of_its_own_has_no_signals() -> None:  # E10
    with ActorSystem() as system:
        owner: Ref = system.spawn(Owner, cast("Ref", None))
        for _ in range(2):
            source = SignalSource(signal.SIGUSR1)
            _, error = owner.ask_sync(Try(lambda ctx, source=source: ctx.spawn_meta(source)), timeout=45.0)  # type: ignore[misc]
            assert isinstance(error, WrongThread)
            assert "main thread" in str(error)
            assert "async with" in str(error)
        left, _ = owner.ask_sync(Try(lambda ctx: ctx.children), timeout=45.0)
        assert left == []


SCRIPT = """
import asyncio, os, signal, subprocess, sys
from greenroom import Actor, ActorSystem
from greenroom.meta import SignalSource

class Owner(Actor):
    def receive(self, message):
        if message == "new":
            return self.ctx.spawn_meta(SignalSource(signal.SIGUSR1))

async def main():
    async with ActorSystem() as system:
        owner = system.spawn(Owner)
        for _ in range(300):
            alias = await owner.ask("new", timeout=None)
            alias.stop()
            await alias.terminated()

signal.signal(signal.SIGUSR1, lambda *_: None)
shell = f"while kill -USR1 {os.getpid()}; do sleep 0.0005; done"
with subprocess.Popen(["/bin/sh", "-c", shell], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as pelting:
    try:
        if sys.argv[1] == "uvloop":
            import uvloop
            uvloop.run(main())
        else:
            asyncio.run(main())
    finally:
        pelting.kill()
print("survived")
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_signal_that_comes_while_a_source_ends_harms_nobody(loop: str) -> None:  # E10
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    done = subprocess.run([sys.executable, "-c", SCRIPT, loop], capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (0, "survived\n"), done
