"""Drain strategies: what becomes of messages that are queued when an actor stops (M10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ActorTerminated, Context, Drain, MailboxConfig
from greenroom.errors import ConfigError, MessageDropped
from greenroom.testing import TestProbe, assert_ledger_balanced


class Idle(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return f"idle {message}"


async def test_the_strategies_show_themselves(system: ActorSystem) -> None:
    ref = system.spawn(Idle, name="next")
    assert repr(Drain.DROP) == "Drain.DROP"
    assert repr(Drain.DEAD_LETTER) == "Drain.DEAD_LETTER"
    assert repr(Drain.REDIRECT(ref)) == "Drain.REDIRECT(/next)"


@pytest.mark.parametrize("target", [None, "next", 3, Idle])
def test_a_redirection_needs_a_ref(target: Any) -> None:  # J9
    with pytest.raises(TypeError, match=r"Drain\.REDIRECT\(\) takes the ref"):
        Drain.REDIRECT(target)


@pytest.mark.parametrize("drain", ["DROP", 3, Drain, Drain.REDIRECT])
async def test_spawn_takes_only_strategies(system: ActorSystem, drain: Any) -> None:  # J9
    with pytest.raises(ConfigError) as caught:
        system.spawn(Idle, drain=drain)
    assert (caught.value.code, caught.value.field) == ("config", "drain")
    for word in ("Drain.DROP", "Drain.DEAD_LETTER", "Drain.REDIRECT(ref)"):
        assert word in str(caught.value)
    assert system.actors() == []


@pytest.mark.parametrize("strategy", [None, Drain.DEAD_LETTER])
@pytest.mark.parametrize("ending", ["stop", "kill", "fail"])
async def test_by_default_what_is_queued_is_dead_letters(
    system: ActorSystem, strategy: Drain | None, ending: str
) -> None:
    sender = TestProbe(system)
    ref = system.spawn(Idle, drain=strategy)
    await ref.started()
    asked = ref.ask("asked")
    ref.tell(1, sender=sender.ref)
    ref.tell(2)
    if ending == "fail":
        ref.fail(ValueError("x"))
    else:
        getattr(ref, ending)()
    await ref.terminated()
    with pytest.raises(ActorTerminated):
        await asked
    letters = system.dead_letters.recent()
    assert [(letter.message, letter.sender) for letter in letters] == [
        ("asked", None),
        (1, sender.ref),
        (2, None),
    ]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.dead_lettered) == (3, 3)


async def test_drop_counts_them_as_dropped_and_fails_asks(system: ActorSystem) -> None:
    ref = system.spawn(Idle, drain=Drain.DROP)
    await ref.started()
    asked = ref.ask("asked")
    ref << 1 << 2
    ref.stop()
    await ref.terminated()
    with pytest.raises(MessageDropped) as caught:
        await asked
    assert caught.value.code == "message_dropped"
    assert str(ref) in str(caught.value)
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.dropped, ledger.dead_lettered) == (3, 3, 0)
    assert system.dead_letters.count == 0
    ref.tell("after its end")  # that is no longer the drain's business
    assert system.dead_letters.count == 1


async def test_redirect_hands_them_on_with_their_senders_and_asks(system: ActorSystem) -> None:
    heard: list[Any] = []
    sender = TestProbe(system)

    def successor(ctx: Context, message: Any) -> str:
        heard.append((message, ctx.sender))
        return f"new {message}"

    heir = system.spawn(successor)
    ref = system.spawn(Idle, drain=Drain.REDIRECT(heir))
    await ref.started()
    asked = ref.ask("asked")
    ref.tell(1, sender=sender.ref)
    ref.tell(2)
    ref.stop()
    await ref.terminated()
    assert await asked == "new asked"
    await system.settle()
    assert heard == [("asked", None), (1, sender.ref), (2, None)]
    ledger = assert_ledger_balanced(system, ref)
    assert (ledger.sent, ledger.redirected) == (3, 3)
    assert assert_ledger_balanced(system, heir).handled == 3
    assert system.dead_letters.count == 0


async def test_what_is_redirected_to_a_dead_actor_is_a_dead_letter(system: ActorSystem) -> None:
    heir = system.spawn(Idle)
    ref = system.spawn(Idle, drain=Drain.REDIRECT(heir))
    await ref.started()
    heir.stop()
    await heir.terminated()
    asked = ref.ask("asked")
    ref.tell(1)
    ref.stop()
    await ref.terminated()
    with pytest.raises(ActorTerminated):
        await asked
    assert [letter.message for letter in system.dead_letters.recent()] == ["asked", 1]
    assert_ledger_balanced(system)


async def test_what_is_redirected_to_a_full_mailbox_is_not_lost_in_silence(system: ActorSystem) -> None:
    held, gate = asyncio.Event(), asyncio.Event()

    async def hold(ctx: Context, message: Any) -> None:
        held.set()
        await gate.wait()

    heir = system.spawn(hold, mailbox=MailboxConfig(capacity=1))
    heir.tell("in hand")
    await held.wait()
    heir.tell("queued")
    ref = system.spawn(Idle, drain=Drain.REDIRECT(heir))
    await ref.started()
    asked = ref.ask("asked")
    ref << 1
    ref.stop()
    await ref.terminated()
    gate.set()
    with pytest.raises(Exception, match=r"full|ended|dropped"):
        await asked
    await system.settle()
    assert_ledger_balanced(system)
    assert {letter.message for letter in system.dead_letters.recent()} >= {1}


async def test_two_that_redirect_to_each_other_come_to_an_end(system: ActorSystem) -> None:
    first = system.spawn(Idle, name="first")
    second = system.spawn(Idle, drain=Drain.REDIRECT(first))
    third = system.spawn(Idle, drain=Drain.REDIRECT(second))
    await third.started()
    for ref in (third, second, first):
        ref << 1 << 2
    for ref in (third, second, first):
        ref.stop()
    for ref in (third, second, first):
        await ref.terminated()
    assert system.dead_letters.count == 6
    assert_ledger_balanced(system)


@pytest.mark.parametrize("strategy", [Drain.DROP, Drain.DEAD_LETTER])
async def test_the_stash_is_drained_before_the_mailbox(system: ActorSystem, strategy: Drain) -> None:
    def stashing(ctx: Context, message: Any) -> None:
        ctx.stash()

    ref = system.spawn(stashing, drain=strategy)
    ref << 1 << 2
    await system.settle()
    ref << 3
    ref.stop()
    await ref.terminated()
    ledger = assert_ledger_balanced(system, ref)
    if strategy is Drain.DROP:
        assert (ledger.dropped, system.dead_letters.count) == (3, 0)
    else:
        assert [letter.message for letter in system.dead_letters.recent()] == [1, 2, 3]
