"""Meta-processes of actors on several loops."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, MailboxConfig
from greenroom.errors import MetaCannotAsk
from greenroom.meta import Exited, MetaProcess, Output, Port, UdpServer
from tests.conftest import Play
from tests.gates import Event


@pytest.fixture
def play() -> Play:
    return Play("spread")


class Asking(MetaProcess):
    """Asks an actor for each message, and writes down what that raised."""

    def __init__(self, other: ActorRef[Any, Any], raised: list[BaseException], tried: Event) -> None:
        self.other = other
        self.raised = raised
        self.tried = tried

    def start(self) -> None:
        self.wait()

    def handle_message(self, message: Any) -> None:
        try:
            self.other.ask_sync(message)
        except Exception as exc:
            self.raised.append(exc)
        self.tried.set()


@pytest.mark.parametrize("number", range(3))
async def test_a_meta_process_cannot_ask_an_actor_of_any_loop(system: ActorSystem, number: int) -> None:  # case 67
    def receive(ctx: Context, message: Any) -> Any:
        return ctx.spawn_meta(Asking(others[number], raised, tried))

    others: list[ActorRef[Any, Any]] = [system.spawn(Echo) for _ in range(3)]
    raised: list[BaseException] = []
    tried = Event()
    alias = await system.spawn(receive).ask("a meta-process")
    alias.tell("now")
    await tried.wait()
    assert [type(one) for one in raised] == [MetaCannotAsk]
    assert system.ledger(others[number]).sent == 0


@pytest.mark.parametrize("number", range(3))
async def test_the_owner_of_a_source_may_live_on_any_loop_and_holds_it_up_when_its_mailbox_is_full(
    system: ActorSystem, number: int
) -> None:
    lines = 500

    def receive(ctx: Context, message: Any) -> Any:
        return ctx.spawn_meta(Port([sys.executable, "-c", f"for n in range({lines}): print(n)"], owner=owner))

    outcome: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
    owners = [system.spawn(Owner, outcome, mailbox=MailboxConfig(capacity=2)) for _ in range(3)]
    owner = owners[number]
    await system.spawn(receive).ask("a port")
    assert await outcome == list(range(lines))
    await system.settle()
    assert system.ledger().balanced
    assert system.dead_letters.count == 0


@pytest.mark.parametrize("number", range(3))
def test_a_source_ends_with_an_owner_on_any_loop_and_on_a_thread_of_its_own(number: int) -> None:
    async def program(system: ActorSystem) -> None:
        def receive(ctx: Context, message: Any) -> Any:
            server.append(Watched(owner=owners[number]))
            return ctx.spawn_meta(server[0]), threading.get_ident()

        server: list[Watched] = []
        owners: list[ActorRef[Any, Any]] = [system.spawn(Echo) for _ in range(3)]
        alias, thread = await system.spawn(receive).ask("a server")
        await alias.inspect()
        owners[number].stop()
        await alias.terminated()
        assert server[0].threads == [thread]

    Play("spread")(program)


class Watched(UdpServer):
    """Notes on which thread it is told that its owner has ended."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.threads: list[int] = []
        end = self._over.set

        def note() -> None:
            self.threads.append(threading.get_ident())
            end()

        self._over.set = note  # type: ignore[method-assign]


class Owner(Actor[Any, None]):
    """Hands out the numbers that a program printed, when that has ended."""

    def __init__(self, outcome: asyncio.Future[list[int]]) -> None:
        self.outcome = outcome
        self.numbers: list[int] = []

    def receive(self, message: Any) -> None:
        if isinstance(message, Output):
            self.numbers.append(int(message.data))
        elif isinstance(message, Exited):
            self.outcome.get_loop().call_soon_threadsafe(self.outcome.set_result, self.numbers)


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message
