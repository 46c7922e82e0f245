"""`ActorHarness` steps one actor: what it handles, sends and answers, and how time passes for it (M19)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    AskTimeout,
    Behavior,
    Behaviors,
    Context,
    Directive,
    ExitKind,
    Lane,
    MailboxConfig,
    MailboxFull,
    ReceiveTimeout,
    State,
    Supervision,
    handles,
    props,
)
from greenroom.errors import AlreadyReplied, BadArgument, InvalidDelay, Unhandled
from greenroom.testing import ActorHarness, TestProbe


class Counter(Actor[int, int]):
    def __init__(self, total: int = 0) -> None:
        self.total = total

    def receive(self, message: int) -> int:
        if message < 0:
            raise ValueError(f"no {message}")
        self.total += message
        return self.total


class AsyncCounter(Counter):
    async def receive(self, message: int) -> int:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().receive(message)


COUNTERS = pytest.mark.parametrize("counter", [Counter, AsyncCounter])


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


# -- time


class Ticking(Actor[Any]):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> None:
        match message:
            case ("once", delay):
                self.ctx.send_after(delay, self.ctx.self, "once")
            case ("every", interval):
                self.timer = self.ctx.send_every(interval, self.ctx.self, "again", fixed_rate=True)
            case ("key", key, delay):
                self.ctx.timers.start(key, delay, key)
            case ("cancel", key):
                self.ctx.timers.cancel(key)
            case "cancel":
                self.timer.cancel()
            case _:
                self.seen.append((self.ctx.now(), message))


def test_its_timers_are_seen_and_ring_when_time_passes() -> None:
    with ActorHarness(Ticking, name="t") as harness:
        harness.tell(("once", 5))
        harness.tell(("every", 2.0))
        harness.tell(("key", "k", 3.0))
        assert [(timer.key, timer.message, timer.to, timer.due, timer.interval) for timer in harness.timers] == [
            (None, "once", harness.ref, 5.0, None),
            (None, "again", harness.ref, 2.0, 2.0),
            ("k", "k", harness.ref, 3.0, None),
        ]
        assert [timer.fixed_rate for timer in harness.timers] == [False, True, False]
        assert repr(harness.timers[1]) == "<Timer: 'again' to /t, due in 2 s, every 2 s>"
        harness.advance(4.5)
        assert harness.actor.seen == [(2.0, "again"), (3.0, "k"), (4.0, "again")]
        assert [(timer.message, timer.due) for timer in harness.timers] == [("once", 0.5), ("again", 1.5)]
        assert harness.now == 4.5
        harness.tell("cancel")
        harness.advance(10.0)
        assert harness.actor.seen[3:] == [(5.0, "once")]
        assert harness.timers == []
        assert [repr(timer) for timer in harness.effects] == [
            "<Timer: 'once' to /t, over>",
            "<Timer: 'again' to /t, over, every 2 s>",
            "<Timer 'k': 'k' to /t, over>",
        ]


def test_a_timer_that_takes_the_place_of_another_or_is_cancelled_is_not_active() -> None:
    with ActorHarness(Ticking) as harness:
        harness.tell(("key", "k", 3.0))
        harness.tell(("key", "k", 4.0))
        harness.tell(("key", "other", 5.0))
        assert [(timer.key, timer.due) for timer in harness.timers] == [("k", 4.0), ("other", 5.0)]
        harness.tell(("cancel", "k"))
        harness.clear()
        assert [timer.key for timer in harness.timers] == ["other"]  # what there is, and not what has happened
        harness.restart()
        assert harness.timers == []


def test_timers_of_a_behavior_are_seen_too() -> None:
    def begin(timers: Any) -> Behavior:
        timers.start("beat", 1.0, "beat", every=1.0)
        return Behaviors.receive(lambda ctx, message: timers.cancel("beat") and None)

    with ActorHarness(Behaviors.with_timers(begin)) as harness:
        assert [(timer.key, timer.interval) for timer in harness.timers] == [("beat", 1.0)]
        harness.advance(1.0)
        assert harness.timers == []


def test_a_handler_that_sleeps_goes_on_when_time_passes() -> None:
    async def nap(ctx: Context, message: float) -> float:
        await asyncio.sleep(message)
        return ctx.now()

    began = time.monotonic()
    with ActorHarness(nap) as harness:
        asked = harness.begin_ask(3600.0)
        harness.advance(3599.0)
        assert not asked.done
        assert harness.is_suspended
        harness.advance(1.0)
        assert asked.result() == 3600.0
    assert time.monotonic() - began < 3600.0  # the hour did not pass for real


def test_a_receive_timeout_rings_when_time_passes_without_a_message() -> None:
    class Patient(Actor[Any]):
        timeouts = 0

        def pre_start(self) -> None:
            self.ctx.set_receive_timeout(10.0)

        def receive(self, message: Any) -> None:
            if isinstance(message, ReceiveTimeout):
                self.timeouts += 1
            elif message == "no more":
                self.ctx.set_receive_timeout(None)

    with ActorHarness(Patient) as harness:
        assert harness.receive_timeout == 10.0
        harness.advance(9.0)
        harness.tell("still here")
        harness.advance(9.0)
        assert harness.actor.timeouts == 0
        harness.advance(1.0)
        assert harness.actor.timeouts == 1
        harness.tell("no more")
        assert harness.receive_timeout is None
        harness.advance(100.0)
        assert harness.actor.timeouts == 1


@pytest.mark.parametrize(("step", "steps", "delay"), [(0.1, 10, 1.0), (0.1, 3, 0.3), (0.7, 3, 2.1), (1e-3, 1000, 1.0)])
def test_seconds_that_pass_in_parts_are_as_many(step: float, steps: int, delay: float) -> None:
    class Patient(Actor[str]):
        def __init__(self) -> None:
            self.ticks = 0
            self.slept = False

        async def receive(self, message: str) -> None:
            if message == "tick":
                self.ticks += 1
                return
            self.ctx.send_every(delay, self.ctx.self, "tick", fixed_rate=True)
            await asyncio.sleep(delay)
            self.slept = True

    with ActorHarness(Patient) as harness:
        harness.tell("begin")
        for number in range(1, 4):
            for _ in range(steps - 1):
                harness.advance(step)
            assert harness.actor.ticks == number - 1
            harness.advance(step)
            assert (harness.actor.ticks, harness.actor.slept) == (number, True)


def test_what_is_a_moment_later_stays_so() -> None:
    class Punctual(Actor[str]):
        def receive(self, message: str) -> None:
            self.ctx.send_after(1.0 + 1e-6, self.ctx.self, "late")

    with ActorHarness(Punctual) as harness:
        harness.tell("begin")
        harness.advance(1.0)
        assert harness.now == 1.0
        assert harness.timers[0].due == pytest.approx(1e-6)


def test_time_is_a_number_of_seconds() -> None:
    with ActorHarness(Counter) as harness:
        for seconds in (-1.0, float("inf"), float("nan"), "1", True):
            with pytest.raises(InvalidDelay):
                harness.advance(seconds)  # type: ignore[arg-type]
        assert harness.now == 0.0


# -- becoming, stashing, stepping


def test_what_it_becomes_handles_the_next_message() -> None:
    class Door(Actor[str, str]):
        def receive(self, message: str) -> Any:
            if message == "open":
                self.ctx.become(self.opened)
                return "opened"
            return "closed"

        async def opened(self, message: str) -> str:
            if message == "close":
                self.ctx.unbecome()
            return "open"

    with ActorHarness(Door) as harness:
        assert [harness.ask(word) for word in ("?", "open", "?", "close", "?")] == [
            "closed",
            "opened",
            "open",
            "open",
            "closed",
        ]
        assert isinstance(harness.actor, Door)


def test_what_it_stashes_is_counted_and_comes_back() -> None:
    def begin(stash: Any) -> Behavior:
        def waiting(ctx: Context, message: str) -> Any:
            if message == "ready":
                stash.unstash_all()
                return Behaviors.receive(ready)
            stash.put()
            return Behaviors.same

        def ready(ctx: Context, message: str) -> None:
            seen.append(message)

        return Behaviors.receive(waiting)

    seen: list[str] = []
    with ActorHarness(Behaviors.with_stash(10, begin)) as harness:
        for word in ("a", "b"):
            harness.tell(word)
        assert harness.stashed == 2
        harness.tell("ready")
        assert harness.stashed == 0
        assert seen == ["a", "b"]


@COUNTERS
def test_messages_are_taken_one_by_one(counter: type[Counter]) -> None:
    with ActorHarness(counter) as harness:
        for number in (1, 2, 3):
            harness.ref.tell(number)
        assert harness.step()
        assert (harness.actor.total, harness.queued) == (1, 2)
        harness.ref.tell(100, lane=Lane.CONTROL)
        assert harness.step()
        assert (harness.actor.total, harness.queued) == (101, 2)
        harness.settle()
        assert (harness.actor.total, harness.queued) == (106, 0)
        assert not harness.step()


def test_a_step_that_fails_ends_before_the_next_message() -> None:
    for supervision in (Supervision(), Supervision(backoff=None), Supervision(Directive.RESUME)):
        with ActorHarness(Counter, 10, supervision=supervision) as harness:
            for number in (1, -1, 2):
                harness.ref.tell(number)
            harness.step()
            harness.step()
            assert (len(harness.failures), harness.queued) == (1, 1)
            harness.advance(1.0)
            assert harness.actor.total == (13 if supervision.strategy is Directive.RESUME else 12)
