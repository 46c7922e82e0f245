"""A program's logging may raise on any record; the runtime goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ExitKind, Supervision, SystemConfig
from greenroom.testing import assert_ledger_balanced
from tests.logs import broken_logging
from tests.system.dispatchers.processes.unruly import Hooked

QUICK = SystemConfig(supervision=Supervision(backoff=None), stop_timeout=0.05)


@pytest.fixture(params=["handler", "filter"])
def broken_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Logging that raises on every record of the runtime."""
    with broken_logging("greenroom", request.param):
        yield


class Stubborn(Actor[Any, Any]):
    """Does not stop."""

    async def receive(self, message: Any) -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue


@pytest.mark.usefixtures("broken_log")
@pytest.mark.parametrize("dispatcher", ["concurrent", "parallel", "pinned", "process"])
@pytest.mark.anyio
async def test_an_actor_that_fails_is_restarted_though_its_failure_cannot_be_logged(dispatcher: str) -> None:
    async with ActorSystem(config=SystemConfig(supervision=Supervision(backoff=None))) as system:
        ref = system.spawn(Hooked, dispatcher=dispatcher)
        with pytest.raises(ValueError, match="on purpose"):
            await ref.ask("crash", timeout=None)
        assert await ref.ask("pid", timeout=None) > 0
        assert_ledger_balanced(system)


@pytest.mark.usefixtures("broken_log")
@pytest.mark.anyio
async def test_a_system_ends_though_nothing_that_it_does_can_be_logged(capfd: pytest.CaptureFixture[str]) -> None:
    async with ActorSystem(config=QUICK) as system:
        first, second = system.spawn(Stubborn, name="first"), system.spawn(Stubborn, name="second")
        for ref in (first, second):
            ref.tell("hold on")
        await asyncio.sleep(0)
        first.stop()
        assert (await first.terminated()).kind is ExitKind.KILLED
        await system.shutdown(timeout=0.05)
        assert system.report is not None
        assert set(system.report.forced) == {"/first", "/second"}
    assert "is broken" in capfd.readouterr().err
