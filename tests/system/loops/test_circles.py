"""Asks across loops that look like a circle and are none: whoever asks back owes no answer any more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from greenroom import ActorRef, ActorSystem, Context, Reply
from greenroom.actor.failure.askcycles import Probe
from tests.conformance.askers import until
from tests.conftest import Play
from tests.gates import turns

PATIENCE = 120.0


@pytest.mark.parametrize("way", ["defers", "forwards"])
def test_a_probe_finds_no_circle_if_the_actor_asked_left_the_answer_to_another_before_it_came(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:  # case 25
    asks_back = threading.Event()
    begun: list[Any] = []
    go_to = Probe._go_to

    def go_late(probe: Probe, cell: Any) -> None:
        begun.append(cell)
        if len(begun) == 1:
            assert asks_back.wait(PATIENCE)  # so the probe comes to one that waits already
        go_to(probe, cell)

    monkeypatch.setattr(Probe, "_go_to", go_late)

    async def program(system: ActorSystem) -> None:
        kept: list[Reply] = []
        heard: list[Any] = []

        def keep(ctx: Context, _: Any) -> None:
            kept.append(ctx.defer_reply())

        async def ask(ctx: Context, other: ActorRef[Any, Any] | None) -> Any:
            return "here" if other is None else await other.ask(ctx.self, timeout=None)

        async def ask_back(ctx: Context, asker: ActorRef[Any, Any]) -> None:
            if way == "forwards":
                ctx.forward(keeper)
            else:
                keep(ctx, None)
            asks_back.set()
            heard.append(await asker.ask(None, timeout=None))

        keeper: ActorRef[Any, Any] = system.spawn(keep)
        one: ActorRef[Any, Any] = system.spawn(ask)
        two: ActorRef[Any, Any] = system.spawn(ask_back)
        asking = one.ask(two, timeout=None)
        await until(lambda: len(begun) >= 2 and kept)
        await turns()  # for the probes, which show nowhere
        kept[0].send("by another")
        assert await asking == "by another"
        await system.settle()
        assert heard == ["here"]

    Play("spread")(program)
