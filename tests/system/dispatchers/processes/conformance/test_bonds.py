"""Watches, monitors and links, with actors in worker processes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from greenroom import (
    ActorTerminated,
    DeathPact,
    Down,
    Exit,
    ExitKind,
    LinkBroken,
    Supervision,
)
from tests.system.dispatchers.processes.cast import (
    AsyncPuppet,
    Bag,
    Lively,
    Pact,
    Puppet,
    Try,
    Watcher,
    all_of,
    call,
    do,
)
from tests.system.dispatchers.processes.conformance.stage import AT_ONCE, BAD, STOPS, Ear, Gate, away, held, stage


async def test_a_watch_is_told_once_and_at_once_of_one_that_is_dead() -> None:  # cases 13, 14, M8
    async with stage() as system:
        heard: list[Any] = []
        watcher = away(system, Watcher, system.spawn(Ear, heard))
        for place in (None, "process"):
            other = system.spawn(Puppet, dispatcher=place, supervision=STOPS)
            for _ in range(2):
                await watcher.ask(do("watch", other))
            other.tell(BAD)
            await other.terminated()
            await system.settle()
            assert heard == [("terminated", other, repr(BAD))]
            await watcher.ask(all_of(do("watch", other), do("watch", other)))
            await system.settle()
            assert heard == [("terminated", other, repr(BAD))] * 2
            await watcher.ask(do("watch", other, "a message of mine"))
            await system.settle()
            assert heard.pop() == "a message of mine"
            heard.clear()


async def test_two_monitors_are_told_twice_and_one_that_was_given_up_is_not() -> None:  # cases 13, 15, E11
    async with stage() as system:
        heard: list[Any] = []
        ref, other = away(system, Puppet, system.spawn(Ear, heard)), away(system, Puppet, supervision=STOPS)
        one, two, three = [await ref.ask(do("monitor", other)) for _ in range(3)]
        assert len({one, two, three}) == 3
        assert await ref.ask(do("demonitor", three)) is True
        other.tell(BAD)
        reason = await other.terminated()
        await system.settle()
        assert [(type(down), down.mref, down.ref, down.reason.kind) for down in heard] == [
            (Down, mref, other, ExitKind.FAIL) for mref in (one, two)
        ]
        assert repr(heard[0].reason.cause) == repr(reason.cause) == repr(BAD)
        late = await ref.ask(do("monitor", other))
        await system.settle()
        assert heard[2].mref == late


async def test_what_is_taken_back_is_not_delivered_though_it_is_queued() -> None:  # cases 16, 21
    async with stage() as system:
        for bond in ("watch", "watch with", "monitor", "link"):
            ref, gate, heard = await held(system)
            other = away(system, Puppet, supervision=STOPS)
            gate.open()
            await ref.ask(do("set", "trap_exit", True))
            word = ["a message"] if bond == "watch with" else []
            made = await ref.ask(do(bond.partition(" ")[0], other, *word))
            again = Gate(system)
            taking_back = {"monitor": do("demonitor", made), "link": do("unlink", other)}
            ref.tell(all_of(again.hold, taking_back.get(bond, do("unwatch", other))))
            await again.entered.wait()
            ref.tell("before")
            other.tell(BAD)
            await other.terminated()
            ref.tell("behind")
            again.open()
            await system.settle()
            assert heard == ["before", "behind"], bond


async def test_a_restart_tells_no_watcher_and_an_end_tells_all() -> None:  # case 17
    async with stage() as system:
        heard: list[Any] = []
        watcher = away(system, Watcher, system.spawn(Ear, heard))
        other = away(system, Puppet, supervision=Supervision(max_restarts=2, backoff=None))
        await watcher.ask(do("set", "trap_exit", True))
        for bond in ("watch", "monitor", "link"):
            await watcher.ask(do(bond, other))
        for _ in range(2):
            other.tell(BAD)
        other.restart()
        assert await other.ask("alive") == "alive"
        await system.settle()
        assert heard == []
        other.tell(BAD)
        await other.terminated()
        await system.settle()
        assert Counter(type(one).__name__ for one in heard) == {"tuple": 1, "Down": 1, "Exit": 1}


async def test_the_watches_of_an_actor_outlive_its_restart_and_its_monitors_do_not() -> None:  # case 17, M6, 014
    async with stage() as system:
        heard: list[Any] = []
        other = away(system, Puppet)
        watcher = away(system, Watcher, system.spawn(Ear, heard), supervision=AT_ONCE)
        await watcher.ask(do("watch", other))
        await watcher.ask(do("monitor", other))
        watcher.tell(BAD)
        assert await watcher.ask("again") == "again"
        other.stop()
        await other.terminated()
        await system.settle()
        assert heard == ["again", ("terminated", other, "None")]


async def test_a_stale_ref_never_reaches_the_new_actor() -> None:  # case 18, J14
    async with stage(max_actors=2) as system:
        sender = away(system, AsyncPuppet)
        old = away(system, Bag)
        await old.ask("seen")
        old.stop()
        await old.terminated()
        new = away(system, Bag)
        await new.started()
        old.tell(1)
        await sender.ask(call(old, "tell", 2))
        await sender.ask(call(old, "send", 3))
        for asked in (old.ask(4), sender.ask(Try(call(old, "ask", 5)))):
            try:
                outcome = await asked
            except ActorTerminated as exc:
                outcome = exc
            assert isinstance(outcome, ActorTerminated)
        for order in ("stop", "kill", "restart"):
            await sender.ask(call(old, order))
        await system.settle()
        assert await new.ask("seen") == []
        letters = system.dead_letters.recent()
        assert sorted(letter.message for letter in letters) == [1, 2, 3, 4, 5]
        assert {letter.recipient for letter in letters} == {old}


async def test_a_linked_peers_normal_end_is_nothing_and_its_failure_is_mine() -> None:  # case 19, E11
    async with stage() as system:
        for side in ("mine", "theirs"):
            me = away(system, Puppet, supervision=STOPS)
            for end in ("stop", "fail"):
                other = away(system, Puppet, supervision=STOPS)
                await (me if side == "mine" else other).ask(do("link", other if side == "mine" else me))
                getattr(other, end)(*([BAD] if end == "fail" else []))
                await other.terminated()
                if end == "stop":
                    assert await me.ask("I live") == "I live"
            reason = await me.terminated()
            assert (reason.kind, repr(reason.cause)) == (ExitKind.FAIL, repr(BAD))


async def test_an_actor_that_traps_exits_is_told_of_every_end_but_its_own_kill() -> None:  # cases 19, 20
    async with stage() as system:
        heard: list[Any] = []
        me = away(system, Puppet, system.spawn(Ear, heard), supervision=STOPS)
        await me.ask(do("set", "trap_exit", True))
        kinds = {"stop": ExitKind.NORMAL, "kill": ExitKind.KILLED, "fail": ExitKind.FAIL}
        for end, kind in kinds.items():
            other = away(system, Puppet, supervision=STOPS)
            await me.ask(do("link", other))
            getattr(other, end)(*([BAD] if end == "fail" else []))
            await other.terminated()
            await system.settle()
            told = heard.pop()
            assert (type(told), told.ref, told.reason.kind) == (Exit, other, kind)
            assert heard == []
        peer = away(system, Puppet, supervision=STOPS)
        await me.ask(do("link", peer))
        me.kill()
        assert (await me.terminated()).kind is ExitKind.KILLED
        reason = await peer.terminated()
        assert isinstance(reason.cause, LinkBroken)
        assert heard == []


async def test_after_unlink_nothing_comes_of_the_others_end() -> None:  # case 21
    async with stage() as system:
        me, other = away(system, Puppet, supervision=STOPS), away(system, Puppet, supervision=STOPS)
        await me.ask(do("link", other))
        await me.ask(do("unlink", other))
        other.tell(BAD)
        await other.terminated()
        await system.settle()
        assert await me.ask("I live") == "I live"


async def test_the_links_and_watches_of_an_actor_whose_start_failed_are_honoured() -> None:  # case 22
    async with stage() as system:
        heard: list[Any] = []
        witness = system.spawn(Ear, heard)
        peer = away(system, Puppet, supervision=STOPS)
        watcher = away(system, Watcher, witness)
        acts = {"pre_start": all_of(do("link", peer), BAD)}
        ref = away(system, Lively, witness, "x", acts, supervision=STOPS)
        await watcher.ask(do("watch", ref))
        with pytest.raises(ValueError, match="on purpose"):
            await ref.started()
        reason = await peer.terminated()
        assert repr(reason.cause) == repr(BAD)
        await system.settle()
        assert ("terminated", ref, repr(BAD)) in heard


async def test_an_end_that_nobody_hears_is_a_death_pact() -> None:  # M8
    async with stage() as system:
        other = away(system, Puppet)
        pact = away(system, Pact, other, supervision=STOPS)
        await pact.started()
        asked = pact.ask(do("self.name"))
        assert await asked == pact.name
        await pact.ask(do("unwatch", other))
        other.stop()
        await other.terminated()
        assert await pact.ask("alive") == "alive"
        await pact.ask(do("watch", other))
        reason = await pact.terminated()
        assert reason.kind is ExitKind.FAIL
        assert isinstance(reason.cause, DeathPact)
