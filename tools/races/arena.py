"""What the racing threads share: a system, its actors, and what they count."""

from __future__ import annotations

import random
import threading
from collections import Counter

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    Directive,
    Down,
    Exit,
    MailboxConfig,
    Overflow,
    Supervision,
    SystemConfig,
    Terminated,
    handles,
)

__all__ = ["Arena", "Guest", "Poison", "new_class"]

PLACES = 64
"""Actors that are known to all threads; who finds one dead puts another in its place."""
SUPERVISION = Supervision(Directive.RESTART, max_restarts=1_000_000, within=1.0)
MAILBOXES = (
    MailboxConfig(),
    MailboxConfig(capacity=8),
    MailboxConfig(capacity=4, overflow=Overflow.DROP_OLD),
    MailboxConfig(capacity=4, overflow=Overflow.DROP_NEW),
    MailboxConfig(capacity=16, priority=repr),
)


class Poison(Exception):
    """What actors fail with here."""


class Guest(Actor[object, object]):
    """Does what its messages say."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.held: list[object] = []

    def receive(self, message: object) -> object:
        match message:
            case int():
                return message + 1
            case ("hop", ActorRef() as other, int(left)):
                if left > 0:
                    other.tell(("hop", self.arena.some(), left - 1))
            case ("fail",):
                raise Poison("as it was told to")
            case ("spawn",):
                self.ctx.spawn(self.arena.newest, self.arena)
            case ("stop",):
                self.ctx.stop()
            case ("watch", ActorRef() as other) if other != self.ctx.self:
                self.ctx.watch(other, ("gone",))
            case ("unwatch", ActorRef() as other):
                self.ctx.unwatch(other)
            case ("link", ActorRef() as other) if other != self.ctx.self:
                self.ctx.trap_exit = True
                self.ctx.link(other)
            case ("unlink", ActorRef() as other) if other != self.ctx.self:
                self.ctx.unlink(other)
            case ("monitor", ActorRef() as other) if other != self.ctx.self:
                self.held.append(self.ctx.monitor(other))
            case ("demonitor",) if self.held:
                self.ctx.demonitor(self.held.pop())  # type: ignore[arg-type]
            case ("timer", ActorRef() as other):
                self.ctx.send_after(0.001, other, 1)
            case ("stash",):
                self.ctx.stash()
            case ("unstash",):
                self.ctx.unstash_all()
            case ("become",):
                self.ctx.become(self.as_other, push=True)
            case Terminated() | Down() | Exit() | ("gone",):
                self.arena.noticed += 1
        return None

    def as_other(self, message: object) -> object:
        """After a `become`: the next message is the last of it."""
        self.ctx.unbecome()
        return message if isinstance(message, int) else None

    def inspect(self, *items: str) -> dict[str, object]:
        return {"held": len(self.held)}


class AsyncGuest(Guest):
    """The same, in coroutines that ask others."""

    async def receive(self, message: object) -> object:
        match message:
            case ("ask", ActorRef() as other) if other != self.ctx.self:
                try:
                    return await other.ask(1, timeout=0.05)
                except Exception as exc:
                    return type(exc).__name__
        return super().receive(message)


def new_class() -> type[Guest]:
    """A class that was never spawned, so that several threads examine it at once."""

    class Newcomer(Guest):
        @handles(float)
        def ignore(self, message: float) -> None: ...

    return Newcomer


class Arena:
    """A system under attack."""

    def __init__(self, seed: int, loops: int) -> None:
        self.config = SystemConfig(
            loops=loops, supervision=SUPERVISION, history=True, slow_after=0.0001, stop_timeout=1.0, stuck_after=0.05
        )
        self.system = ActorSystem(f"races-{seed}", config=self.config)
        self.loops = loops
        self.places: list[ActorRef] = []
        self.newest = new_class()
        self.noticed = 0
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.faults: list[str] = []
        self.over = threading.Event()

    def fill(self) -> None:
        """Bring up the first actors."""
        dice = random.Random(1)
        self.places = [self.spawn(dice) for _ in range(PLACES)]

    def spawn(self, dice: random.Random) -> ActorRef:
        """One more actor, of any kind, anywhere."""
        elsewhere = dice.choice(["parallel", "pinned"]) if dice.random() < 0.05 else None
        dispatcher = elsewhere or ("spread" if self.loops > 1 else None)
        kind = dice.choice([self.newest, AsyncGuest]) if elsewhere is None else Guest
        return self.system.spawn(kind, self, mailbox=dice.choice(MAILBOXES), dispatcher=dispatcher)

    def some(self) -> ActorRef:
        """Any of the actors."""
        return random.choice(self.places)
