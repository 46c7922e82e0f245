"""Drain strategies: what becomes of messages that are queued when an actor stops (M10)."""

from __future__ import annotations

from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Drain
from greenroom.errors import ConfigError
from greenroom.testing import assert_ledger_balanced


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
