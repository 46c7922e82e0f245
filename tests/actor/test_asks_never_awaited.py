"""An ask that fails and that nobody awaits is told to the log."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

import pytest

from greenroom import Actor, ActorRef, ActorSystem, MailboxConfig, OnExit, SystemConfig

pytestmark = pytest.mark.anyio
Caplog = pytest.LogCaptureFixture
Heed = Callable[[ActorSystem, ActorRef[str, str]], Coroutine[Any, Any, None]]


class Shop(Actor[str, str]):
    """Refuses bad requests."""

    answers: ClassVar = (ValueError,)

    def receive(self, message: str) -> str:
        if message == "bad":
            raise ValueError("we do not sell that")
        return message


class Closed(Actor[str, str]):
    """Is never done with its first message."""

    async def receive(self, message: str) -> str:
        await asyncio.Event().wait()
        return message


def told(caplog: Caplog) -> list[str]:
    gc.collect()  # a traceback may hold on to what was asked
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    return [one for one in warnings if "nobody awaits" in one]


async def test_an_ask_that_nobody_awaits_is_told_to_the_log_when_it_fails(caplog: Caplog) -> None:
    async with ActorSystem() as system:
        shop = system.spawn(Shop, name="shop")
        shop.ask("bad")
        await system.settle()
        [line] = told(caplog)
        assert "/shop: an ask has failed, and nobody awaits it: ValueError: we do not sell that" in line
        assert "tell()" in line


async def test_an_ask_of_an_actor_that_has_ended_is_told_too(caplog: Caplog) -> None:
    async with ActorSystem() as system:
        shop = system.spawn(Shop, name="shop")
        shop.stop()
        await shop.terminated()
        shop.ask("good")
        assert "/shop has ended" in told(caplog)[0]


async def test_an_ask_that_finds_no_room_is_told_too(caplog: Caplog) -> None:
    async with ActorSystem() as system:
        shop = system.spawn(Shop, name="shop", mailbox=MailboxConfig(1))
        shop.tell("good")
        shop.ask("good")
        [line] = told(caplog)
        assert "nobody awaits it: MailboxFull" in line


async def await_it(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    with pytest.raises(ValueError, match="sell"):
        await shop.ask("bad")


async def await_it_late(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    asked = shop.ask("bad")
    await system.settle()
    assert asked.done()
    with pytest.raises(ValueError, match="sell"):
        await asked


async def await_its_future(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    asked = shop.ask("bad")
    await system.settle()
    future = asked.future()
    del asked
    with pytest.raises(ValueError, match="sell"):
        await future


async def gather_it_late(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    asked = shop.ask("bad")
    await system.settle()
    [error] = await asyncio.gather(asked, return_exceptions=True)
    assert isinstance(error, ValueError)


async def give_it_up(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    shop.ask("bad").cancel()
    await system.settle()


async def give_it_up_too_late(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    asked = shop.ask("bad")
    await system.settle()
    assert not asked.cancel()


async def wait_too_short_a_time(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    asked = shop.ask("bad")
    await system.settle()
    with pytest.raises((TimeoutError, ValueError)):
        await asyncio.wait_for(asked, 0)


async def cancel_its_task_too_late(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    asked = shop.ask("bad")
    await system.settle()
    task = asyncio.create_task(asked)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def take_the_answer_as_read(system: ActorSystem, shop: ActorRef[str, str]) -> None:
    shop.ask("good")
    await system.settle()


@pytest.mark.parametrize(
    "heed",
    [
        await_it,
        await_it_late,
        await_its_future,
        gather_it_late,
        give_it_up,
        give_it_up_too_late,
        wait_too_short_a_time,
        cancel_its_task_too_late,
        take_the_answer_as_read,
    ],
)
async def test_an_ask_that_somebody_heeds_is_not(heed: Heed, caplog: Caplog) -> None:
    async with ActorSystem() as system:
        await heed(system, system.spawn(Shop))
        await system.settle()
        assert told(caplog) == []


async def test_what_the_end_of_the_system_discards_is_told_once(caplog: Caplog) -> None:
    async with ActorSystem(config=SystemConfig(on_exit=OnExit.DISCARD)) as system:
        shop = system.spawn(Closed, name="shop", stop_timeout=0.0)
        shop.tell("first")
        for _ in range(3):
            shop.ask("good")
    assert told(caplog) == []
    assert system.report is not None
    assert dict(system.report.discarded) == {"/shop": 3}
