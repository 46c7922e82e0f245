"""Context variables that travel with messages into worker processes, and out of them."""

from __future__ import annotations

import logging
import threading
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

from greenroom import ActorSystem, Process, SystemConfig
from greenroom.testing import assert_ledger_balanced
from tests.conformance.askers import until
from tests.system.dispatchers.processes.travellers import LateTraveller, Traveller, baggage, request

UNSET = "not set"
CONFIG = SystemConfig(dispatchers={"process": Process(workers=1)}, propagate=[request, baggage])


def within(value: str, action: Any, *args: Any, **kwargs: Any) -> Any:
    def do() -> Any:
        request.set(value)
        return action(*args, **kwargs)

    return copy_context().run(do)


async def test_messages_bring_them_into_a_worker() -> None:
    async with ActorSystem(config=CONFIG) as system:
        for kind in (Traveller, LateTraveller):
            ref = system.spawn(kind, dispatcher="process")
            assert await within("a", ref.ask, 1) == "a"
            assert await ref.ask(2) == UNSET
            within("b", ref.tell, 3)
        ref = system.spawn(Traveller, dispatcher="process")
        for number in range(100):
            within(str(number), ref.tell, number)
            ref.tell(number)
        expected = [(number, value) for number in range(100) for value in (str(number), UNSET)]
        assert await ref.ask("seen") == expected
        assert_ledger_balanced(system)


async def test_messages_bring_them_out_of_a_worker() -> None:
    seen: list[Any] = []

    def note(ctx: Any, message: Any) -> str:
        seen.append((message, request.get(UNSET), ctx.sender))
        return request.get(UNSET)

    async with ActorSystem(config=CONFIG) as system:
        home = system.spawn(note)
        ref = system.spawn(Traveller, dispatcher="process")
        late = system.spawn(LateTraveller, dispatcher="process")
        await within("a", ref.ask, ("tell", home, 1))
        assert await within("b", ref.ask, ("ask", home, 2)) == "b"
        assert await within("c", late.ask, ("ask", home, 3)) == "c"
        assert await within("d", late.ask, ("thread", home, 4)) == "d"
        assert await within("e", ref.ask, ("forward", home)) == "e"
        await within("f", ref.ask, ("send", home, 6))
        await within("g", late.ask, ("send", home, 7))
        await within("h", ref.ask, ("timer", 0.0, home))
        await ref.ask(("tell", home, 8))
        await until(lambda: len(seen) == 11)
        assert [one[:2] for one in seen[:3]] == [(1, "a"), (1, "a!"), (2, "b")]
        values = {one[0]: one[1] for one in seen[2:8]}
        assert values == {2: "b", 3: "c", 4: "d", ("forward", home): "e", 6: "f", 7: "g"}
        assert ("tick", "h", ref) in seen
        assert [one[1] for one in seen if one[0] == 8] == [UNSET, UNSET + "!"]


async def test_stashed_and_piped_messages_keep_them() -> None:
    async with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Traveller, dispatcher="process")
        within("a", ref.tell, ("stash", 1))
        ref.tell(("stash", 2))
        within("b", ref.tell, ("pipe", "piped"))
        within("c", ref.tell, "open")
        await system.settle()
        seen: list[Any] = []

        async def has_piped() -> bool:
            seen[:] = await ref.ask("seen")
            return ("piped", "b") in seen

        while not await has_piped():
            pass
        assert [one for one in seen if one[0] != "piped"] == [(("stash", 1), "a"), (("stash", 2), UNSET)]


async def test_what_cannot_be_sent_stays_behind_and_the_message_does_not(caplog: pytest.LogCaptureFixture) -> None:
    async with ActorSystem(config=CONFIG) as system:
        ref = system.spawn(Traveller, dispatcher="process")
        baggage.set(threading.Lock())
        for _ in range(3):
            assert await within("a", ref.ask, "baggage") == ("a", "none")
        baggage.set({"light": 1})
        assert await within("a", ref.ask, "baggage") == ("a", {"light": 1})
    told = [record.getMessage() for record in caplog.records if "'baggage'" in record.getMessage()]
    assert len(told) == 1
    assert "lock" in told[0]


async def test_a_variable_that_a_worker_cannot_find_stays_in_this_process(caplog: pytest.LogCaptureFixture) -> None:
    local: ContextVar[str] = ContextVar("local")
    config = SystemConfig(dispatchers={"process": Process(workers=1)}, propagate=[local, request])
    async with ActorSystem(config=config) as system:
        local.set("here")
        assert await within("a", system.spawn(Traveller, dispatcher="process").ask, 1) == "a"
        assert await system.spawn(lambda ctx, message: local.get(UNSET)).ask("?") == "here"
    told = [record.getMessage() for record in caplog.records if "'local'" in record.getMessage()]
    assert len(told) == 1
    assert "global of a module" in told[0]


async def test_a_request_reaches_the_log_of_a_worker(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with ActorSystem(config=CONFIG) as system:
            ref = system.spawn(Traveller, dispatcher="process")
            await within("a", ref.ask, "log")
            await ref.ask("log")
            await until(lambda: sum("of " in record.getMessage() for record in caplog.records) >= 2)
    assert [record.getMessage() for record in caplog.records if record.name == "program"] == ["of a", f"of {UNSET}"]
