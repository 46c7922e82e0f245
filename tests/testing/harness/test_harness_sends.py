"""`ActorHarness`: everything that the actor sends is seen, wherever it goes, and can be answered (M19)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context
from greenroom.errors import BadArgument
from greenroom.testing import ActorHarness, TestProbe

Ref = ActorRef[Any, Any]


class Teller(Actor[Any, Any]):
    def __init__(self, other: Ref) -> None:
        self.other = other

    def receive(self, message: Any) -> Any:
        self.other.tell(message)


class Asker(Teller):
    async def receive(self, message: Any) -> Any:
        return await self.other.ask(message, timeout=None)


class Echo(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


# -- whom it sends to


def test_what_it_sends_itself_outside_its_handler_is_seen() -> None:
    class Busy(Actor[str]):
        def receive(self, message: str) -> None:
            if message == "go":
                self.task = asyncio.ensure_future(self.work())
                asyncio.get_running_loop().call_soon(self.ctx.self.tell, "from a callback")

        async def work(self) -> None:
            self.ctx.self.tell("from a task")
            await asyncio.sleep(1)
            self.ctx.self.tell("later")

    with ActorHarness(Busy) as harness:
        harness.tell("go")
        assert [sent.message for sent in harness.sent] == ["from a task", "from a callback"]
        assert {sent.to for sent in harness.sent} == {harness.ref}
        harness.advance(1)
        assert harness.sent[-1].message == "later"


def test_what_time_brings_it_or_the_test_sends_is_not_its_own() -> None:
    class Waiting(Actor[str]):
        def pre_start(self) -> None:
            self.ctx.send_after(1.0, self.ctx.self, "tick")
            self.ctx.timers.start("key", 1.0, "tock", every=1.0)
            self.ctx.pipe_to_self(asyncio.sleep(1.0, "piped"))
            self.ctx.set_receive_timeout(1.0)

        def receive(self, message: str) -> None: ...

    with ActorHarness(Waiting) as harness:
        harness.advance(3.0)
        harness.ref.tell("told")
        harness.settle()
        harness.ask("asked")
        assert harness.sent == []


def test_what_it_sends_into_another_harness_is_seen() -> None:
    with ActorHarness() as here, ActorHarness() as there:
        other = there.inbox("other")
        here.start(Teller, other.ref)
        here.tell("hello")
        assert [(sent.to, sent.message) for sent in here.sent] == [(other.ref, "hello")]
        assert there.sent == []
        there.settle()
        assert there.sent == []


def test_what_it_asks_there_can_be_answered_here() -> None:
    with ActorHarness() as here, ActorHarness() as there:
        other = there.inbox("other")
        here.start(Asker, other.ref)
        answer = here.begin_ask("tea")
        (sent,) = here.sent
        assert sent.is_ask
        sent.reply("there you are")
        assert answer.result() == "there you are"


def test_systems_of_its_own_are_its_own_affair() -> None:
    async def outer(ctx: Context, message: str) -> Any:
        async with ActorSystem("inner") as system:
            system.spawn(Echo).tell("inside")
            return await system.spawn(Echo).ask(message)

    with ActorHarness(outer) as harness:
        assert harness.ask("tea") == "tea"
        assert harness.sent == []


# -- probes


def test_a_probe_in_a_harness_is_refused() -> None:
    with ActorHarness() as harness:
        with pytest.raises(BadArgument, match=r"harness\.inbox\('p'\)"):
            TestProbe(harness.system, name="p")
        assert harness.system.snapshot().actors == ()
        assert harness.inbox("p").messages == []


# -- clear()


@pytest.mark.parametrize("how", ["reply", "fail"])
def test_an_ask_that_is_open_can_be_answered_after_clearing(how: str) -> None:
    with ActorHarness() as harness:
        kitchen, cellar = harness.inbox("kitchen"), harness.inbox("cellar")
        harness.start(Asker, kitchen.ref)
        answer = harness.begin_ask("tea")
        harness.clear()
        assert kitchen.messages == harness.sent == []
        with pytest.raises(AssertionError, match="nobody waits for a reply of /cellar"):
            cellar.reply("wine")
        if how == "reply":
            kitchen.reply("here")
            assert answer.result() == "here"
        else:
            kitchen.fail(OSError("no tea"))
            with pytest.raises(OSError, match="no tea"):
                answer.result()
        with pytest.raises(AssertionError, match="nobody waits for a reply of /kitchen"):
            kitchen.reply("again")


def test_the_oldest_ask_is_answered_first_cleared_or_not() -> None:
    class Curious(Actor[Any]):
        def __init__(self, other: Ref) -> None:
            self.other = other
            self.got: list[Any] = []

        def receive(self, message: Any) -> None:
            if isinstance(message, int):
                self.ctx.pipe_to_self(self.other.ask(message, timeout=None))
            else:
                self.got.append(message)

    with ActorHarness() as harness:
        other = harness.inbox("other")
        harness.start(Curious, other.ref)
        harness.tell(1)
        harness.clear()
        harness.tell(2)
        other.reply("one")
        other.reply("two")
        assert harness.actor.got == ["one", "two"]
