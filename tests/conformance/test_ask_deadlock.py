"""Asks that wait for one another in a circle are told so, and no others are (case 25, B5)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom import Actor, ActorSystem, ActorTerminated, AskDeadlock, AskTimeout, Context, Drain, ManualClock, Reply
from tests.conformance.sending import Echo, Keeper, Ref, outcome, until
from tests.conftest import Play
from tests.gates import Event, turns


async def walk(ctx: Context, path: tuple[Ref, ...]) -> Any:
    """Ask the first of the path to walk the rest of it."""
    return await path[0].ask(path[1:], timeout=None) if path else "the end"


async def walk_carefully(ctx: Context, path: tuple[Ref, ...]) -> Any:
    """The same, but an error is an answer too."""
    return await outcome(path[0].ask(path[1:], timeout=None)) if path else "the end"


class Doer(Actor[Any, Any]):
    """Does what it is told: calls an async function with its context."""

    async def receive(self, message: Any) -> Any:
        return await message(self.ctx)


async def hello(ctx: Context) -> str:
    return "hello"


async def soon(awaitable: Any) -> Any:
    """What comes of it, before a test would have to wait for its own deadline."""
    async with asyncio.timeout(120.0):
        return await outcome(awaitable)


def assert_is_circle(error: object, *circle: Ref) -> None:
    """The refs in the order of asking, from whichever of them, and back to it."""
    assert isinstance(error, AskDeadlock), error
    assert error.code == "ask_deadlock"
    assert error.cycle[0] == error.cycle[-1]
    start = circle.index(error.cycle[0])
    assert error.cycle == (*circle[start:], *circle[:start], circle[start])
    assert all(ref.path in str(error) for ref in circle)


async def why_it_ended(play: Play, ref: Ref) -> object:
    """What it failed with. On threads, who asked last need not be who finds the circle: then it hears of one's end."""
    cause = (await ref.terminated()).cause
    return cause_of(cause) if play.is_elsewhere else cause


def cause_of(error: Any) -> object:
    """What is behind it, if it is that an actor has ended."""
    while isinstance(error, ActorTerminated):
        reason: Any = error.reason
        error = reason.cause
    return error


# -- circles


@pytest.mark.parametrize("length", range(1, 8))
@pytest.mark.parametrize("handler", [walk, walk_carefully])
async def test_a_circle_of_asks_is_a_deadlock(play: Play, system: ActorSystem, handler: Any, length: int) -> None:
    # case 25
    circle: list[Ref] = [system.spawn(handler, name=f"actor-{number}") for number in range(length)]
    error = await soon(circle[0].ask((*circle[1:], circle[0]), timeout=None))
    assert_is_circle(error, *circle)
    if handler is walk:  # who does not catch it fails with it, and so does who asked
        assert {await why_it_ended(play, ref) for ref in circle} == {error}
    else:
        assert all(ref.is_alive for ref in circle)


async def test_who_only_leads_to_a_circle_is_not_in_it(system: ActorSystem) -> None:  # case 25
    a, b, c, d = (system.spawn(walk_carefully) for _ in range(4))
    assert_is_circle(await soon(a.ask((b, c, d, c), timeout=None)), c, d)
    assert_is_circle(await soon(a.ask((b, c, d, b), timeout=None)), b, c, d)


async def test_a_circle_that_was_broken_leaves_everybody_at_work(system: ActorSystem) -> None:  # case 25
    a, b = system.spawn(walk_carefully), system.spawn(walk_carefully)
    for _ in range(3):
        assert_is_circle(await soon(a.ask((b, a), timeout=None)), a, b)
    assert await soon(a.ask((b,))) == await soon(b.ask((a,))) == "the end"
    await system.settle()
    # What was asked last is handled when its actor is free, and its reply has nobody to go to.
    assert system.ledger().late_replies == 3


async def test_what_stands_around_the_await_does_not_hide_the_circle(system: ActorSystem) -> None:  # case 25
    async def ask_me(ctx: Context) -> Any:
        async def helper() -> Any:
            return await ctx.self.ask("?", timeout=None)

        async with asyncio.timeout(120.0):
            return await helper()

    doer = system.spawn(Doer)
    assert_is_circle(await soon(doer.ask(ask_me, timeout=None)), doer)


async def test_two_that_ask_each_other_at_once_are_a_circle_for_one_of_them(system: ActorSystem) -> None:  # case 25
    a, b = system.spawn(walk_carefully), system.spawn(walk_carefully)
    results = [await soon(one) for one in (a.ask((b,), timeout=None), b.ask((a,), timeout=None))]
    [error] = [result for result in results if result != "the end"]
    assert_is_circle(error, a, b)


