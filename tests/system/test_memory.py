"""Nothing is left of an actor that has ended: not it, not its refs, not what the runtime kept of it."""

from __future__ import annotations

import asyncio
import gc
import logging
import sysconfig
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import COMPILED, ActorRef, ActorSystem, Behavior, Behaviors, Context, Drain
from tests.system.freed import ENDS, KINDS, Book, Later, Plain, alive, live_and_die, ours

if TYPE_CHECKING:
    from tests.conftest import Play

TEN_THOUSAND = 10_000


@pytest.fixture(autouse=True)
def no_collector_and_no_log() -> Iterator[None]:
    """What dies in here dies because nobody holds it. A log that is kept would hold what it was told of."""
    gc.collect()
    gc.disable()
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    gc.enable()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.config(dead_letters=0)
async def test_an_ended_actor_is_freed_at_once(system: ActorSystem, kind: type[Plain], end: str) -> None:
    book = Book()
    weak = await live_and_die(system, book, kind, end, 20)
    assert len(book.actors) >= 20
    assert alive(book.actors) == 0
    assert alive(weak) == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_whoever_keeps_a_ref_keeps_the_ref_and_not_the_actor(system: ActorSystem, kind: type[Plain]) -> None:
    book = Book()
    ref = system.spawn(kind, book)
    await ref.started()
    ref.stop()
    await ref.terminated()
    await system.settle()
    assert alive(book.actors) == 0
    assert (ref.is_alive, system.ledger(ref).sent) == (False, 0)


def nothing(ctx: Context, message: Any) -> None:
    pass


def stash_and_unstash(ctx: Context) -> None:
    ctx.stash()
    ctx.become(nothing)
    ctx.unstash_all()


def become_and_unbecome(ctx: Context) -> None:
    ctx.become(nothing)
    ctx.unbecome()


FEATURES: dict[str, Callable[[Context], Any]] = {
    "log": lambda ctx: ctx.log.debug("here"),
    "timer": lambda ctx: ctx.send_after(1000.0, ctx.self, "never"),
    "interval": lambda ctx: ctx.send_every(1000.0, ctx.self, "never"),
    "keyed timer": lambda ctx: ctx.timers.start("key", 1000.0, "never"),
    "receive timeout": lambda ctx: ctx.set_receive_timeout(1000.0),
    "pipe": lambda ctx: ctx.pipe_to_self(asyncio.get_running_loop().create_future()),
    "stash": lambda ctx: ctx.stash(),
    "unstash": stash_and_unstash,
    "become": lambda ctx: ctx.become(nothing),
    "become and back": become_and_unbecome,
    "child": lambda ctx: ctx.spawn(nothing),
    "watch": lambda ctx: ctx.watch(ctx.spawn(nothing)),
    "defer": lambda ctx: ctx.defer_reply(),
    "reply": lambda ctx: ctx.reply("x"),
    "ask": lambda ctx: ctx.spawn(nothing).ask("x"),
    "self": lambda ctx: (ctx.self, ctx.env, ctx.children, ctx.parent, ctx.name),
}


class Doing(Plain):
    """Does what it is sent, with its context."""

    def receive(self, message: Any) -> None:
        message(self.ctx)


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.config(dead_letters=0)
async def test_an_actor_that_used_what_its_context_has_is_freed_at_once_too(system: ActorSystem, feature: str) -> None:
    book = Book()
    ref = system.spawn(Doing, book)
    ref.tell(FEATURES[feature])
    await system.settle()
    ref.stop()
    await ref.terminated()
    await system.settle()
    for _ in range(3):  # what was cancelled has its turn
        await asyncio.sleep(0)
    assert alive(book.actors) == 0


@pytest.mark.parametrize("kind", [Plain, Later])
@pytest.mark.config(dead_letters=0)
async def test_a_failed_actor_is_freed_with_its_exception(system: ActorSystem, kind: type[Plain]) -> None:
    book = Book()
    for _ in range(20):
        system.spawn(kind, book).tell("fail")
    await system.settle()
    gc.collect()  # an exception, its traceback and the frames in it hold one another
    assert alive(book.actors) == 0
    assert system.actors() == []


async def test_functions_and_behaviors_are_freed_at_once_too(system: ActorSystem) -> None:
    class Held:
        """What the functions hold."""

    weak: list[Any] = []

    def spawn_some() -> list[ActorRef[Any, Any]]:
        held = Held()
        weak.append(weakref.ref(held))

        def handler(ctx: Context, message: Any) -> Any:
            return held

        async def later(ctx: Context, message: Any) -> Any:
            await asyncio.sleep(0)
            return held

        def begin(ctx: Context) -> Behavior:
            return Behaviors.receive(handler, on_signal=lambda ctx, signal: held)

        made = (handler, later, Behaviors.receive(handler), Behaviors.setup(begin))
        return [system.spawn(one, drain=Drain.DROP) for one in made]

    refs = spawn_some()
    for ref in refs:
        ref.tell("work")
    await system.settle()
    assert alive(weak) == 1
    for ref in refs:
        ref.stop()
    await system.settle()
    if COMPILED and sysconfig.get_config_var("Py_GIL_DISABLED"):
        gc.collect()  # there, functions are left to the collector: threads would fight over counts of references
    assert alive(weak) == 0


