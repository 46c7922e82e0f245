"""Families in which anybody may fail, be restarted or ended at any moment: nobody is stranded, nothing is lost."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from greenroom import ActorSystem, Backoff, Directive, ManualClock, OnRestart, Scope, State, Supervision, SystemConfig
from greenroom.errors import InternalError
from greenroom.testing import assert_ledger_balanced
from tests.conformance.incarnations import AsyncPhoenix, Book, Phoenix, Ref, assert_legal
from tests.conformance.lives import assert_is_a_life

HOOKS = ["init", "pre_start", "post_start", "pre_restart", "snapshot", "post_stop", "restore", "post_restart"]

WHAT = ["tell", "ask", "raise", "raise", "raise", "fail", "restart", "stop", "kill", "spawn"]


class Chance:
    """A random family, and random things that befall it."""

    def __init__(self, seed: int, escalates: bool) -> None:
        self.random = Random(seed)
        self.directives = [Directive.RESTART] * 4 + [Directive.RESUME, Directive.STOP]
        if escalates:
            self.directives.append(Directive.ESCALATE)
        self.refs: list[Ref] = []
        self.peace = False

    def supervision(self) -> Supervision:
        chance = self.random
        strategy: Any = chance.choice([chance.choice(self.directives), lambda _: chance.choice(self.directives)])
        return Supervision(
            strategy=strategy,
            scope=chance.choice([Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE]),
            max_restarts=chance.choice([None, None, 3]),
            on_limit=chance.choice([Directive.STOP, self.directives[-1]])
            if Directive.ESCALATE in self.directives
            else Directive.STOP,
            backoff=chance.choice([None, Backoff(min=0.5, max=4.0, jitter=0.5)]),
            mailbox=chance.choice(list(OnRestart)),
        )

    def book(self) -> Book:
        book = Book()
        for hook in HOOKS:
            book.acts[hook] = self.stumble
        return book

    def stumble(self, _: object) -> None:
        if not self.peace and self.random.random() < 0.08:
            raise LookupError("in a hook")

    def befall(self, system: ActorSystem) -> None:
        ref = self.random.choice(self.refs)
        what = self.random.choice(
            ["tell", "raise", "raise", "raise", "fail", "restart", "stop", "kill", "spawn", "ask"]
        )
        if what == "tell":
            ref.tell("hello")
        elif what == "ask":
            asyncio.ensure_future(ref.ask("hello", timeout=1.0)).add_done_callback(asyncio.Future.exception)
        elif what == "raise":
            ref.tell(ValueError("on purpose"))
        elif what == "fail":
            ref.fail(ValueError("from outside"))
        elif what == "spawn":
            self.spawn(system)
        elif what == "restart" or self.random.random() < 0.3:
            getattr(ref, what)()

    def spawn(self, system: ActorSystem) -> None:
        living: list[Any] = [ref for ref in self.refs if ref.state is State.RUNNING and ref.path.count("/") < 4]
        parent = self.random.choice([None, *living])
        kind = self.random.choice([Phoenix, AsyncPhoenix])
        self.refs.append(system.spawn(kind, self.book(), parent=parent, supervision=self.supervision()))


@pytest.mark.parametrize("escalates", [False, True], ids=["kept below", "escalated"])
@pytest.mark.parametrize("budget", [1, 3, 1024])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_befalls_a_family_everybody_runs_or_has_ended(
    seed: int, budget: int, escalates: bool, caplog: pytest.LogCaptureFixture
) -> None:  # M1, M3, M6, M7, B4
    chance = Chance(seed, escalates)
    clock = ManualClock()

    async def program(system: ActorSystem) -> None:
        for _ in range(6):
            chance.spawn(system)
        for _ in range(120):
            chance.befall(system)
            for _ in range(chance.random.randrange(4)):
                await asyncio.sleep(0)
            if chance.random.random() < 0.2:
                await clock.advance(chance.random.choice([0.0, 0.25, 1.0]))
            if system.phase != "running":
                return  # a failure has reached the top
        chance.peace = True
        await clock.advance(60.0)
        if system.phase == "running":
            await system.settle(timeout=120.0)
            stranded = [
                (str(ref), ref.history) for ref in chance.refs if ref.is_alive and ref.state is not State.RUNNING
            ]
            assert stranded == []
            for ref in chance.refs:
                assert_ledger_balanced(system, ref)
                assert_legal(ref.history, killed=True)
                if ref.is_alive:
                    assert await ref.ask("there") == "there"

    async def main() -> None:
        config = SystemConfig(clock=clock, history=True, max_actors_per_tick=budget, max_tick_time=10.0, seed=seed)
        system = ActorSystem("random", config=config)
        await system.start()
        try:
            async with asyncio.timeout(120):
                await program(system)
        finally:
            await system.shutdown(timeout=120.0, drain=False)
        ledger = assert_ledger_balanced(system)
        assert ledger.queued == ledger.in_hand == 0
        assert system.report is not None
        assert system.report.forced == ()
        assert system.report.started == system.report.terminated

    asyncio.run(main())
    for ref in chance.refs:
        assert_is_a_life(ref.history, killed=True)
    assert not any("InternalError" in (record.exc_text or "") for record in caplog.records)
    assert not any(record.exc_info and isinstance(record.exc_info[1], InternalError) for record in caplog.records)
