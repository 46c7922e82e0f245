"""`ActorHarness`: one real actor, stepped by a plain test (M19)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    AskTimeout,
    Behavior,
    Behaviors,
    Context,
    Directive,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    State,
    Supervision,
    handles,
    props,
)
from greenroom.errors import AlreadyReplied, BadArgument, Unhandled
from greenroom.testing import ActorHarness
from tests.testing.harness.counters import COUNTERS, Counter

Ref = ActorRef[Any, Any]


def count(ctx: Context, message: Any) -> Any:
    ctx.reply(f"counted {message}")


# -- one actor


@COUNTERS
def test_an_actor_handles_what_it_is_told(counter: type[Counter]) -> None:
    with ActorHarness(counter, 10) as harness:
        harness.tell(1)
        harness.tell(2)
        assert harness.actor.total == 13
        assert harness.state is State.RUNNING
        assert not harness.is_suspended


@COUNTERS
def test_an_actor_answers_what_it_is_asked(counter: type[Counter]) -> None:
    with ActorHarness(counter) as harness:
        assert [harness.ask(number) for number in (1, 2, 3)] == [1, 3, 6]


@COUNTERS
def test_asking_raises_what_the_handler_raised(counter: type[Counter]) -> None:
    with ActorHarness(counter) as harness, pytest.raises(ValueError, match="no -1"):
        harness.ask(-1)


def test_functions_behaviors_props_and_makers_can_be_under_test() -> None:
    async def slowly(ctx: Context, message: Any) -> str:
        await asyncio.sleep(0)
        return f"counted {message}"

    for factory in (count, slowly, Behaviors.receive(count), Behaviors.setup(lambda ctx: Behaviors.receive(slowly))):
        with ActorHarness(factory) as harness:
            assert harness.ask(1) == "counted 1"
            with pytest.raises(BadArgument, match="has no instance"):
                _ = harness.actor
    with ActorHarness(props(Counter, total=5)) as harness:
        assert harness.ask(1) == 6
        assert harness.actor.total == 6
    with ActorHarness(lambda total: Counter(total), 7) as harness:
        assert harness.ask(1) == 8


def test_options_of_spawn_are_taken() -> None:
    def show(ctx: Context, message: Any) -> Any:
        return ctx.name, ctx.env["tone"], ctx.parent

    with ActorHarness() as harness:
        boss = harness.inbox("boss")
        harness.start(show, name="shown", env={"tone": "soft"}, parent=boss.ref)
        assert harness.ask("who?") == ("shown", "soft", boss.ref)


def test_starting_runs_the_start_hooks() -> None:
    class Starting(Actor[str]):
        seen: list[str]

        def __init__(self) -> None:
            self.seen = ["made"]

        async def pre_start(self) -> None:
            await asyncio.sleep(0)
            self.seen.append("pre_start")

        def post_start(self) -> None:
            self.seen.append("post_start")

        def receive(self, message: str) -> None:
            self.seen.append(message)

    with ActorHarness(Starting) as harness:
        assert harness.actor.seen == ["made", "pre_start", "post_start"]


def test_an_actor_that_cannot_start_raises_what_prevents_it() -> None:
    class Broken(Actor[str]):
        async def pre_start(self) -> None:
            raise OSError("no disk")

        def receive(self, message: str) -> None: ...

    for supervision in (Supervision(), Supervision(backoff=None), Supervision(Directive.STOP)):
        with pytest.raises(OSError, match="no disk"):
            ActorHarness(Broken, supervision=supervision)
    with ActorHarness() as harness:
        with pytest.raises(OSError, match="no disk"):
            harness.start(Broken)
        assert harness.state is State.RESTARTING
        harness.advance(1.0)
        assert [failed.decision.value for failed in harness.failures if failed.decision] == 3 * ["restart"] + ["stop"]
        assert harness.ended is not None
        assert harness.ended.kind is ExitKind.FAIL


def test_a_start_that_waits_goes_on_when_the_test_answers() -> None:
    class Registering(Actor[str, str]):
        def __init__(self, registry: Ref) -> None:
            self.registry = registry

        async def pre_start(self) -> None:
            self.number = await self.registry.ask("a number")

        def receive(self, message: str) -> str:
            return f"{self.number}: {message}"

    with ActorHarness() as harness:
        registry = harness.inbox("registry")
        harness.start(Registering, registry.ref)
        assert harness.ref.state is State.STARTING
        registry.reply(7)
        assert harness.state is State.RUNNING
        assert harness.ask("hello") == "7: hello"


def test_an_actor_that_stops_itself_has_ended() -> None:
    class Leaving(Actor[str]):
        closed = False

        def receive(self, message: str) -> Behavior:
            return Behaviors.stopped

        async def post_stop(self) -> None:
            self.closed = True

    with ActorHarness(Leaving) as harness:
        assert harness.ended is None
        harness.tell("go")
        assert harness.state is State.TERMINATED
        assert harness.ended is not None
        assert harness.ended.kind is ExitKind.NORMAL
        assert harness.actor.closed  # what it was last
        harness.tell("late")
        assert [letter.message for letter in harness.dead_letters] == ["late"]


def test_it_can_be_stopped_and_killed() -> None:
    for how, kind in (("stop", ExitKind.NORMAL), ("kill", ExitKind.KILLED)):
        with ActorHarness(Counter) as harness:
            getattr(harness, how)()
            assert harness.ended is not None
            assert harness.ended.kind is kind
            assert harness.children == harness.timers == harness.watched == []


# -- what it sends


@dataclass
class Order:
    item: str


class Waiter(Actor[Any, Any]):
    def __init__(self, kitchen: Ref, table: Ref) -> None:
        self.kitchen = kitchen
        self.table = table

    @handles(Order)
    async def order(self, message: Order) -> str:
        if await self.kitchen.ask(message, timeout=10.0):
            self.table.tell(("served", message.item))
            return "done"
        return "sorry"

    @handles(str)
    def say(self, message: str) -> None:
        self.table.tell(message, lane=Lane.CONTROL)
        self.ctx.self.tell(5)
        self.ctx.reply("said")

    @handles(int)
    def wait(self, message: int) -> None:
        self.ctx.send_after(message, self.table, "your time is up")
        self.ctx.send_after(message, self.ctx.self, Behaviors)

    @handles(type)
    def rest(self, message: type) -> None: ...


def test_what_it_sends_is_seen_in_order_with_lane_and_sender() -> None:
    with ActorHarness() as harness:
        kitchen, table, guest = (harness.inbox(name) for name in ("kitchen", "table", "guest"))
        harness.start(Waiter, kitchen.ref, table.ref, name="waiter")
        harness.tell("hello", sender=guest.ref)
        seen = [(sent.to, sent.message, sent.lane, sent.sender, sent.is_ask) for sent in harness.sent]
        assert seen == [
            (table.ref, "hello", Lane.CONTROL, harness.ref, False),
            (harness.ref, 5, Lane.DATA, harness.ref, False),
            (guest.ref, "said", Lane.DATA, harness.ref, False),
        ]
        assert repr(harness.sent[0]) == "<Sent 'hello' to /table by Lane.CONTROL>"
        assert repr(table) == "<TestInbox /table, 1 message>"
        assert (table.messages, guest.messages, kitchen.messages) == (["hello"], ["said"], [])
        harness.clear()
        assert harness.sent == table.messages == []


def test_what_its_timers_send_to_others_is_sent_and_its_own_ticks_are_not() -> None:
    with ActorHarness() as harness:
        kitchen, table = harness.inbox("kitchen"), harness.inbox("table")
        harness.start(Waiter, kitchen.ref, table.ref)
        harness.tell(60)
        assert harness.sent == []
        harness.advance(60.0)
        assert [(sent.to, sent.message) for sent in harness.sent] == [(table.ref, "your time is up")]


def test_what_the_test_sends_by_a_ref_is_not_the_actors_doing() -> None:
    with ActorHarness(Counter) as harness:
        other = harness.inbox()
        other.ref.tell("from the test")
        harness.ref.tell(1)
        assert harness.queued == 1
        harness.settle()
        assert harness.actor.total == 1
        assert harness.effects == []


def test_an_ask_is_answered_by_the_test_and_the_handler_goes_on() -> None:
    with ActorHarness() as harness:
        kitchen, table = harness.inbox("kitchen"), harness.inbox("table")
        harness.start(Waiter, kitchen.ref, table.ref)
        for made, answer in ((True, "done"), (False, "sorry")):
            asked = harness.begin_ask(Order("tea"))
            assert harness.is_suspended
            sent = harness.sent[-1]
            assert (sent.to, sent.message, sent.is_ask, sent.is_open) == (kitchen.ref, Order("tea"), True, True)
            assert not asked.done
            assert repr(asked) == "<PendingAnswer to Order(item='tea'), open>"
            assert repr(sent) == "<Sent Order(item='tea') to /kitchen, which asks for a reply>"
            sent.reply(made)
            assert asked.result() == answer
            assert not sent.is_open
        assert table.messages == [("served", "tea")]


def test_an_ask_can_fail_and_time_out() -> None:
    with ActorHarness() as harness:
        kitchen, table = harness.inbox("kitchen"), harness.inbox("table")
        harness.start(Waiter, kitchen.ref, table.ref)
        asked = harness.begin_ask(Order("tea"))
        kitchen.fail(OSError("no gas"))
        with pytest.raises(OSError, match="no gas"):
            asked.result()
        harness.advance(1.0)  # it is restarted

        asked = harness.begin_ask(Order("cake"))
        harness.advance(9.9)
        assert not asked.done
        harness.advance(0.1)
        with pytest.raises(AskTimeout):
            asked.result()
        harness.sent[-1].reply(True)
        assert [(letter.message, letter.reason) for letter in harness.dead_letters] == [(True, "late reply")]


def test_an_ask_is_answered_once_and_nothing_else_is() -> None:
    with ActorHarness() as harness:
        kitchen, table = harness.inbox("kitchen"), harness.inbox("table")
        harness.start(Waiter, kitchen.ref, table.ref)
        harness.tell("hello")
        with pytest.raises(BadArgument, match="was told to /table, not asked"):
            harness.sent[0].reply(1)
        with pytest.raises(AssertionError, match="nobody waits for a reply of /kitchen"):
            kitchen.reply(1)
        harness.tell(Order("tea"))
        with pytest.raises(BadArgument, match="with an exception"):
            kitchen.fail("no gas")  # type: ignore[arg-type]
        kitchen.reply(True)
        with pytest.raises(AlreadyReplied):
            harness.sent[-2].reply(True)


def test_several_asks_are_answered_in_any_order() -> None:
    class Quoting(Actor[str, list[int]]):
        def __init__(self, *shops: Ref) -> None:
            self.shops = shops

        async def receive(self, message: str) -> list[int]:
            return await asyncio.gather(*(self._quote(shop, message) for shop in self.shops))

        async def _quote(self, shop: Ref, message: str) -> int:
            quote: int = await shop.ask(message)
            return quote

    with ActorHarness() as harness:
        shops = [harness.inbox(f"shop-{number}") for number in range(3)]
        harness.start(Quoting, *(shop.ref for shop in shops))
        asked = harness.begin_ask("tea")
        for price in (2, 0, 1):
            assert not asked.done
            shops[price].reply(price)
        assert asked.result() == [0, 1, 2]


def test_what_is_piped_comes_as_a_message() -> None:
    class Piping(Actor[str]):
        def __init__(self, shop: Ref) -> None:
            self.shop = shop
            self.heard: list[str] = []

        def receive(self, message: str) -> None:
            self.heard.append(message)
            if message == "price":
                self.ctx.pipe_to_self(self.shop.ask(message), lambda price: f"it is {price}")

    with ActorHarness() as harness:
        shop = harness.inbox("shop")
        harness.start(Piping, shop.ref)
        harness.tell("price")
        harness.tell("meanwhile")
        shop.reply(3)
        assert harness.actor.heard == ["price", "meanwhile", "it is 3"]
        assert [sent.message for sent in harness.sent] == ["price"]


def test_what_is_forwarded_is_answered_by_the_test() -> None:
    with ActorHarness() as harness:
        clerk = harness.inbox("clerk")
        harness.start(lambda ctx, message: ctx.forward(clerk.ref))
        asked = harness.begin_ask("who?")
        clerk.reply("me")
        assert asked.result() == "me"
        guest = harness.inbox("guest")
        harness.tell("told", sender=guest.ref)
        assert clerk.sent[-1].sender == guest.ref


def test_an_answer_that_is_missing_says_what_the_actor_does() -> None:
    class Hesitating(Actor[str]):
        def __init__(self, other: Ref) -> None:
            self.other = other

        async def receive(self, message: str) -> None:
            if message == "sleep":
                await asyncio.sleep(5.0)
            elif message == "ask":
                await self.other.ask(message)
            else:
                self.ctx.defer_reply()

    with ActorHarness() as harness:
        other = harness.inbox("other")
        harness.start(Hesitating, other.ref, name="he")
        with pytest.raises(
            AssertionError, match="/he has not answered 'ask': its handler waits for the reply of /other, at"
        ):
            harness.ask("ask")
        other.reply()
        with pytest.raises(AssertionError, match=r"its handler waits, at .*/asyncio/tasks.py:\d+; `advance`"):
            harness.ask("sleep")
        harness.advance(5.0)
        with pytest.raises(AssertionError, match="it has put its reply off"):
            harness.ask("later")
        harness.ref.fail(ValueError())
        harness.settle()
        with pytest.raises(AssertionError, match="it is restarting; `advance`"):
            harness.ask("ask")
        assert len(harness.failures) == 1


def test_a_mailbox_that_is_full_refuses_what_it_sends() -> None:
    def pass_on(ctx: Context, message: Any) -> str:
        try:
            other.ref.tell(message)
        except MailboxFull:
            return "full"
        return "passed on"

    with ActorHarness() as harness:
        other = harness.inbox("other", mailbox=MailboxConfig(capacity=1))
        harness.start(pass_on)
        assert [harness.ask(number) for number in (1, 2)] == ["passed on", "passed on"]
        other.hold()
        assert [harness.ask(number) for number in (3, 4)] == ["passed on", "full"]
        assert other.messages == [1, 2, 3]
        other.release()
        assert harness.ask(5) == "passed on"


def test_what_it_does_not_handle_is_a_dead_letter() -> None:
    with ActorHarness() as harness:
        harness.start(Waiter, harness.inbox().ref, harness.inbox().ref)
        harness.tell(1.5)
        assert [(letter.message, letter.reason) for letter in harness.dead_letters] == [(1.5, "unhandled")]
        with pytest.raises(Unhandled):
            harness.ask(2.5)
        harness.clear()
        assert harness.dead_letters == []
