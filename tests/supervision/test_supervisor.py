"""A `Supervisor`: who comes back after which end, what it is asked for, and how it ends itself (J10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from greenroom import (
    Actor,
    ActorRef,
    ActorSystem,
    ActorTerminated,
    Backoff,
    Behaviors,
    ChildSpec,
    CountChildren,
    DeleteChild,
    ExitKind,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    OnRestart,
    Overflow,
    Restart,
    RestartChild,
    Scope,
    Shutdown,
    StartChild,
    State,
    StopChild,
    Supervision,
    Supervisor,
    SystemConfig,
    WhichChildren,
)
from greenroom.errors import (
    BadArgument,
    ChildExists,
    ChildRestarting,
    ChildRunning,
    ConfigError,
    GreenroomError,
    NameTaken,
    NoSuchChild,
    TooManyActors,
    Unhandled,
)
from greenroom.testing import TestProbe
from tests.conformance.lives import actor_at
from tests.conformance.sending import until
from tests.conftest import Play
from tests.gates import turns
from tests.supervision.children import (
    END,
    GRACE,
    AsyncWorker,
    Boom,
    Panic,
    Stage,
    Worker,
    both,
    by_name,
    child_of,
    end,
    nothing_left,
    supervise,
)

PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY


# -- the start


@both
async def test_children_start_in_order_and_the_supervisor_runs_when_all_of_them_do(
    system: ActorSystem, kind: type[Worker]
) -> None:  # case 33, J10
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("abc"), name="top")
    assert stage.take() == ["+a", "+b", "+c"]
    infos = await by_name(supervisor)
    assert list(infos) == ["a", "b", "c"]
    for name, info in infos.items():
        assert info.ref is not None
        assert info.ref.path == f"/top/{name}"
        assert info.state is info.ref.state is State.RUNNING
        assert (info.restarts, info.last_restart, info.next_attempt) == (0, None, None)
    await system.shutdown()
    assert stage.take() == ["-c", "-b", "-a"]


async def test_the_next_child_waits_for_the_one_before(system: ActorSystem) -> None:  # case 33, J10
    stage = Stage(AsyncWorker)
    gate = stage.hold("+b")
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("abc")))
    await gate.entered.wait()
    await turns(20)
    assert stage.log == ["+a"]
    assert supervisor.state is State.STARTING
    gate.released.set()
    await supervisor.started()
    assert stage.log == ["+a", "+b", "+c"]


async def test_a_supervisor_without_children_is_a_supervisor(system: ActorSystem) -> None:  # case 33, J10
    supervisor = await supervise(system, [])
    assert await by_name(supervisor) == {}
    assert (await supervisor.ask(CountChildren())).specs == 0


@both
@pytest.mark.parametrize("error", [Boom, Panic, asyncio.CancelledError], ids=["fail", "panic", "cancelled"])
async def test_when_the_third_cannot_start_the_first_two_are_stopped_in_reverse(
    system: ActorSystem, kind: type[Worker], error: type[BaseException]
) -> None:  # cases 33 and 36
    stage = Stage(kind)
    cause = error("no start")
    probe = TestProbe(system)
    stage.trouble("+c", cause)
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("abcd")))
    await probe.watch(supervisor)
    with pytest.raises(BaseException) as caught:
        await supervisor.started()
    assert caught.value is cause or caught.value.__cause__ is cause
    notice = await probe.expect_terminated(supervisor)
    assert notice.cause is cause
    assert notice.reason.kind is (ExitKind.PANIC if error is Panic else ExitKind.FAIL)
    assert stage.log == ["+a", "+b", "+c!", "-c", "-b", "-a"]
    nothing_left(system, probe.ref)


async def test_a_child_that_cannot_even_be_spawned_fails_the_start_the_same_way(system: ActorSystem) -> None:
    # cases 33 and 36
    stage = Stage()
    children = [*stage.children("ab"), ChildSpec("c", 3), stage.child("d")]
    supervisor = system.spawn(Supervisor, Supervisor.spec(children))
    with pytest.raises(TypeError):
        await supervisor.started()
    assert isinstance((await supervisor.terminated()).cause, TypeError)
    assert stage.log == ["+a", "+b", "-b", "-a"]
    nothing_left(system)


@pytest.mark.config(max_actors=3)
async def test_a_child_there_is_no_room_for_fails_the_start(system: ActorSystem) -> None:  # cases 33 and 36, J1
    stage = Stage(AsyncWorker)
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("abc")))
    with pytest.raises(TooManyActors):
        await supervisor.started()
    assert isinstance((await supervisor.terminated()).cause, TooManyActors)
    assert stage.log == ["+a", "+b", "-b", "-a"]
    nothing_left(system)


async def test_a_start_that_failed_is_tried_again_as_the_supervisors_own_supervisor_says(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 33 and 36, M7
    stage = Stage()
    stage.trouble("+b", Boom(), Boom())
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("ab")), supervision=Supervision(backoff=None))
    await clock.advance(0.0)
    assert supervisor.state is State.RUNNING
    assert stage.log == ["+a", "+b!", "-b", "-a"] * 2 + ["+a", "+b"]
    assert list(await by_name(supervisor)) == ["a", "b"]


async def test_a_child_that_fails_while_its_siblings_are_starting_is_seen_to_afterwards(system: ActorSystem) -> None:
    # case 33, J10
    stage = Stage(AsyncWorker)
    gate = stage.hold("+b")
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("ab")), name="top")
    await gate.entered.wait()
    first = actor_at(system, "/top/a")
    first.tell(Boom())
    await until(lambda: "-a" in stage.log)
    gate.released.set()
    await supervisor.started()
    await system.settle()
    assert stage.log == ["+a", "-a", "+b", "+a"]
    infos = await by_name(supervisor)
    assert infos["a"].ref == first
    assert (infos["a"].state, infos["a"].restarts) == (State.RUNNING, 1)


async def test_a_spec_that_makes_no_sense_is_refused(system: ActorSystem) -> None:  # case 33, J9
    stage = Stage()
    with pytest.raises(ConfigError):
        Supervisor.spec([stage.child("a"), stage.child("a")])
    with pytest.raises(ConfigError):
        Supervisor.spec(stage.children("a"), intensity=-1)
    with pytest.raises(ConfigError):
        await system.spawn(Supervisor, "no spec", name="wrong").started()


# -- who comes back

ENDS_NORMALLY = ["stop", "stopped"]


@both
@pytest.mark.parametrize("how", list(END))
@pytest.mark.parametrize("restart", list(Restart))
def test_who_comes_back_after_which_end(play: Play, restart: Restart, how: str, kind: type[Worker]) -> None:
    # cases 33 and 35
    stage = Stage(kind)
    clock = ManualClock(100.0)
    comes_back = restart is PERMANENT or (restart is TRANSIENT and how not in ENDS_NORMALLY)

    async def program(system: ActorSystem) -> None:
        probe = TestProbe(system)
        supervisor = await supervise(system, [stage.child("a", restart=restart), stage.child("b")])
        ref = (await by_name(supervisor))["a"].ref
        assert ref is not None
        await probe.watch(ref)
        stage.take()
        end(ref, how)
        await system.settle()
        infos = await by_name(supervisor)
        if comes_back:
            assert stage.take() == ["-a", "+a"]
            assert infos["a"].ref == ref  # the same one
            assert (infos["a"].state, infos["a"].restarts, infos["a"].last_restart) == (State.RUNNING, 1, 100.0)
            assert await ref.ask("there?") == "there?"
            await probe.expect_no()  # watchers are not told of restarts
        else:
            assert stage.take() == ["-a"]
            kinds = {"stop": ExitKind.NORMAL, "stopped": ExitKind.NORMAL, "kill": ExitKind.KILLED}
            kinds |= {"failed": ExitKind.FAIL, "fail": ExitKind.FAIL, "panic": ExitKind.PANIC}
            assert (await probe.expect_terminated(ref)).reason.kind is kinds[how]
            if restart is TEMPORARY:
                assert list(infos) == ["b"]
            else:
                assert infos["a"].ref is None
        assert infos["b"].restarts == 0
        counts = await supervisor.ask(CountChildren())
        assert counts.specs == (1 if restart is TEMPORARY else 2)
        assert counts.active == (2 if comes_back else 1)

    play(program, clock=clock)


@pytest.mark.parametrize("how", list(END))
async def test_every_end_of_a_permanent_child_counts(system: ActorSystem, how: str) -> None:  # cases 33 and 35
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"), intensity=2)
    ref = (await by_name(supervisor))["a"].ref
    assert ref is not None
    for _ in range(2):
        end(ref, how)
        await system.settle()
        assert supervisor.is_alive
    end(ref, how)
    await supervisor.terminated()
    assert stage.log == ["+a", "-a"] * 3


async def test_a_restart_that_was_asked_for_counts_for_nothing(system: ActorSystem) -> None:
    # case 33: "what counts as a restart"
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab"), Scope.ONE_FOR_ALL, intensity=0)
    ref = (await by_name(supervisor))["a"].ref
    assert ref is not None
    for _ in range(5):
        ref.restart()
        await system.settle()
    assert stage.take() == ["+a", "+b"] + ["-a", "+a"] * 5
    infos = await by_name(supervisor)
    assert (infos["a"].ref, infos["a"].state, infos["a"].restarts) == (ref, State.RUNNING, 0)


async def test_the_queue_outlives_a_restart_and_the_failed_message_does_not(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 33 and 45, J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"), intensity=None)
    ref = (await by_name(supervisor))["a"].ref
    assert ref is not None
    for number in range(5):
        ref.tell(number)
        ref.tell(Boom())
    asked = ref.ask("still in order?")
    assert await asked == "still in order?"
    assert [message for _, message in stage.heard] == [0, 1, 2, 3, 4, "still in order?"]
    assert system.dead_letters.count == 0
    assert (await by_name(supervisor))["a"].restarts == 5


async def test_a_stop_of_ones_own_drains_the_queue_though_one_comes_back(system: ActorSystem) -> None:
    # case 33: decision 014
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    ref = (await by_name(supervisor))["a"].ref
    assert ref is not None
    ref.tell(Behaviors.stopped)
    ref.tell("too late")
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == ["too late"]
    assert await ref.ask("open again") == "open again"


@pytest.mark.parametrize("mailbox", [OnRestart.CLEAR, OnRestart.KEEP, None])
@pytest.mark.config(supervision=Supervision(mailbox=OnRestart.KEEP))
async def test_what_becomes_of_the_queue_is_said_by_the_childs_spec(
    system: ActorSystem, mailbox: OnRestart | None
) -> None:  # cases 33 and 46
    stage = Stage()

    # What a plain actor's config says is not for the children of a supervisor.
    supervisor = await supervise(system, stage.children("a", mailbox=mailbox))
    ref = (await by_name(supervisor))["a"].ref
    assert ref is not None
    for message in (Boom(), 1, 2):
        ref.tell(message)
    await system.settle()
    dead = [letter.message for letter in system.dead_letters.recent()]
    heard = [message for _, message in stage.heard]
    assert (dead, heard) == (([1, 2], []) if mailbox is OnRestart.CLEAR else ([], [1, 2]))
    assert await ref.ask(3) == 3


async def test_a_child_may_have_a_mailbox_of_its_own(system: ActorSystem) -> None:  # case 33, J10, J7
    stage = Stage()
    tight = MailboxConfig(capacity=1, overflow=Overflow.REJECT)
    supervisor = await supervise(system, [stage.child("a", mailbox=tight), stage.child("b")])
    infos = await by_name(supervisor)
    first, second = infos["a"].ref, infos["b"].ref
    assert first is not None
    assert second is not None
    for life in range(2):
        first.tell((life, 1))
        with pytest.raises(MailboxFull):
            first.tell((life, 2))
        await system.settle()
        first.tell(Boom())
        await system.settle()
    second.tell(1)
    second.tell(2)
    await system.settle()
    assert [message for _, message in stage.heard] == [(0, 1), (1, 1), 1, 2]
    await system.shutdown()
    assert SystemConfig().mailbox.capacity > 1


async def test_requests_that_are_told_are_done_and_mistakes_do_no_harm(system: ActorSystem) -> None:  # J10, J9
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    supervisor.tell(StartChild(stage.child("b")))
    supervisor.tell(StartChild(stage.child("b")))
    supervisor.tell(StopChild("a"))
    supervisor.tell(StopChild("nobody"))
    supervisor.tell(WhichChildren())
    stage.trouble("+c", Boom())
    supervisor.tell(StartChild(stage.child("c")))
    await system.settle()
    infos = await by_name(supervisor)
    assert {name: info.state for name, info in infos.items()} == {"a": State.TERMINATED, "b": State.RUNNING}
    assert supervisor.state is State.RUNNING
    supervisor << RestartChild("a") << DeleteChild("b")
    await system.settle()
    assert (await by_name(supervisor))["a"].state is State.RUNNING
    assert system.ledger(supervisor).failed == 0


@pytest.mark.parametrize("message", ["hello", 3, None, object()])
async def test_what_is_no_request_is_unhandled(system: ActorSystem, message: object) -> None:  # J9, "an unhandled type"
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    with pytest.raises(Unhandled):
        await supervisor.ask(message)
    supervisor.tell(message)
    await system.settle()
    assert [letter.message for letter in system.dead_letters.recent()] == [message, message]
    assert system.ledger(supervisor).unhandled == 2
    assert supervisor.state is State.RUNNING


async def test_an_actor_can_ask_the_supervisor_of_its_own(system: ActorSystem, clock: ManualClock) -> None:  # J10, J9
    class Curious(Actor[Any, Any]):
        async def receive(self, message: Any) -> Any:
            parent = self.ctx.parent
            assert parent is not None
            return await parent.ask(message, timeout=None)

    stage = Stage()
    supervisor = await supervise(system, [ChildSpec("curious", Curious)], intensity=0)
    curious = await child_of(supervisor, "curious")
    ref = await curious.ask(StartChild(stage.child("b")))
    assert ref.state is State.RUNNING
    asked = curious.ask(StopChild("curious"), timeout=None)
    await clock.advance(5.0)  # it waits for its own end, and is cancelled in the end
    with pytest.raises(GreenroomError):
        await asked
    assert not curious.is_alive
    assert [name for name, info in (await by_name(supervisor)).items() if info.ref] == ["b"]


async def test_a_child_of_the_same_name_that_is_not_the_supervisors_is_in_the_way(system: ActorSystem) -> None:  # J9
    stage = Stage()

    class Own(Supervisor):
        def receive(self, message: Any) -> Any:
            return message(self.ctx) if callable(message) else super().receive(message)

    supervisor: ActorRef[Any, Any] = system.spawn(Own, Supervisor.spec(stage.children("a")))
    await supervisor.ask(lambda ctx: ctx.spawn(Worker, stage, "b", name="b"))
    with pytest.raises(NameTaken):
        await supervisor.ask(StartChild(stage.child("b")))
    assert list(await by_name(supervisor)) == ["a"]


@both
async def test_a_child_can_be_started_later_and_is_looked_after_like_the_others(
    system: ActorSystem, kind: type[Worker]
) -> None:  # case 44, J10
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("a"), Scope.REST_FOR_ONE, name="top")
    ref = await supervisor.ask(StartChild(stage.child("b")))
    assert stage.take() == ["+a", "+b"]  # the answer comes when it is running
    assert (ref.path, ref.state) == ("/top/b", State.RUNNING)
    assert list(await by_name(supervisor)) == ["a", "b"]
    (await child_of(supervisor, "a")).tell(Boom())
    await system.settle()
    assert stage.take() == ["-a", "-b", "+a", "+b"]  # the last to start
    assert await child_of(supervisor, "b") == ref
    await system.shutdown()
    assert stage.take() == ["-b", "-a"]


async def test_a_name_that_is_taken_is_refused_also_when_its_child_is_stopped(system: ActorSystem) -> None:
    # case 44: ChildExists
    stage = Stage()
    supervisor = await supervise(system, stage.children("ab", restart=TRANSIENT))
    await supervisor.ask(StopChild("a"))
    (await child_of(supervisor, "b")).stop()
    await system.settle()
    for name in "ab":
        with pytest.raises(ChildExists) as caught:
            await supervisor.ask(StartChild(stage.child(name)))
        assert caught.value.name == name
        assert caught.value.ref == supervisor
        assert caught.value.code == "child_exists"
    assert stage.log == ["+a", "+b", "-a", "-b"]
    assert supervisor.state is State.RUNNING


@both
@pytest.mark.parametrize("cause", [Boom("no start"), Panic("no start")], ids=["fail", "panic"])
async def test_a_child_whose_start_fails_raises_that_at_the_asker_and_is_forgotten(
    system: ActorSystem, kind: type[Worker], cause: BaseException
) -> None:  # case 44, J10
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("a"), Scope.ONE_FOR_ALL, intensity=0)
    stage.trouble("+b", cause)
    with pytest.raises((Boom, ActorTerminated)) as caught:
        await supervisor.ask(StartChild(stage.child("b")))
    if isinstance(cause, Boom):
        assert caught.value is cause
    await system.settle()
    assert list(await by_name(supervisor)) == ["a"]
    assert stage.take() == ["+a", "+b!", "-b"]  # it is no exit: nothing is counted, nobody restarted
    again = await supervisor.ask(StartChild(stage.child("b")))
    assert again.state is State.RUNNING


async def test_a_child_that_cannot_be_spawned_raises_that_at_the_asker(system: ActorSystem) -> None:  # case 44, J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    with pytest.raises(TypeError):
        await supervisor.ask(StartChild(ChildSpec("b", 3)))
    for wrong in (
        StartChild(),
        StartChild("b"),
        StartChild(stage.child("b"), 1),
        StartChild(spec=stage.child("b")),
    ):
        with pytest.raises((BadArgument, ConfigError)):
            await supervisor.ask(wrong)
    assert list(await by_name(supervisor)) == ["a"]
    assert supervisor.state is State.RUNNING


@both
@pytest.mark.parametrize("by", ["name", "ref"])
async def test_a_child_can_be_stopped_started_and_deleted(system: ActorSystem, kind: type[Worker], by: str) -> None:
    # case 44, J10
    stage = Stage(kind)
    probe = TestProbe(system)
    supervisor = await supervise(system, stage.children("abc"), Scope.ONE_FOR_ALL, intensity=0)
    ref = await child_of(supervisor, "b")
    child: Any = "b" if by == "name" else ref
    await probe.watch(ref)
    await supervisor.ask(StopChild(child))
    assert stage.take() == ["+a", "+b", "+c", "-b"]  # the answer comes when it is gone
    assert not ref.is_alive
    assert (await probe.expect_terminated(ref)).reason.kind is ExitKind.SHUTDOWN
    info = (await by_name(supervisor))["b"]
    assert (info.ref, info.next_attempt) == (None, None)
    await supervisor.ask(StopChild(child))  # it is what was asked for
    fresh = await supervisor.ask(RestartChild(child))
    assert fresh != ref
    assert fresh.path == ref.path
    assert list(await by_name(supervisor)) == ["a", "b", "c"]  # in its old place
    child = "b" if by == "name" else fresh
    await supervisor.ask(StopChild(child))
    await supervisor.ask(DeleteChild(child))
    assert list(await by_name(supervisor)) == ["a", "c"]
    with pytest.raises(NoSuchChild):
        await supervisor.ask(RestartChild(child))
    assert stage.take() == ["+b", "-b"]
    assert supervisor.state is State.RUNNING


async def test_a_temporary_child_that_is_stopped_is_forgotten(system: ActorSystem) -> None:  # cases 35 and 44
    stage = Stage()
    supervisor = await supervise(system, [stage.child("a", restart=TEMPORARY), stage.child("b")])
    await supervisor.ask(StopChild("a"))
    assert list(await by_name(supervisor)) == ["b"]


REQUESTS: list[Any] = [StopChild, RestartChild, DeleteChild]


@pytest.mark.parametrize("request_type", REQUESTS)
async def test_a_child_nobody_knows_is_an_error(system: ActorSystem, request_type: Any) -> None:  # case 44: NoSuchChild
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    other = system.spawn(Worker, stage, "other", name="a")  # of the same name, but nobody's child
    nested = await (await child_of(supervisor, "a")).ask(lambda ctx: ctx.spawn(Worker, stage, "n", name="a"))
    for child in ("b", "", "/a", other, supervisor, nested, None, 3, b"a", ["a"]):
        with pytest.raises(NoSuchChild) as caught:
            await supervisor.ask(request_type(child))
        assert caught.value.code == "no_such_child"
    assert supervisor.state is State.RUNNING
    assert other.is_alive


@pytest.mark.parametrize("request_type", [RestartChild, DeleteChild])
async def test_a_running_child_is_neither_started_nor_deleted(system: ActorSystem, request_type: Any) -> None:
    # case 44: ChildRunning
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"))
    with pytest.raises(ChildRunning) as caught:
        await supervisor.ask(request_type("a"))
    assert caught.value.code == "child_running"
    assert stage.log == ["+a"]


@pytest.mark.parametrize("request_type", [RestartChild, DeleteChild])
async def test_a_child_that_waits_is_neither_started_nor_deleted(
    system: ActorSystem, clock: ManualClock, request_type: Any
) -> None:  # case 44: ChildRestarting
    stage = Stage()
    supervisor = await supervise(system, stage.children("a"), backoff=Backoff(min=1.0))
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(0.5)
    with pytest.raises(ChildRestarting) as caught:
        await supervisor.ask(request_type("a"))
    assert caught.value.code == "child_restarting"
    with pytest.raises(ChildExists):
        await supervisor.ask(StartChild(stage.child("a")))
    await clock.advance(0.5)
    assert stage.log == ["+a", "-a", "+a"]


@pytest.mark.parametrize("request_type", [RestartChild, DeleteChild])
async def test_a_child_that_has_finished_can_be_started_or_deleted(system: ActorSystem, request_type: Any) -> None:
    # case 44, J10
    stage = Stage()
    supervisor = await supervise(system, stage.children("a", restart=TRANSIENT))
    (await child_of(supervisor, "a")).stop()
    await system.settle()
    answer = await supervisor.ask(request_type("a"))
    if request_type is RestartChild:
        assert await child_of(supervisor, "a") == answer
    else:
        assert await by_name(supervisor) == {}


@pytest.mark.parametrize("added", [False, True], ids=["from the spec", "added later"])
async def test_a_stopped_child_that_cannot_be_started_is_kept(system: ActorSystem, added: bool) -> None:
    # case 44, J10; OTP: restart_child
    stage = Stage()
    supervisor = await supervise(system, [] if added else stage.children("a"))
    if added:
        await supervisor.ask(StartChild(stage.child("a")))
    await supervisor.ask(StopChild("a"))
    cause = Boom("not now")
    stage.trouble("+a", cause)
    with pytest.raises(Boom) as caught:
        await supervisor.ask(RestartChild("a"))
    assert caught.value is cause
    assert (await by_name(supervisor))["a"].ref is None
    assert (await supervisor.ask(RestartChild("a"))).state is State.RUNNING


@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL])
async def test_stopping_a_child_gives_up_the_restart_it_waits_for(
    system: ActorSystem, clock: ManualClock, scope: Scope
) -> None:  # case 44: "requests"
    stage = Stage()
    probe = TestProbe(system)
    supervisor = await supervise(system, stage.children("a"), scope, backoff=Backoff(min=1.0))
    ref = await child_of(supervisor, "a")
    await probe.watch(ref)
    cause = Boom()
    ref.tell(cause)
    ref.tell("never heard")
    await clock.advance(0.5)
    await supervisor.ask(StopChild("a"))
    notice = await probe.expect_terminated(ref)
    assert notice.cause is cause  # it did end in that way
    await clock.advance(5.0)
    assert stage.log == ["+a", "-a"]
    assert (await by_name(supervisor))["a"].ref is None
    assert [letter.message for letter in system.dead_letters.recent()] == ["never heard"]
    nothing_left(system, supervisor, probe.ref)


@both
@pytest.mark.parametrize("how", list(END))
@pytest.mark.parametrize("scope", [Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL])
async def test_a_child_that_ends_just_before_it_is_stopped_stays_down(
    system: ActorSystem, how: str, scope: Scope, kind: type[Worker]
) -> None:  # case 44: "requests": StopChild is for good
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("ab"), scope, intensity=2)
    refs = [await child_of(supervisor, name) for name in "ab"]
    end(refs[0], how)  # the notice of it will be queued behind the request
    await supervisor.ask(StopChild("a"))
    await system.settle()
    assert not refs[0].is_alive
    infos = await by_name(supervisor)
    assert infos["a"].ref is None
    assert infos["b"].state is State.RUNNING
    assert stage.log.count("+a") <= 2
    fresh = await supervisor.ask(RestartChild("a"))
    assert await fresh.ask("well?") == "well?"
    assert await refs[1].ask("well?") == "well?"


def test_which_children_and_how_many(play: Play) -> None:  # case 44, J10
    stage = Stage()
    clock = ManualClock(50.0)

    async def program(system: ActorSystem) -> None:
        nested = ChildSpec("nested", Supervisor, (Supervisor.spec(stage.children("x")),))
        slow = stage.child("slow", backoff=Backoff(min=3.0, max=3.0))
        done = stage.child("done", restart=TRANSIENT)
        supervisor = await supervise(system, [nested, slow, done, *stage.children("ab")], intensity=None)
        refs = {name: await child_of(supervisor, name) for name in ("nested", "slow", "done", "a", "b")}
        refs["done"].stop()
        refs["a"].tell(Boom())
        refs["slow"].tell(Boom())
        await supervisor.ask(StopChild("b"))
        await clock.advance(1.0)
        infos = await supervisor.ask(WhichChildren())
        assert [(i.name, i.ref, i.state, i.restarts, i.last_restart, i.next_attempt) for i in infos] == [
            ("nested", refs["nested"], State.RUNNING, 0, None, None),
            ("slow", refs["slow"], State.RESTARTING, 0, None, 53.0),
            ("done", None, State.TERMINATED, 0, None, None),
            ("a", refs["a"], State.RUNNING, 1, 50.0, None),
            ("b", None, State.TERMINATED, 0, None, None),
        ]
        counts = await supervisor.ask(CountChildren())
        assert (counts.specs, counts.active, counts.restarting) == (5, 2, 1)
        assert (counts.supervisors, counts.workers) == (1, 4)
        await clock.advance(2.0)
        info = (await by_name(supervisor))["slow"]
        assert (info.state, info.restarts, info.last_restart, info.next_attempt) == (State.RUNNING, 1, 53.0, None)

    play(program, clock=clock)


@both
@pytest.mark.parametrize("how", ["stop", "kill", "fail", "shutdown"])
async def test_children_stop_one_after_the_other_in_reverse(system: ActorSystem, kind: type[Worker], how: str) -> None:
    # cases 56 and 57: "stop order"
    stage = Stage(kind)
    supervisor = await supervise(system, stage.children("abc"))
    await supervisor.ask(StartChild(stage.child("d")))
    stage.take()
    if how == "shutdown":
        await system.shutdown()
    else:
        end(supervisor, how)
    await supervisor.terminated()
    if how != "kill":
        assert stage.take() == ["-d", "-c", "-b", "-a"]
    else:
        assert sorted(stage.take()) == ["-a", "-b", "-c", "-d"]
    assert system.actors() == []


@pytest.mark.parametrize("how", ["stop", "restart", "trip", "shutdown"])
@pytest.mark.config(stop_timeout=100.0)
async def test_a_child_that_ignores_its_stop_is_cancelled_when_its_time_is_over(
    system: ActorSystem, clock: ManualClock, how: str
) -> None:  # cases 56 and 57
    stage = Stage(AsyncWorker)
    children = [stage.child("a"), stage.child("b", shutdown=2.0), stage.child("c", shutdown=7.0), stage.child("d")]
    supervisor = await supervise(system, children, intensity=0)
    stage.hold("-c")
    stage.hold("-b")
    stage.take()
    if how == "stop":
        supervisor.stop()
    elif how == "restart":
        supervisor.restart()
    elif how == "trip":
        (await child_of(supervisor, "d")).tell(Boom())
    else:
        system.stop()
    await clock.advance(0.0)
    assert stage.take() == ["-d"]
    await clock.advance(6.9)
    assert stage.log == []
    await clock.advance(0.1)
    assert stage.take() == ["-c cancelled"]
    await clock.advance(1.9)  # b's time begins only now
    assert stage.log == []
    await clock.advance(0.1)
    await clock.advance(GRACE)
    assert stage.take()[:2] == ["-b cancelled", "-a"]
    assert supervisor.is_alive is (how == "restart")
    stage.gates.clear()


@pytest.mark.config(stop_timeout=1.0)
async def test_a_child_with_no_time_is_killed_and_one_with_all_of_it_waited_for(
    system: ActorSystem, clock: ManualClock
) -> None:  # cases 56 and 57: KILL, INFINITY
    stage = Stage(AsyncWorker)
    probe = TestProbe(system)
    children = [
        stage.child("a", shutdown=Shutdown.KILL),
        stage.child("b", shutdown=Shutdown.INFINITY),
        stage.child("c"),
    ]
    supervisor = await supervise(system, children)
    refs = {name: await child_of(supervisor, name) for name in "abc"}
    for ref in refs.values():
        await probe.watch(ref)
    gates = {name: stage.hold(f"~{name}") for name in "abc"}
    gates["c"].released.set()
    supervisor.stop()
    await clock.advance(10_000.0)
    assert stage.log == ["+a", "+b", "+c", "~c", "-c"]
    assert supervisor.is_alive
    gates["b"].released.set()
    await clock.advance(0.0)
    assert not supervisor.is_alive
    assert stage.log == ["+a", "+b", "+c", "~c", "-c", "~b", "-b", "-a"]  # a had no `pre_stop`
    kinds = {notice.ref.name: notice.reason.kind for notice in [await probe.receive() for _ in range(3)]}
    assert kinds == {"c": ExitKind.SHUTDOWN, "b": ExitKind.SHUTDOWN, "a": ExitKind.KILLED}


@pytest.mark.parametrize("shutdown", [2.0, 30.0])
async def test_a_child_stopped_by_request_has_its_own_time_too(
    system: ActorSystem, clock: ManualClock, shutdown: float
) -> None:  # cases 56 and 57: "stop order"
    stage = Stage(AsyncWorker)
    supervisor = await supervise(system, [stage.child("a", shutdown=shutdown)])
    stage.hold("~a")
    asked = supervisor.ask(StopChild("a"), timeout=None)
    await clock.advance(shutdown - 0.1)
    assert not asked.done()
    await clock.advance(0.1 + GRACE)
    assert asked.done()
    assert "~a cancelled" in stage.log


@pytest.mark.config(stop_timeout=100.0)
async def test_a_group_restart_gives_each_its_own_time(system: ActorSystem, clock: ManualClock) -> None:
    # cases 56 and 57, "stop order", case 34
    stage = Stage(AsyncWorker)
    children = [stage.child("a"), stage.child("b", shutdown=2.0), stage.child("c", shutdown=3.0)]
    supervisor = await supervise(system, children, Scope.ONE_FOR_ALL)
    gates = [stage.hold("-c"), stage.hold("-b")]
    stage.take()
    (await child_of(supervisor, "a")).tell(Boom())
    await clock.advance(2.9)
    assert stage.log == ["-a"]
    await clock.advance(0.1)
    assert stage.log == ["-a", "-c cancelled"]
    await clock.advance(1.9)
    assert stage.log == ["-a", "-c cancelled"]
    await clock.advance(0.1 + GRACE)
    assert stage.take() == ["-a", "-c cancelled", "-b cancelled", "+a", "+b", "+c"]
    assert {info.state for info in (await by_name(supervisor)).values()} == {State.RUNNING}
    stage.gates.clear()
    assert len(gates) == 2


@pytest.mark.config(stop_timeout=1.0)
async def test_a_nested_supervisor_takes_the_time_its_children_need(system: ActorSystem, clock: ManualClock) -> None:
    # cases 56 and 57: "stop order"
    stage = Stage(AsyncWorker)
    low = Supervisor.spec([stage.child("x", shutdown=4.0), stage.child("y", shutdown=4.0)])
    nested = ChildSpec("low", Supervisor, (low,), shutdown=Shutdown.INFINITY)
    supervisor = await supervise(system, [stage.child("a"), nested, stage.child("c")])
    stage.hold("-x")
    stage.hold("-y")
    stage.take()
    supervisor.stop()
    await clock.advance(7.9)
    assert stage.log == ["-c", "-y cancelled"]
    await clock.advance(0.1 + GRACE)
    assert stage.log == ["-c", "-y cancelled", "-x cancelled", "-a"]
    assert not supervisor.is_alive