@pytest.mark.config(dead_letters=0)
async def test_ten_thousand_actors_leave_nothing_behind(system: ActorSystem) -> None:
    book = Book()
    await live_and_die(system, book, Plain, "stop", 100)  # whatever is made once is made now
    book.actors.clear()
    before = ours()
    weak = await live_and_die(system, book, Plain, "stop", TEN_THOUSAND)
    assert (len(weak), len(book.actors)) == (TEN_THOUSAND, TEN_THOUSAND)
    assert (alive(weak), alive(book.actors)) == (0, 0)
    left = ours() - before
    assert sum(left.values()) == 0, left
    assert system.snapshot().spawned == TEN_THOUSAND + 100


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.config(dead_letters=0)
async def test_a_few_hundred_of_any_kind_leave_nothing_behind(system: ActorSystem, kind: type[Plain]) -> None:
    book = Book()
    for end in ENDS:
        await live_and_die(system, book, kind, end, 10)
    before = ours()
    for end in ENDS:
        await live_and_die(system, book, kind, end, 100)
    left = ours() - before
    assert sum(left.values()) == 0, left
    assert system.snapshot().timers == 0


@pytest.mark.config(dead_letters=0)
async def test_asks_that_ended_in_any_way_leave_nothing_behind(system: ActorSystem) -> None:
    async def answer(ctx: Context, message: Any) -> Any:
        if message == "late":
            await asyncio.sleep(0)
        elif message == "fail":
            ctx.fail_reply(ValueError(message))
        elif message == "unhandled":
            return Behaviors.unhandled
        elif message == "defer":
            ctx.defer_reply().send(message)
        return message

    ref = system.spawn(answer)
    gone = system.spawn(answer)
    gone.stop()
    await gone.terminated()

    async def ask_all() -> None:
        for message in ("late", "fail", "unhandled", "defer"):
            await asyncio.gather(*(ref.ask(message) for _ in range(20)), return_exceptions=True)
            await asyncio.gather(*(ref.ask(message, timeout=0.0) for _ in range(20)), return_exceptions=True)
        await asyncio.gather(*(gone.ask("x") for _ in range(20)), return_exceptions=True)
        for _ in range(20):
            ref.ask("late").cancel()
        await system.settle()
        await asyncio.sleep(0)

    await ask_all()
    gc.collect()
    before = ours()
    await ask_all()
    gc.collect()  # a failed ask and its exception hold each other; that is what the collector is for
    left = ours() - before
    assert sum(left.values()) == 0, left


def test_a_system_that_has_stopped_is_freed_with_everything_in_it(play: Play) -> None:
    async def main() -> None:
        book = Book()
        weak: list[Any] = []
        for _ in range(3):
            async with ActorSystem() as system:
                for kind in KINDS:
                    system.spawn(kind, book).tell("work")
                await system.settle()
            weak.append(weakref.ref(system))
            del system
        gc.collect()
        assert alive(weak) == 0
        assert alive(book.actors) == 0

    play.bare(main)


async def test_a_pipe_that_never_began_leaves_no_coroutine_behind(system: ActorSystem) -> None:
    """An un-awaited coroutine would warn when it is freed, and a warning fails the test."""

    async def never(ctx: Context) -> None:
        raise AssertionError("it was to be cancelled before it began")

    def pipe(ctx: Context, message: Any) -> Behavior:
        ctx.pipe_to_self(never(ctx))
        return Behaviors.stopped

    ref = system.spawn(pipe)
    ref.tell("go")
    await ref.terminated()


@pytest.mark.config(dead_letters=0)
async def test_what_an_observer_or_subscriber_was_told_is_not_kept(system: ActorSystem) -> None:
    class Letter:
        """A message that can be seen to be freed."""

    class Counting:
        dead = 0

        def dead_letter(self, ref: Any, message: Any, sender: Any, why: str) -> None:
            self.dead += 1

    counting = Counting()
    system.observers.add(counting)
    end_subscription = system.dead_letters.subscribe(lambda letter: None)
    ref: ActorRef[Any, Any] = system.spawn(lambda ctx, message: None)
    ref.stop()
    await ref.terminated()
    letter = Letter()
    weak = weakref.ref(letter)
    ref.tell(letter)
    del letter
    assert counting.dead == 1
    assert weak() is None
    end_subscription()


# -- many


@pytest.mark.slow
@pytest.mark.parametrize("count", [100_000, 1_000_000])
async def test_very_many_actors_live_answer_and_leave_nothing_behind(count: int) -> None:
    async with ActorSystem() as system:
        book = Book()
        await live_and_die(system, book, Plain, "stop", 100)
        refs: Any = [system.spawn(Plain, book) for _ in range(count)]
        ref: Any = None
        await system.settle(timeout=600.0)
        for ref in refs:
            ref.tell("work")
        await system.settle(timeout=600.0)
        ledger = system.ledger()
        assert ledger.balanced
        assert ledger.handled >= count
        for number, ref in enumerate(refs):
            assert await ref.ask(number) == number
        for ref in refs:
            ref.stop()
        await system.settle(timeout=600.0)
        weak = [weakref.ref(ref) for ref in refs[:: count // 1000]]
        del refs, ref
        assert alive(weak) == 0
        assert alive(book.actors) == 0
        assert system.actors() == []
        left = {kind: number for kind, number in ours().items() if number > 1000}
        assert left == {}


@pytest.mark.slow
async def test_memory_stays_flat_however_often_actors_come_and_go() -> None:
    async with ActorSystem() as system:
        book = Book()
        sizes = []
        tracemalloc.start()
        for _ in range(4):
            await live_and_die(system, book, Plain, "stop", 25_000)
            book.actors.clear()
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert sizes[-1] - sizes[1] < 100_000, sizes
