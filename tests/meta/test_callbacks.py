"""The six callbacks: when each is called, what becomes of what it raises; and what cannot be spawned (E6)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, Alias, ExitKind, ExitReason, MailboxConfig
from greenroom.errors import ActorTerminated, ConfigError, GreenroomError, NameTaken, NotAMeta
from greenroom.meta import Compression, MetaOptions, MetaProcess
from tests.meta.owners import BAD, AsyncDiary, Diary, Ended, Panic, Quiet, Ref, Scene, kinds, noted


# -- init
@pytest.mark.parametrize("error", [BAD, Panic("bad"), asyncio.CancelledError()])
@pytest.mark.parametrize("dispatcher", [None, "parallel", "pinned"])
@pytest.mark.config(max_actors=3)
async def test_an_init_that_raises_prevents_the_spawn(
    system: ActorSystem, error: BaseException, dispatcher: Any
) -> None:  # E6
    class Failing(Diary):
        def init(self) -> None:
            super().init()
            raise error

    def attempt(ctx: Any) -> Any:
        try:
            ctx.spawn_meta(Failing(), MetaOptions(name="line"))
        except BaseException as exc:
            return exc, ctx.metas, ctx.children

    scene = Scene(system, dispatcher=dispatcher)
    await scene.do(id)
    before = system.tree(), len(system.actors())
    for _ in range(2):  # the name is free again, as is the room
        raised, metas, children = await scene.do(attempt)
        assert raised is error
        assert metas == children == []
    assert (system.tree(), len(system.actors())) == before
    assert scene.probe.messages == []
    assert (await scene.spawn(Quiet(), MetaOptions(name="line"))).path == f"{scene.owner.path}/line"


async def test_nothing_is_left_of_what_a_failing_init_had_spawned(system: ActorSystem) -> None:  # E6
    child = Diary()

    class Failing(MetaProcess):
        def init(self) -> None:
            self.spawn(child)
            raise BAD

    def attempt(ctx: Any) -> Any:
        with pytest.raises(ValueError, match="bad"):
            ctx.spawn_meta(Failing())
        return ctx.metas

    scene = Scene(system)
    assert await scene.do(attempt) == []
    await system.settle()
    assert len(system.actors()) == 2
    assert "Diary" not in system.tree()
    assert len(noted(child)) == 1  # it was there, so it has to end


async def test_what_a_failing_init_had_sent_to_itself_is_accounted_for(system: ActorSystem) -> None:  # E6
    class Failing(Diary):
        def init(self) -> None:
            self.send(self.id, "early")
            raise BAD

    meta = Failing()

    def attempt(ctx: Any) -> None:
        with pytest.raises(ValueError, match="bad"):
            ctx.spawn_meta(meta)

    await Scene(system).do(attempt)
    await system.settle()
    assert "early" not in meta.notes


async def test_init_is_called_once_by_the_caller_and_before_all_else(system: ActorSystem) -> None:  # E6
    class Early(Diary):
        def init(self) -> None:
            self.send(self.id, "to myself")
            self.notes.append((self.id, self.parent, threading.current_thread()))

        def start(self) -> None:
            self.notes.append("start")
            self.wait()

    scene, meta = Scene(system), Early()
    alias = await scene.spawn(meta)
    await system.settle()
    assert meta.notes[0] == (alias, scene.owner, threading.current_thread())
    assert sorted(meta.notes[1:]) == ["start", "to myself"]
    alias.stop()
    await alias.terminated()


# -- handlers
def _tell(alias: Alias, ctx: Any) -> None:
    alias.tell(4)


@kinds
@pytest.mark.parametrize("error", [BAD, Panic("bad")])
async def test_a_message_whose_handler_raises_ends_it(
    system: ActorSystem, kind: type[Diary], error: BaseException
) -> None:  # E6
    scene, meta = Scene(system), kind()
    alias = await scene.spawn(meta)
    await scene.probe.watch(alias)
    alias.tell(error)
    reason = await alias.terminated()
    assert reason == ExitReason.of(error)
    assert reason.cause is error
    assert noted(meta) == [reason]
    told = {type(one): one for one in [await scene.probe.receive(), await scene.probe.receive()]}
    assert told.pop(Ended) == Ended(alias, error)
    (terminated,) = told.values()
    assert terminated.reason == reason
    assert scene.owner.is_alive


@kinds
async def test_a_call_whose_handler_raises_is_answered_with_it_and_no_more(
    system: ActorSystem, kind: type[Diary]
) -> None:  # E6
    scene, meta = Scene(system), kind()
    alias = await scene.spawn(meta)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"^bad$"):
            await alias.ask(ValueError("bad"), timeout=None)
    assert await alias.ask("still", timeout=None) == ("answer", "still")
    assert noted(meta) == []
    assert scene.probe.messages == []


@kinds
async def test_a_call_can_be_answered_later_from_anywhere(system: ActorSystem, kind: type[Diary]) -> None:  # E6
    scene, meta = Scene(system), kind()
    alias = await scene.spawn(meta)

    def defer(meta: Diary) -> None:
        reply = meta.defer_reply()
        meta.notes.append(reply)

    asked = [asyncio.ensure_future(alias.ask(defer, timeout=None)) for _ in range(2)]
    await alias.ask("after them", timeout=None)
    first, second = meta.notes[1:]
    await asyncio.to_thread(first.send, "later")
    second.fail(ValueError("never"))
    assert await asked[0] == "later"
    with pytest.raises(ValueError, match="never"):
        await asked[1]


async def test_a_handler_may_take_the_sender_before_or_after_the_message(system: ActorSystem) -> None:  # E6
    class After(MetaProcess):
        def handle_message(self, message: Any, sender: Ref | None) -> None:  # type: ignore[override]
            self.send(self.parent, (message, sender, self.sender))

        def handle_call(self, request: Any, *, sender: Ref | None) -> Any:  # type: ignore[override]
            return request, sender, self.sender

    class Before(MetaProcess):
        def handle_message(self, sender: Ref | None, message: Any) -> None:  # type: ignore[override]
            self.send(self.parent, (message, sender, self.sender))

        async def handle_call(self, sender: Ref | None, request: Any) -> Any:  # type: ignore[override]
            await asyncio.sleep(0)
            return request, sender, self.sender

    scene = Scene(system)
    kinds: list[type[MetaProcess]] = [After, Before]
    for kind in kinds:
        alias = await scene.spawn(kind())
        scene.probe.send(alias, 1)
        assert await scene.heard() == (1, scene.probe.ref, scene.probe.ref)
        alias.tell(2)
        assert await scene.heard() == (2, None, None)
        assert await alias.ask(3, timeout=None) == (3, None, None)
        await scene.do(partial(_tell, alias))
        assert await scene.heard() == (4, scene.owner, scene.owner)


# -- terminate
WAYS: dict[str, tuple[Callable[[Scene, Alias, Any], object], ExitKind]] = {
    "stop": (lambda scene, alias, meta: alias.stop(), ExitKind.NORMAL),
    "stop by its parent": (lambda scene, alias, meta: scene.owner.tell(lambda ctx: ctx.stop(alias)), ExitKind.NORMAL),
    "stop after what is queued": (lambda scene, alias, meta: alias.stop(after_queued=True), ExitKind.NORMAL),
    "kill": (lambda scene, alias, meta: alias.kill(), ExitKind.KILLED),
    "fail": (lambda scene, alias, meta: alias.fail(BAD), ExitKind.FAIL),
    "panic": (lambda scene, alias, meta: alias.fail(Panic("bad")), ExitKind.PANIC),
    "a handler raises": (lambda scene, alias, meta: alias.tell(BAD), ExitKind.FAIL),
    "start returns": (lambda scene, alias, meta: meta.go.set(), ExitKind.NORMAL),
    "start raises": (lambda scene, alias, meta: meta.fail(), ExitKind.FAIL),
}


@kinds
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reads", [False, True])
async def test_terminate_is_called_once_however_it_ends(
    system: ActorSystem, kind: type[Diary], way: str, reads: bool
) -> None:  # E6
    if way.startswith("start") and not reads:
        pytest.skip("it has no start")

    class Reading(kind):  # type: ignore[valid-type,misc]
        def __init__(self) -> None:
            super().__init__()
            self.go = threading.Event()
            self.error: BaseException | None = None

        def fail(self) -> None:
            self.error = BAD
            self.go.set()

        def start(self) -> None:
            while not self.go.wait(0.01) and not self.stopping:
                pass
            if self.error is not None:
                raise self.error

    scene, meta = Scene(system), Reading() if reads else kind()
    alias = await scene.spawn(meta)
    act, expected = WAYS[way]
    act(scene, alias, meta)
    reason = await alias.terminated()
    assert reason.kind is expected
    assert noted(meta) == [reason]
    ended = await scene.probe.expect(Ended)
    assert ended == Ended(alias, reason.cause)
    await system.settle()
    assert noted(meta) == [reason]
    assert await scene.do(lambda ctx: ctx.metas) == []


@pytest.mark.parametrize("error", [BAD, Panic("bad")])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("reads", [False, True])
async def test_a_terminate_that_raises_changes_nothing(
    system: ActorSystem, error: BaseException, is_async: bool, reads: bool, caplog: pytest.LogCaptureFixture
) -> None:  # E6
    class Plain(MetaProcess):
        def terminate(self, reason: ExitReason) -> Any:
            raise error

    class Awaiting(MetaProcess):
        async def terminate(self, reason: ExitReason) -> None:
            raise error

    base: Any = Awaiting if is_async else Plain

    class Reading(base):  # type: ignore[misc]
        def start(self) -> None:
            self.wait()

    scene = Scene(system)
    alias = await scene.spawn(Reading() if reads else base())
    alias.stop()
    assert await alias.terminated() == ExitReason(ExitKind.NORMAL)
    await scene.probe.expect(Ended(alias, None))
    assert any("bad" in (record.exc_text or "") + record.getMessage() for record in caplog.records), caplog.text


# -- what cannot be spawned
class SomeActor(Actor[Any, Any]):
    def receive(self, message: Any) -> Any:
        return message


class AsyncInit(MetaProcess):
    async def init(self) -> None:
        raise AssertionError


class StartsWithMore(MetaProcess):
    def start(self, what: int) -> None:  # type: ignore[override]
        raise AssertionError


class HandlesNothing(MetaProcess):
    def handle_message(self) -> None:  # type: ignore[override]
        raise AssertionError


class HandlesTwo(MetaProcess):
    def handle_message(self, one: Any, two: Any) -> None:  # type: ignore[override]
        raise AssertionError


class CallsTwo(MetaProcess):
    def handle_call(self, one: Any, two: Any) -> None:  # type: ignore[override]
        raise AssertionError


class EndsWithoutReason(MetaProcess):
    def terminate(self) -> None:  # type: ignore[override]
        raise AssertionError


class Yields(MetaProcess):
    def start(self) -> Any:
        yield 1


class NotAMethod(MetaProcess):
    handle_message = 42  # type: ignore[assignment]


REFUSED: list[tuple[Any, str]] = [
    (42, "42"),
    (None, "None"),
    ("Diary", "'Diary'"),
    (SomeActor, "SomeActor"),
    (lambda: 42, "42"),
    (lambda: None, "None"),
    (AsyncInit, "AsyncInit.init"),
    (StartsWithMore, "StartsWithMore.start"),
    (HandlesNothing, "HandlesNothing.handle_message"),
    (HandlesTwo, "HandlesTwo.handle_message"),
    (CallsTwo, "CallsTwo.handle_call"),
    (EndsWithoutReason, "EndsWithoutReason.terminate"),
    (Yields, "Yields.start"),
    (NotAMethod, "NotAMethod.handle_message"),
]


@pytest.mark.parametrize(("what", "named"), REFUSED, ids=[named for _, named in REFUSED])
async def test_what_is_no_meta_process_is_refused_by_name(system: ActorSystem, what: Any, named: str) -> None:  # E6, J9
    scene = Scene(system)
    for _ in range(2):
        with pytest.raises(NotAMeta) as caught:
            await scene.do(lambda ctx: ctx.spawn_meta(what))
        assert named in str(caught.value)
        assert isinstance(caught.value, GreenroomError)
    assert len(system.actors()) == 2


@pytest.mark.parametrize("options", [42, {"name": "x"}, "name", MailboxConfig()])
async def test_options_of_another_kind_are_refused(system: ActorSystem, options: Any) -> None:  # E6, J9
    scene, meta = Scene(system), Quiet()
    with pytest.raises(NotAMeta, match=r"MetaOptions\(\.\.\.\)"):
        await scene.do(lambda ctx: ctx.spawn_meta(meta, options))
    await scene.spawn(meta)  # nothing has happened to it


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"compression": "zlib"}, "compression"),
        ({"supervision": 3}, "supervision"),
        ({"send_lane": "fast"}, "lane"),
        ({"name": 42}, "name"),
        ({"name": "a/b"}, "a/b"),
        ({"mailbox": 10}, "mailbox"),
        ({"env": 10}, "env"),
        ({"stop_timeout": -1.0}, "stop_timeout"),
        ({"stop_timeout": "soon"}, "stop_timeout"),
    ],
)
async def test_bad_options_are_named(system: ActorSystem, given: dict[str, Any], named: str) -> None:  # E6, J9
    scene, meta = Scene(system), Quiet()
    with pytest.raises(GreenroomError, match=named):
        await scene.do(lambda ctx: ctx.spawn_meta(meta, MetaOptions(**given)))
    assert len(system.actors()) == 2
    await scene.spawn(meta)  # nothing has happened to it


@pytest.mark.parametrize("given", [{"kind": "rar"}, {"level": 10}, {"level": -1}, {"threshold": -1}])
def test_bad_compressions_are_named(given: dict[str, Any]) -> None:  # E8, J9
    with pytest.raises(ConfigError, match=next(iter(given))):
        Compression(**given)


async def test_a_name_in_use_is_refused_and_the_meta_process_can_be_spawned_by_another(
    system: ActorSystem,
) -> None:  # J9, E6
    scene, meta = Scene(system), AsyncDiary()
    await scene.spawn(Quiet(), MetaOptions(name="line"))
    with pytest.raises(NameTaken, match="line"):
        await scene.spawn(meta, MetaOptions(name="line"))
    assert meta.notes == []
    await scene.spawn(meta, MetaOptions(name="other"))


async def test_a_parent_that_has_ended_spawns_no_more(system: ActorSystem) -> None:  # J9, E2
    contexts: list[Any] = []
    scene, meta = Scene(system), Diary()
    await scene.do(contexts.append)
    scene.owner.stop()
    await scene.owner.terminated()
    with pytest.raises(ActorTerminated):
        contexts[0].spawn_meta(meta)
    assert meta.notes == []
