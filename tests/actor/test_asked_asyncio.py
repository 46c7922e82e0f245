"""An ask in the hands of asyncio: task groups, timeouts, `gather`, `wait`, `as_completed`, `shield` and the like."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, Context, MailboxConfig, Supervision
from greenroom.errors import AskTimeout, NotAwaited
from greenroom.testing import assert_ledger_balanced
from tests.conformance.sending import Holding

if TYPE_CHECKING:
    from tests.conftest import Play

DEADLINE = 120.0


class Doubler(Actor[Any, Any]):
    async def receive(self, message: Any) -> Any:
        if message == "fail":
            raise ValueError("on purpose")
        if message == "later":
            await asyncio.sleep(0)
        return message * 2


async def in_a_task_group(ref: ActorRef[Any, Any]) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ref.ask(number)) for number in range(3)]
    return [task.result() for task in tasks]


async def in_tasks(ref: ActorRef[Any, Any]) -> Any:
    return [await asyncio.create_task(ref.ask(number), name="ask") for number in range(3)]


async def gathered(ref: ActorRef[Any, Any]) -> Any:
    return await asyncio.gather(*(ref.ask(number) for number in range(3)))


async def in_a_timeout(ref: ActorRef[Any, Any]) -> Any:
    async with asyncio.timeout(DEADLINE):
        return [await ref.ask(number) for number in range(3)]


async def waited_for(ref: ActorRef[Any, Any]) -> Any:
    futures = [ref.ask(number).future() for number in range(3)]
    done, pending = await asyncio.wait(futures)
    assert (len(done), pending) == (3, set())
    return [future.result() for future in futures]


async def as_completed(ref: ActorRef[Any, Any]) -> Any:
    return sorted([await one for one in asyncio.as_completed([ref.ask(number) for number in range(3)])])


async def shielded(ref: ActorRef[Any, Any]) -> Any:
    return [await asyncio.shield(ref.ask(number)) for number in range(3)]


async def ensured(ref: ActorRef[Any, Any]) -> Any:
    return [await asyncio.ensure_future(ref.ask(number)) for number in range(3)]


async def with_wait_for(ref: ActorRef[Any, Any]) -> Any:
    return [await asyncio.wait_for(ref.ask(number), DEADLINE) for number in range(3)]


async def as_futures(ref: ActorRef[Any, Any]) -> Any:
    asked = [ref.ask(number) for number in range(3)]
    return [await one.future() for one in asked]


WAYS: list[Callable[[ActorRef[Any, Any]], Awaitable[Any]]] = [
    *(in_a_task_group, in_tasks, gathered, in_a_timeout, waited_for),
    *(as_completed, shielded, ensured, with_wait_for, as_futures),
]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@each_way
async def test_asyncio_takes_an_ask(system: ActorSystem, way: Any) -> None:
    ref = system.spawn(Doubler)
    assert await way(ref) == [0, 2, 4]
    ref.tell(1)
    assert await way(ref) == [0, 2, 4]
    assert_ledger_balanced(system)


@pytest.mark.parametrize("dispatcher", ["concurrent", "pinned"])
@each_way
async def test_asyncio_takes_an_ask_inside_a_handler(system: ActorSystem, way: Any, dispatcher: str) -> None:
    ref = system.spawn(Doubler)

    async def use(ctx: Context, message: Any) -> Any:
        return await way(ref)

    assert await system.spawn(use, dispatcher=dispatcher).ask("go", timeout=None) == [0, 2, 4]


@each_way
def test_asyncio_takes_an_ask_on_another_thread(way: Any) -> None:
    with ActorSystem() as system:
        assert asyncio.run(way(system.spawn(Doubler))) == [0, 2, 4]
        assert_ledger_balanced(system)


async def test_an_ask_can_be_waited_for_where_another_loop_runs_than_where_it_was_asked(system: ActorSystem) -> None:
    ref = system.spawn(Doubler)
    aio = asyncio.get_running_loop()
    answers: list[Any] = []

    async def ask_here_and_wait_there() -> None:
        waiting = asyncio.run_coroutine_threadsafe(ref.ask(1), aio)
        answers.append(await asyncio.wrap_future(waiting))

    await asyncio.to_thread(asyncio.run, ask_here_and_wait_there())
    asked = ref.ask(2)

    async def wait_here() -> None:
        answers.append(await asyncio.create_task(asked))
        answers.append(await asked.future())

    await asyncio.to_thread(asyncio.run, wait_here())
    with pytest.raises(ValueError, match="on purpose"):
        await asyncio.to_thread(asyncio.run, asyncio.wait_for(asked_of(ref, "fail"), DEADLINE))
    assert answers == [2, 4, 4]


async def asked_of(ref: ActorRef[Any, Any], message: Any) -> Any:
    return await asyncio.create_task(ref.ask(message))


@pytest.mark.parametrize("message", ["fail", "later"])
@pytest.mark.parametrize("thread", ["its own", "another"])
def test_what_was_answered_before_is_there_at_once(message: str, thread: str) -> None:
    async def use(ref: ActorRef[Any, Any]) -> None:
        asked = ref.ask(message, timeout=None)
        while not (asked.future().done() if thread == "another" else asked.done()):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
        for wait in (asyncio.create_task, asyncio.shield, type(asked).future):
            if message == "fail":
                with pytest.raises(ValueError, match="on purpose"):
                    await wait(asked)
            else:
                assert await wait(asked) == "laterlater"

    async def main() -> None:
        async with ActorSystem() as system:
            await use(system.spawn(Doubler))

    if thread == "its own":
        asyncio.run(main())
    else:
        with ActorSystem() as system:
            asyncio.run(use(system.spawn(Doubler)))


async def test_a_task_group_hears_of_a_failure_and_ends_the_other_asks(system: ActorSystem) -> None:
    held = Holding(system)
    ref = await held.begin()
    failing = system.spawn(Doubler)
    waiting: list[asyncio.Task[Any]] = []

    async def ask_both() -> None:
        async with asyncio.TaskGroup() as group:
            waiting.append(group.create_task(ref.ask("never mind", timeout=None)))
            group.create_task(failing.ask("fail", timeout=None))

    with pytest.raises(ExceptionGroup) as caught:
        await ask_both()
    assert caught.group_contains(ValueError, match="on purpose")
    assert waiting[0].cancelled()
    await held.end()
    assert system.ledger(ref).late_replies == 1
    assert_ledger_balanced(system)


@pytest.mark.parametrize("how", ["task", "future", "wait_for", "timeout", "close"])
async def test_one_who_gives_up_is_not_answered(system: ActorSystem, how: str) -> None:
    held = Holding(system, mailbox=MailboxConfig(capacity=1))
    ref = await held.begin()
    ref.tell("first")
    asked = ref.ask("withdrawn", timeout=None, wait_for_room=True)
    match how:
        case "task" | "future":
            waiting = asyncio.create_task(asked) if how == "task" else asked.future()
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        case "wait_for":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asked, 0.0)
        case "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.0):
                    await asyncio.gather(asked)
        case "close":
            asked.close()
    assert await held.end() == ["first"]
    assert asked.done()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert_ledger_balanced(system)


async def test_what_shield_protects_goes_on(system: ActorSystem) -> None:
    held = Holding(system)
    ref = await held.begin()
    asked = asyncio.ensure_future(ref.ask("kept", timeout=None))
    waiting = asyncio.ensure_future(asyncio.wait_for(asyncio.shield(asked), 0.0))
    with pytest.raises(TimeoutError):
        await waiting
    await held.end()
    assert await asked == "kept"
    assert system.ledger(ref).late_replies == 0


async def test_a_timeout_of_the_ask_reaches_the_task(system: ActorSystem) -> None:
    held = Holding(system)
    ref = await held.begin()
    with pytest.raises(AskTimeout):
        await asyncio.create_task(ref.ask("late", timeout=0.0))
    with pytest.raises(AskTimeout):
        await ref.ask("late", timeout=0.0).future()
    await held.end()


@pytest.mark.parametrize("thread", ["its own", "another"])
@pytest.mark.config(supervision=Supervision(max_restarts=None, backoff=None))
async def test_an_ask_that_was_awaited_makes_no_noise(system: ActorSystem, thread: str) -> None:
    """`play` fails when asyncio complains of something."""

    async def use(ref: ActorRef[Any, Any]) -> None:
        asked = ref.ask("fail", timeout=None)
        done, _ = await asyncio.wait([asked.future()])
        assert len(done) == 1
        with pytest.raises(ValueError, match="on purpose"):
            await asked
        outcomes = await asyncio.gather(ref.ask("fail"), ref.ask(1), return_exceptions=True)
        assert [type(one) for one in outcomes] == [ValueError, int]
        asked = ref.ask(1)
        del asked, done
        gc.collect()

    ref = system.spawn(Doubler)
    if thread == "its own":
        await use(ref)
    else:
        await asyncio.to_thread(asyncio.run, use(ref))


def test_it_is_a_coroutine_to_asyncio_and_a_mistake_to_wait() -> None:
    async def main() -> None:
        async with ActorSystem() as system:
            asked = system.spawn(Doubler).ask(1)
            assert isinstance(asked, Coroutine)
            assert asyncio.iscoroutine(asked)
            assert inspect.isawaitable(asked)
            with pytest.raises(TypeError, match="use tasks explicitly"):
                await asyncio.wait([asked])  # type: ignore[type-var]
            assert "Asked" in repr(asyncio.create_task(asked).get_coro())
            assert await asked == 2

    asyncio.run(main(), debug=True)


def test_a_handler_that_returns_an_ask_is_told_to_await_it(play: Play) -> None:
    async def program(system: ActorSystem) -> None:
        ref = system.spawn(Doubler)
        with pytest.raises(NotAwaited, match="await"):
            await system.spawn(lambda ctx, message: ref.ask(1)).ask("go", timeout=None)
        await system.settle()

    if not play.is_elsewhere:
        play(program)


def test_a_thread_without_asyncio_hands_a_task_to_one_with() -> None:
    with ActorSystem() as system:
        ref = system.spawn(Doubler)
        runs, aio = threading.Event(), asyncio.new_event_loop()

        def run() -> None:
            aio.call_soon(runs.set)
            aio.run_forever()
            aio.close()

        thread = threading.Thread(target=run)
        thread.start()
        assert runs.wait(DEADLINE)
        assert asyncio.run_coroutine_threadsafe(asked_of(ref, 3), aio).result(DEADLINE) == 6
        aio.call_soon_threadsafe(aio.stop)
        thread.join(DEADLINE)
