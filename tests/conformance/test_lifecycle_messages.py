"""What may be handled in which part of an actor's life, and what its name is then (M2; cases 54, 55, 60)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from greenroom import Actor, ActorRef, ActorSystem, ActorTerminated, Context, ExitKind, Lane, MailboxConfig
from greenroom.errors import NameTaken
from tests.conformance.lives import STARTING, STOPPING, HookedAsync, Plain, PlainAsync, every_hooked, every_kind
from tests.gates import Event, Gate, standstill, turns

if TYPE_CHECKING:
    from tests.conftest import Play


@every_hooked
async def test_no_message_is_handled_before_the_actor_has_started(system: ActorSystem, kind: Any) -> None:  # case 54
    log: list[str] = []

    def send_to_itself(ctx: Context) -> None:
        ctx.self.tell("from itself")
        ctx.send_after(0.0, ctx.self, "from a timer")
        ctx.pipe_to_self(asyncio.sleep(0, "from a pipe"))

    ref = system.spawn(kind, log, pre_start=send_to_itself)
    ref.tell("urgent", lane=Lane.CONTROL)
    asked = ref.ask("asked")
    ref.tell("logged", lane=Lane.LOG)
    assert await asked == "asked"
    await system.settle()
    await system.shutdown()
    assert log[:3] == ["pre_start", "post_start", "receive urgent"]
    rest = ["receive asked", "receive from itself", "receive from a pipe", "receive from a timer", "receive logged"]
    assert sorted(log[3:-2]) == sorted(rest)


async def test_messages_wait_as_long_as_pre_start_takes(system: ActorSystem) -> None:  # case 54
    gate = Gate()
    log: list[str] = []
    child = system.spawn(Plain)

    def watch_and_wait(ctx: Context) -> Gate:
        ctx.watch(child, "the notice")
        return gate

    ref = system.spawn(HookedAsync, log, pre_start=watch_and_wait)
    started = asyncio.ensure_future(ref.started())
    ref.tell(1)
    ref.tell(2, lane=Lane.CONTROL)
    child.stop()
    await child.terminated()
    await turns(5)
    assert log == ["pre_start"]
    assert ref.state is STARTING
    assert not started.done()
    gate.set_result(None)
    await started
    await system.settle()
    assert log == ["pre_start", "post_start", "receive 2", "receive 1", "receive the notice"]


@every_hooked
async def test_an_order_overtakes_every_message_that_is_queued(system: ActorSystem, kind: Any) -> None:  # M2
    log: list[str] = []
    ref = system.spawn(kind, log)
    await ref.started()
    for number in range(5):
        ref.tell(number, lane=Lane.CONTROL if number == 0 else Lane.DATA)
    ref.stop()
    await ref.terminated()
    assert system.ledger(ref).dead_lettered == 5
    await system.shutdown()
    assert log == ["pre_start", "post_start", "pre_stop", "post_stop"]


@every_kind
@pytest.mark.parametrize("budget", [1, 64])
@pytest.mark.parametrize("order", ["stop", "kill", "fail"])
def test_orders_are_looked_for_between_every_two_messages(play: Play, kind: Any, budget: int, order: str) -> None:  # M2
    if play.backend == "pinned" and order == "kill" and kind in (PlainAsync, HookedAsync):
        pytest.skip("there a coroutine that kills itself has suspended already, and is cancelled")
    handled: list[int] = []

    def on(number: int) -> Callable[[Context], None]:
        def act(ctx: Context) -> None:
            handled.append(number)
            if number == 3:
                ctx.self.fail(ValueError("on purpose")) if order == "fail" else getattr(ctx.self, order)()

        return act

    async def program(system: ActorSystem) -> None:
        ref = system.spawn(kind)
        for number in range(10):
            ref.tell(on(number))
        await ref.terminated()
        ledger = system.ledger(ref)
        assert (ledger.handled, ledger.failed, ledger.dead_lettered) == (4, 0, 6)

    play(program, max_msgs_per_actor=budget)
    assert handled == [0, 1, 2, 3]


async def test_orders_are_accepted_however_full_the_mailbox_is(system: ActorSystem) -> None:  # case 11, M2
    refs = [system.spawn(Plain, mailbox=MailboxConfig(capacity=1)) for _ in range(4)]
    with standstill(system):
        for ref in refs:
            ref.tell("the only one")
        refs[0].stop()
        refs[1].kill()
        refs[2].fail(ValueError("on purpose"))
        refs[3].stop(after_queued=True)
    kinds = [(await ref.terminated()).kind for ref in refs]
    assert kinds == [ExitKind.NORMAL, ExitKind.KILLED, ExitKind.FAIL, ExitKind.NORMAL]
    assert [system.ledger(ref).handled for ref in refs] == [0, 0, 0, 1]


@pytest.mark.parametrize("end", ["stop", "fail"])
async def test_what_is_sent_to_a_stopping_actor_is_a_dead_letter(system: ActorSystem, end: str) -> None:  # case 55
    gate = Gate()
    reached = Event()

    def wait(_: Context) -> Gate:
        reached.set()
        return gate

    ref = system.spawn(HookedAsync, None, **{"pre_stop" if end == "stop" else "post_stop": wait})
    await ref.started()
    ref.stop() if end == "stop" else ref.fail(ValueError("on purpose"))
    await reached.wait()
    assert ref.state is STOPPING
    ref.tell("told")
    await ref.send("sent")
    asked = ref.ask("asked", timeout=None)
    with pytest.raises(ActorTerminated):  # at once: it is still there
        await asked
    assert ref.is_alive
    assert [letter.message for letter in system.dead_letters.recent()] == ["told", "sent", "asked"]
    assert {letter.recipient for letter in system.dead_letters.recent()} == {ref}
    gate.set_result(None)
    await ref.terminated()
    assert system.ledger(ref).dead_lettered == 3


async def test_a_name_is_taken_until_its_actor_has_ended(system: ActorSystem) -> None:  # case 60
    gate = Gate()
    ref = system.spawn(HookedAsync, None, name="one", pre_stop=lambda _: gate)
    with pytest.raises(NameTaken) as caught:
        system.spawn(Plain, name="one")
    assert caught.value.path == "/one"
    await ref.started()
    ref.stop()
    await asyncio.sleep(0)
    with pytest.raises(NameTaken):
        system.spawn(Plain, name="one")
    assert system.actor("one") == ref
    gate.set_result(None)
    await ref.terminated()
    again = system.spawn(Plain, name="one")
    assert again != ref
    assert system.actor("one") == again
    assert len(system.actors()) == 1


@pytest.mark.parametrize("end", ["stop", "kill", "fail"])
@every_hooked
async def test_a_name_is_free_before_the_watchers_are_told(system: ActorSystem, kind: Any, end: str) -> None:  # case 60
    class Watcher(Actor[Any, Any]):
        def pre_start(self) -> None:
            self.watched = self.ctx.spawn(kind, name="child")
            self.ctx.watch(self.watched)

        def receive(self, message: Any) -> Any:
            self.watched.fail(ValueError("on purpose")) if end == "fail" else getattr(self.watched, end)()
            self.asked = self.ctx.defer_reply()

        def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            looked_up = self.ctx.system.actor("/watcher/child")
            self.asked.send((looked_up, self.ctx.children, self.ctx.spawn(kind, name="child").path))

    watcher = system.spawn(Watcher, name="watcher")
    assert await watcher.ask("go") == (None, [], "/watcher/child")


@pytest.mark.real
async def test_of_many_threads_that_want_a_name_one_gets_it(system: ActorSystem) -> None:  # case 60
    barrier = threading.Barrier(5)
    got: list[ActorRef[Any, Any]] = []
    refused: list[NameTaken] = []

    def claim() -> None:
        barrier.wait(120.0)
        try:
            got.append(system.spawn(Plain, name="one"))
        except NameTaken as exc:
            refused.append(exc)

    threads = [asyncio.create_task(asyncio.to_thread(claim)) for _ in range(4)]
    await asyncio.to_thread(barrier.wait, 15.0)
    await asyncio.gather(*threads)
    assert (len(got), len(refused)) == (1, 3)
    assert system.actors() == got