async def test_an_ask_that_is_awaited_later_closes_the_circle_then(system: ActorSystem) -> None:  # case 25
    a, b = system.spawn(Doer), system.spawn(walk_carefully)
    gate = Event()

    async def ask_and_wait(ctx: Context) -> Any:
        asked = b.ask((a,), timeout=None)
        await gate.wait()
        return await outcome(asked)

    asking = a.ask(ask_and_wait, timeout=None)
    await until(lambda: system.ledger(a).sent == 2)  # b has asked back
    gate.set()
    assert_is_circle(await soon(asking), a, b)


async def test_an_actor_that_starts_can_close_a_circle(play: Play, system: ActorSystem) -> None:  # case 25
    class Needy(Echo):
        def __init__(self, parent: Ref) -> None:
            self.parent = parent

        async def pre_start(self) -> None:
            await self.parent.ask(hello, timeout=None)

    children: list[Ref] = []

    async def spawn_and_ask(ctx: Context) -> Any:
        children.append(ctx.spawn(Needy, ctx.self))
        return await outcome(children[0].ask("?", timeout=None))

    parent = system.spawn(Doer)
    error = await soon(parent.ask(spawn_and_ask, timeout=None))
    assert_is_circle(cause_of(error), parent, children[0])
    if not play.is_elsewhere:  # on threads the parent may be who asks last; the child is answered then
        assert isinstance(error, ActorTerminated)


# -- replies that somebody else gives


async def test_a_forwarded_ask_leads_to_who_got_it(system: ActorSystem) -> None:  # case 25
    asker, end = system.spawn(walk_carefully), system.spawn(walk_carefully)
    between: Ref = system.spawn(lambda ctx, path: ctx.forward(end))
    assert_is_circle(await soon(asker.ask((between, asker), timeout=None)), asker, end)
    assert between.is_alive


async def test_who_has_forwarded_an_ask_may_ask_the_asker(system: ActorSystem) -> None:  # case 25
    a, c = system.spawn(walk_carefully), system.spawn(walk_carefully)
    heard: list[Any] = []

    async def forward_and_ask(ctx: Context, path: Any) -> None:
        ctx.forward(c)
        heard.append(await a.ask((), timeout=None))

    b: Ref = system.spawn(forward_and_ask)
    assert await soon(a.ask((b,), timeout=None)) == "the end"
    await system.settle()
    assert heard == ["the end"]


@pytest.mark.at_home("pinned")
@pytest.mark.parametrize("way", ["forward", "forward to one who waits", "drain"])
@pytest.mark.config(stop_timeout=0.1)
async def test_a_circle_can_be_closed_by_handing_an_ask_on(system: ActorSystem, way: str) -> None:
    # case 25: exact on one loop
    a = system.spawn(walk_carefully)
    gate = Event()

    async def forward(ctx: Context, path: Any) -> None:
        await gate.wait()
        ctx.forward(a if way == "forward" else c)

    b: Ref = system.spawn(forward, drain=Drain.REDIRECT(a))
    c = system.spawn(walk_carefully)
    if way == "drain":
        b.tell("held")
    asking = a.ask((b,), timeout=None)
    await until(lambda: system.ledger(b).sent == (2 if way == "drain" else 1))
    if way == "forward to one who waits":
        c.tell((a,))
        await until(lambda: system.ledger(a).queued)
        await turns()  # so that it waits
    if way == "drain":
        b.stop()
    gate.set()
    assert isinstance(await soon(asking), AskDeadlock)


@pytest.mark.parametrize("answer", ["reply", "fail_reply"])
async def test_who_has_answered_may_ask_back(system: ActorSystem, answer: str) -> None:  # case 25
    a = system.spawn(walk_carefully)
    cause = ValueError("no")
    heard: list[Any] = []

    async def answer_and_ask(ctx: Context, _: Any) -> None:
        if answer == "reply":
            ctx.reply("yes")
        else:
            ctx.fail_reply(cause)
        heard.append(await a.ask((), timeout=None))

    b: Ref = system.spawn(answer_and_ask)
    assert await soon(a.ask((b,), timeout=None)) == ("yes" if answer == "reply" else cause)
    await system.settle()
    assert heard == ["the end"]


async def test_a_reply_that_was_put_off_is_no_part_of_a_circle(system: ActorSystem) -> None:  # case 25
    a = system.spawn(walk_carefully)
    kept: list[Reply] = []
    heard: list[Any] = []

    async def defer_and_ask(ctx: Context, _: Any) -> None:
        kept.append(ctx.defer_reply())
        heard.append(await a.ask((), timeout=None))

    b: Ref = system.spawn(defer_and_ask)
    asking = a.ask((b,), timeout=None)
    await until(lambda: kept and system.ledger(a).queued)  # both wait, and a third can help
    assert heard == []
    kept[0].send("by somebody else")
    assert await soon(asking) == "by somebody else"
    await system.settle()
    assert heard == ["the end"]


# -- waiting in another way


