"""Actors that go on after a handler on another thread was abandoned."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Directive, Supervision, SystemConfig
from greenroom.actor.life.stopping import GRACE
from greenroom.testing import assert_ledger_balanced
from tests.logs import logged

QUICK = SystemConfig(stop_timeout=0.05, supervision=Supervision(Directive.RESUME))
PATIENCE = 60.0


class Blocked(Actor[Any, Any]):
    """Blocks its thread until the test lets it go on."""

    def __init__(self, begun: threading.Event, go_on: threading.Event) -> None:
        self.begun = begun
        self.go_on = go_on

    def receive(self, message: Any) -> Any:
        if message == "block":
            self.begun.set()
            self.go_on.wait(PATIENCE)
        return message


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
def test_one_that_is_resumed_handles_the_next_message_while_the_abandoned_handler_still_runs(dispatcher: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), ActorSystem(config=QUICK) as system:
            ref = system.spawn(Blocked, begun, go_on, dispatcher=dispatcher)
            ref.tell("block")
            await asyncio.to_thread(begun.wait, PATIENCE)
            ref.fail(ValueError("on purpose"))
            assert [await ref.ask(number, timeout=PATIENCE) for number in range(3)] == [0, 1, 2]
            go_on.set()
            await system.settle()
            assert system.ledger(ref).failed == 1
            assert_ledger_balanced(system)

    try:
        asyncio.run(main())
    finally:
        go_on.set()


@pytest.mark.parametrize("dispatcher", ["parallel", "pinned"])
@pytest.mark.parametrize("directive", [Directive.RESUME, Directive.RESTART])
def test_a_handler_that_ends_while_the_loop_is_held_up_is_not_abandoned(
    dispatcher: str, directive: Directive, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    config = SystemConfig(stop_timeout=0.05, supervision=Supervision(directive, backoff=None))

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), ActorSystem(config=config) as system:
            ref = system.spawn(Blocked, begun, go_on, dispatcher=dispatcher)
            ref.tell("block")
            asked = [ref.ask(number, timeout=PATIENCE) for number in range(5)]
            await asyncio.to_thread(begun.wait, PATIENCE)
            with logged("its handler is cancelled") as cancelled:
                ref.fail(ValueError("on purpose"))
                await cancelled.wait()
            go_on.set()
            time.sleep(GRACE + 0.2)  # noqa: ASYNC251 - this is what holds the loop up
            assert await asyncio.gather(*asked) == [0, 1, 2, 3, 4]
            await system.settle()
            assert system.ledger(ref).handled == 6
            assert_ledger_balanced(system)

    asyncio.run(main())
    assert "is abandoned" not in caplog.text
