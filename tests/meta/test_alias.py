"""An alias can be used wherever a ref can: told, asked, watched, linked, monitored, kept and sent (E5, E7, E11)."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from greenroom import (
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Alias,
    Down,
    Exit,
    ExitKind,
    ExitReason,
    LinkBroken,
    MailboxConfig,
    MailboxFull,
    Process,
    Terminated,
)
from greenroom.meta import MetaOptions, MetaProcess
from tests.meta.owners import BAD, AsyncDiary, AsyncOwner, Diary, Ended, Held, Quiet, Scene, kinds, noted
from tests.meta.workeractors import AsksIt, Spawns


@kinds
async def test_it_is_told_and_asked_from_anywhere(system: ActorSystem, kind: type[Diary]) -> None:  # E7
    scene, meta = Scene(system, AsyncOwner), kind()
    alias = await scene.spawn(meta)
    alias.tell("outside")
    await scene.do(lambda ctx: alias.tell("inside"))
    await asyncio.to_thread(alias.tell, "a thread")
    await alias.send("patiently")
    alias << "shifted"
    assert await alias.ask(1, timeout=None) == ("answer", 1)
    assert await scene.do(lambda ctx: alias.ask(2, timeout=None)) == ("answer", 2)
    assert await asyncio.to_thread(alias.ask_sync, 3, timeout=None) == ("answer", 3)
    meta.notes.remove("a thread")  # it has another sender: what the loop's own thread sends may overtake it
    assert meta.notes == ["init", "outside", "inside", "patiently", "shifted"]


async def test_it_is_a_ref_with_a_name_a_path_and_a_parent(system: ActorSystem) -> None:  # E7
    scene = Scene(system, name="owner")
    alias = await scene.spawn(Quiet(), MetaOptions(name="line"))
    unnamed = await scene.spawn(Diary())
    assert isinstance(alias, Alias)
    assert isinstance(alias, ActorRef)
    assert (alias.name, alias.path, alias.parent) == ("line", "/owner/line", scene.owner)
    assert unnamed.name.startswith("Diary$")
    assert repr(alias) == "<Alias /owner/line of test>"
    assert type(system.actor("/owner/line")) is Alias
    assert system.actor("/owner/line") == alias
    assert [type(ref) for ref in system.actors()].count(Alias) == 2
    assert "line" in system.tree()
    assert await scene.do(lambda ctx: ctx.metas) == [alias, unnamed]
    assert await scene.do(lambda ctx: ctx.children) == []
    child = await scene.do(lambda ctx: ctx.spawn(lambda _, message: message))
    assert await scene.do(lambda ctx: (ctx.children, ctx.metas)) == ([child], [alias, unnamed])
    assert any(one.path == "/owner/line" for one in system.snapshot().actors)


async def test_it_is_a_dict_key_and_survives_pickling(system: ActorSystem) -> None:  # E7
    scene, meta = Scene(system), Diary()
    alias = await scene.spawn(meta)
    again = pickle.loads(pickle.dumps({"alias": [alias]}))["alias"][0]
    assert type(again) is Alias
    assert again == alias == meta.id
    assert len({again, alias, meta.id}) == 1
    assert {alias: "known"}[again] == "known"
    again.tell("by a copy")
    await system.settle()
    assert meta.notes[-1] == "by a copy"


async def test_it_goes_in_messages_and_what_gets_it_can_use_it(system: ActorSystem) -> None:  # E7
    scene, meta = Scene(system), Diary()
    alias = await scene.spawn(meta)
    other = Scene(system, dispatcher="parallel")
    other.owner.tell({"whom": alias})
    heard = await other.heard()
    assert heard == {"whom": alias}
    await other.do(lambda ctx: heard["whom"].tell("hello"))
    await system.settle()
    assert meta.notes[-1] == "hello"


# -- ends


@kinds
@pytest.mark.parametrize("dead", [False, True])
async def test_it_can_be_watched_and_monitored(system: ActorSystem, kind: type[Diary], dead: bool) -> None:  # E5, E11
    scene, other = Scene(system), Scene(system)
    alias = await scene.spawn(kind())
    reason = ExitReason(ExitKind.FAIL, BAD)
    if dead:
        alias.tell(BAD)
        await alias.terminated()
    mref = await other.do(lambda ctx: ctx.monitor(alias))
    await other.probe.watch(alias)
    if not dead:
        alias.tell(BAD)
    told = [await other.probe.receive(), await other.probe.receive()]
    (down,) = [one.message for one in told if not isinstance(one, Terminated)]
    (terminated,) = [one for one in told if isinstance(one, Terminated)]
    assert isinstance(down, Down)
    assert (down.mref, down.ref, down.reason) == (mref, alias, reason)
    assert (terminated.ref, terminated.cause, terminated.reason) == (alias, BAD, reason)
    assert await alias.terminated() == reason
    assert await asyncio.to_thread(alias.terminated_sync) == reason


@kinds
@pytest.mark.parametrize("killed", [False, True])
async def test_its_failure_breaks_a_link_and_is_trapped(
    system: ActorSystem, kind: type[Diary], killed: bool
) -> None:  # E5, E11
    scene, plain, trapper = Scene(system), Scene(system), Scene(system)
    alias = await scene.spawn(kind())
    await trapper.do(lambda ctx: setattr(ctx, "trap_exit", True))
    for one in (plain, trapper):
        await one.do(lambda ctx: ctx.link(alias))
    if killed:
        alias.kill()
    else:
        alias.tell(BAD)
    reason = await alias.terminated()
    exit_ = (await trapper.probe.receive()).message
    assert isinstance(exit_, Exit)
    assert (exit_.ref, exit_.reason) == (alias, reason)
    broken = (await plain.owner.terminated()).cause
    assert isinstance(broken, LinkBroken) if killed else broken is BAD
    assert scene.owner.is_alive


@kinds
@pytest.mark.parametrize("killed", [False, True])
async def test_the_failure_of_who_is_linked_to_it_ends_it(
    system: ActorSystem, kind: type[Diary], killed: bool
) -> None:  # E5, E11
    scene, other, meta = Scene(system), Scene(system), kind()
    alias = await scene.spawn(meta)
    await other.do(lambda ctx: ctx.link(alias))
    if killed:
        other.owner.kill()
    else:
        other.owner.fail(BAD)
    reason = await alias.terminated()
    assert isinstance(reason.cause, LinkBroken) if killed else reason.cause is BAD
    assert noted(meta) == [reason]
    await scene.probe.expect(Ended(alias, reason.cause))


@kinds
async def test_a_link_that_is_removed_ends_nobody(system: ActorSystem, kind: type[Diary]) -> None:  # E5, E11
    scene, other = Scene(system), Scene(system)
    alias = await scene.spawn(kind())
    await other.do(lambda ctx: ctx.link(alias))
    await other.do(lambda ctx: ctx.unlink(alias))
    other.owner.fail(BAD)
    await other.owner.terminated()
    await system.settle()
    assert alias.is_alive


async def test_what_is_sent_to_one_that_has_ended_is_a_dead_letter(system: ActorSystem) -> None:  # E7
    scene = Scene(system)
    alias = await scene.spawn(Diary())
    alias.stop()
    await scene.probe.expect(Ended(alias, None))
    alias.tell("late")
    with pytest.raises(ActorTerminated):
        await alias.ask("late")
    assert [letter.message for letter in system.dead_letters.recent()][:1] == ["late"]
    assert await scene.do(lambda ctx: ctx.metas) == []


async def test_who_asks_one_that_ends_meanwhile_is_told(system: ActorSystem) -> None:  # E7
    held = Held()

    class Slow(MetaProcess):
        def handle_message(self, message: Any) -> None:
            held.enter()

    scene = Scene(system)
    alias = await scene.spawn(Slow())
    alias.tell("block")
    await held.entered.wait()
    asked = asyncio.ensure_future(alias.ask("never", timeout=None))
    await asyncio.sleep(0)
    alias.stop()
    held.release()
    with pytest.raises(ActorTerminated) as caught:
        await asked
    assert "Slow" in str(caught.value)


async def test_its_mailbox_is_bounded_as_its_options_say(system: ActorSystem) -> None:  # E7, J7
    scene, meta = Scene(system), AsyncDiary()

    def fill(ctx: Any) -> Any:
        alias = ctx.spawn_meta(meta, MetaOptions(mailbox=MailboxConfig(capacity=3)))
        for number in range(3):
            alias.tell(number)
        with pytest.raises(MailboxFull) as caught:
            alias.tell("too much")
        assert caught.value.ref == alias
        return alias

    await scene.do(fill)
    await system.settle()
    assert meta.notes == ["init", 0, 1, 2]


# -- worker processes

ONE = {"process": Process(workers=1)}


@kinds
@pytest.mark.config(dispatchers=ONE)
async def test_an_actor_in_a_worker_process_tells_asks_and_watches_it(
    system: ActorSystem, kind: type[Diary]
) -> None:  # E7
    scene, meta = Scene(system), kind()
    alias = await scene.spawn(meta)
    guest = system.spawn(AsksIt, dispatcher="process")
    await guest.ask(("tell", alias), timeout=None)
    await system.settle()
    assert meta.notes == ["init", "told"]
    assert await guest.ask(("ask", alias), timeout=None) == ("answer", "asked")
    back = await guest.ask(("same", alias), timeout=None)
    assert back == alias
    assert type(back) is Alias
    await guest.ask(("watch", alias), timeout=None)
    alias.stop()
    await alias.terminated()
    await system.settle()
    assert guest.is_alive


@pytest.mark.config(dispatchers=ONE)
async def test_an_actor_in_a_worker_process_is_told_that_it_can_have_none(system: ActorSystem) -> None:  # E2
    guest = system.spawn(Spawns, dispatcher="process")
    kind, words = await guest.ask("spawn", timeout=None)
    assert kind not in ("spawned", "AttributeError", "TypeError", "KeyError")
    assert "spawn_meta" in words
    assert guest.is_alive