async def test_waiting_for_the_first_of_two_asks_is_no_deadlock(system: ActorSystem) -> None:  # case 25
    kept: list[Reply] = []
    b, c = system.spawn(walk_carefully), system.spawn(Keeper, kept)
    asker = system.spawn(Doer)

    async def first_of_two(ctx: Context) -> Any:
        path = (asker,)
        tasks = [asyncio.create_task(outcome(b.ask(path))), asyncio.create_task(outcome(c.ask("?")))]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.wait(tasks)
        return [task.result() for task in done]

    asking = asker.ask(first_of_two, timeout=None)
    await until(lambda: kept and system.ledger(asker).queued)  # b waits for the asker, which waits for either
    kept[0].send("first")
    assert await soon(asking) == ["first"]


@pytest.mark.at_home("pinned")
@pytest.mark.parametrize("way", ["gather", "create_task", "TaskGroup", "pipe_to_self"])
async def test_an_ask_in_a_task_is_no_deadlock_but_a_timeout(system: ActorSystem, clock: ManualClock, way: str) -> None:
    # case 25
    b = system.spawn(walk_carefully)
    asker = system.spawn(Doer)

    async def ask_in_task(ctx: Context) -> Any:
        path = (asker,)
        if way == "gather":
            return (await asyncio.gather(outcome(b.ask(path, timeout=3.0))))[0]
        if way == "create_task":
            return await asyncio.create_task(outcome(b.ask(path, timeout=3.0)))
        async with asyncio.TaskGroup() as group:
            task = group.create_task(outcome(b.ask(path, timeout=3.0)))
        return task.result()

    async def pipe(ctx: Context) -> None:
        reply = ctx.defer_reply()

        async def done(ctx: Context) -> None:
            reply.send("piped")

        ctx.pipe_to_self(outcome(b.ask((), timeout=3.0)), lambda result: done)

    asking = asker.ask(pipe if way == "pipe_to_self" else ask_in_task, timeout=None)
    await clock.advance(2.999)
    assert asking.done() is (way == "pipe_to_self")
    await clock.advance(0.001)
    result = await soon(asking)
    assert result == "piped" if way == "pipe_to_self" else isinstance(result, AskTimeout)


async def test_who_gave_up_waiting_is_no_part_of_a_circle(system: ActorSystem, clock: ManualClock) -> None:  # case 25
    a, b = system.spawn(Doer), system.spawn(Keeper, [])

    async def give_up(ctx: Context) -> Any:
        return type(await outcome(b.ask("?", timeout=1.0)))

    asking = a.ask(give_up, timeout=None)
    await clock.advance(1.0)
    assert await soon(asking) is AskTimeout
    c = system.spawn(walk_carefully)

    async def ask_c(ctx: Context) -> Any:
        return await c.ask((), timeout=None)

    assert await soon(a.ask(ask_c, timeout=None)) == "the end"


async def test_a_long_chain_is_no_circle(system: ActorSystem) -> None:
    chain = tuple(system.spawn(walk) for _ in range(300))
    assert await soon(chain[0].ask(chain[1:], timeout=None)) == "the end"
    # Many that wait for one, and one that asks again, are none either.
    asks = [start.ask(chain[-2:], timeout=None) for start in chain[:-2]]
    assert [await soon(one) for one in asks] == ["the end"] * 298


# -- against a model


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-1, 7), min_size=1, max_size=8).map(lambda points: [min(p, len(points) - 1) for p in points])
)
def test_every_circle_is_found_once_and_nothing_else(points_to: list[int]) -> None:  # case 25
    """Each actor asks one other at the same time, or nobody (-1): one of each circle gets the error."""

    def circles() -> list[set[int]]:
        found: list[set[int]] = []
        for start in range(len(points_to)):
            seen: list[int] = []
            here = start
            while here >= 0 and here not in seen:
                seen.append(here)
                here = points_to[here]
            if here >= 0 and (circle := set(seen[seen.index(here) :])) not in found:
                found.append(circle)
        return found

    async def main() -> None:
        async with asyncio.timeout(120.0), ActorSystem() as system:
            refs = [system.spawn(walk_carefully) for _ in points_to]
            asks = [
                ref.ask((refs[target],) if target >= 0 else (), timeout=None)
                for ref, target in zip(refs, points_to, strict=True)
            ]
            ends = [await soon(one) for one in asks]
            errors = [end for end in ends if end != "the end"]
            assert all(isinstance(error, AskDeadlock) for error in errors)
            told = sorted(sorted(refs.index(ref) for ref in set(error.cycle)) for error in errors)
            assert told == sorted(map(sorted, circles()))
            for error in errors:
                numbers = [refs.index(ref) for ref in error.cycle]
                assert all(points_to[here] == there for here, there in pairwise(numbers))

    asyncio.run(main())
