"""Signals: values that say what happens in actors' lives."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

import greenroom
from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ChildTerminated,
    ExitKind,
    PostRestart,
    PostStart,
    PostStop,
    PreRestart,
    PreStart,
    PreStop,
    ReceiveTimeout,
    Signal,
    Terminated,
)

PLAIN: list[type[Any]] = [PreStart, PostStart, PreStop, PostStop, PostRestart]
ALL = [*PLAIN, PreRestart, Terminated, ChildTerminated]


@pytest.mark.parametrize("signal", PLAIN)
def test_a_plain_signal_is_a_value(signal: type[Any]) -> None:
    assert signal() == signal()
    assert hash(signal()) == hash(signal())
    assert repr(signal()) == f"{signal.__name__}()"
    assert pickle.loads(pickle.dumps(signal())) == signal()


def test_signals_of_different_kinds_differ() -> None:
    assert len({signal() for signal in PLAIN}) == len(PLAIN)


@pytest.mark.parametrize("signal", ALL)
def test_every_signal_is_a_signal_public_and_frozen(signal: type[Any]) -> None:
    assert issubclass(signal, Signal)
    assert getattr(greenroom, signal.__name__) is signal
    made = signal(*[None for _ in signal.__slots__])
    for name in signal.__slots__:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, 1)
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        made.anything = 1  # pyright: ignore


class Target(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        raise message


async def test_a_signal_sent_by_hand_is_a_message_like_any_other(system: ActorSystem) -> None:
    """Nobody can make an actor believe that another has ended: what is told goes to `receive`."""

    class Watcher(Actor[Any, Any]):
        def receive(self, message: Any) -> str:
            return f"message {type(message).__name__}"

        def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
            raise AssertionError("nobody ended")

        def post_stop(self) -> None:
            stopped.append(True)

    stopped: list[bool] = []
    watcher, target = system.spawn(Watcher), system.spawn(Target)
    forged = Terminated(target, None, greenroom.ExitReason(ExitKind.NORMAL))
    assert await watcher.ask(forged) == "message Terminated"
    assert await watcher.ask(PostStop()) == "message PostStop"
    assert await watcher.ask(ReceiveTimeout()) == "message ReceiveTimeout"
    assert stopped == []
    assert system.ledger(watcher).handled == 3
