"""The public operations that are raced, each a function of the arena and a dice."""

from __future__ import annotations

import asyncio
import pickle
import random
from collections.abc import Callable

from greenroom import Lane
from tools.races.arena import PLACES, Arena, Poison, new_class

__all__ = ["OPERATIONS", "Operation"]

Operation = Callable[[Arena, random.Random], object]

ORDERS = ("fail", "spawn", "stop", "stash", "unstash", "become", "demonitor")
ABOUT_OTHERS = ("watch", "unwatch", "link", "unlink", "monitor", "timer", "ask")


def tell(arena: Arena, dice: random.Random) -> None:
    ref = arena.some()
    for number in range(dice.randrange(1, 50)):
        ref.tell(number)


def tell_by_operator(arena: Arena, dice: random.Random) -> None:
    arena.some() << 1 << 2


def tell_in_lanes(arena: Arena, dice: random.Random) -> None:
    arena.some().tell(dice.randrange(10), lane=dice.choice(list(Lane)), sender=arena.some())


def hop(arena: Arena, dice: random.Random) -> None:
    arena.some().tell(("hop", arena.some(), 20))


def command(arena: Arena, dice: random.Random) -> None:
    arena.some().tell((dice.choice(ORDERS),))


def relate(arena: Arena, dice: random.Random) -> None:
    arena.some().tell((dice.choice(ABOUT_OTHERS), arena.some()))


def ask_sync(arena: Arena, dice: random.Random) -> None:
    arena.some().ask_sync(1, timeout=0.05, wait_for_room=dice.random() < 0.3)


def ask_from_a_coroutine(arena: Arena, dice: random.Random) -> None:
    async def main() -> None:
        asks = [arena.some().ask(number, timeout=0.05) for number in range(5)]
        await asyncio.gather(*asks, return_exceptions=True)
        await arena.some().send(1, timeout=0.05)

    asyncio.run(main())


def send_sync(arena: Arena, dice: random.Random) -> None:
    arena.some().send_sync(1, timeout=0.01)


def look(arena: Arena, dice: random.Random) -> None:
    for _ in range(50):
        ref = arena.some()
        assert ref.state is not None
        assert isinstance(ref.history, tuple)
        assert ref.is_alive in (True, False)


def name(arena: Arena, dice: random.Random) -> None:
    ref, other = arena.some(), arena.some()
    assert str(ref) == ref.path
    assert ref.name in repr(ref)
    assert (ref == other) == (hash(ref) == hash(other))
    assert ref.parent is None


def pickled(arena: Arena, dice: random.Random) -> None:
    ref = arena.some()
    assert pickle.loads(pickle.dumps(ref)) == ref


def end(arena: Arena, dice: random.Random) -> None:
    ref = arena.some()
    match dice.randrange(5):
        case 0:
            ref.stop()
        case 1:
            ref.stop(after_queued=True)
        case 2:
            ref.kill()
        case 3:
            ref.fail(Poison("from outside"))
        case _:
            ref.restart()


def replace(arena: Arena, dice: random.Random) -> None:
    place = dice.randrange(PLACES)
    if not arena.places[place].is_alive:
        arena.places[place] = arena.spawn(dice)


def spawn_newcomers(arena: Arena, dice: random.Random) -> None:
    arena.newest = new_class()
    for _ in range(4):
        arena.some().tell(("spawn",))
    arena.system.spawn(arena.newest, arena).stop()


def wait_for_start(arena: Arena, dice: random.Random) -> None:
    arena.some().started_sync(timeout=0.05)


def wait_for_end(arena: Arena, dice: random.Random) -> None:
    arena.some().terminated_sync(timeout=0.01)


def inspect(arena: Arena, dice: random.Random) -> None:
    assert arena.some().inspect_sync(timeout=0.05) is not None


def account(arena: Arena, dice: random.Random) -> None:
    arena.system.ledger(arena.some())
    arena.system.ledger()


def survey(arena: Arena, dice: random.Random) -> None:
    match dice.randrange(5):
        case 0:
            arena.system.snapshot()
        case 1:
            assert arena.system.tree()
        case 2:
            arena.system.actors()
        case 3:
            arena.system.actor(arena.some().path)
        case _:
            assert repr(arena.system)


class Watcher:
    """An observer that comes and goes."""

    def actor_started(self, ref: object) -> None: ...
    def actor_stopped(self, ref: object, reason: object) -> None: ...
    def dead_letter(self, ref: object, message: object, sender: object, why: str) -> None: ...
    def mailbox_full(self, ref: object, message: object, lane: object) -> None: ...
    def slow_handler(self, ref: object, message: object, seconds: float) -> None: ...


def observe(arena: Arena, dice: random.Random) -> None:
    watcher = Watcher()
    arena.system.observers.add(watcher)
    arena.some().tell(1)
    arena.system.observers.remove(watcher)


def read_dead_letters(arena: Arena, dice: random.Random) -> None:
    letters = arena.system.dead_letters
    seen: list[object] = []
    cancel = letters.subscribe(seen.append)
    arena.some().tell(1)
    letters.recent()
    assert letters.count >= 0
    cancel()


def roll(arena: Arena, dice: random.Random) -> None:
    assert 0.0 <= arena.system.random.random() < 1.0
    assert arena.system.phase


OPERATIONS: dict[str, tuple[int, Operation]] = {
    "tell": (20, tell),
    "tell by operator": (10, tell_by_operator),
    "tell in lanes": (10, tell_in_lanes),
    "hop": (10, hop),
    "command": (10, command),
    "relate": (10, relate),
    "ask_sync": (5, ask_sync),
    "ask": (2, ask_from_a_coroutine),
    "send_sync": (5, send_sync),
    "look": (20, look),
    "name": (10, name),
    "pickle": (5, pickled),
    "end": (6, end),
    "replace": (30, replace),
    "newcomers": (1, spawn_newcomers),
    "started_sync": (3, wait_for_start),
    "terminated_sync": (3, wait_for_end),
    "inspect_sync": (3, inspect),
    "ledger": (2, account),
    "survey": (3, survey),
    "observe": (3, observe),
    "dead letters": (3, read_dead_letters),
    "random": (3, roll),
}
"""By name: how often it is chosen, and what it does."""
