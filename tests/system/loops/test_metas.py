"""Meta-processes of actors on several loops."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context
from greenroom.errors import MetaCannotAsk
from greenroom.meta import MetaProcess
from tests.conftest import Play
from tests.gates import Event


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
def test_a_meta_process_cannot_ask_an_actor_of_any_loop(number: int) -> None:  # case 67
    async def program(system: ActorSystem) -> None:
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

    Play("spread")(program)


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message
