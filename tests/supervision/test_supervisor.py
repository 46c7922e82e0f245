"""A `Supervisor` starts its children in order, and starts them again as their specs say (J10; cases 33 to 36, 43)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from greenroom import (
    ActorSystem,
    Behaviors,
    ChildSpec,
    CountChildren,
    ExitKind,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    OnRestart,
    Overflow,
    Restart,
    Scope,
    State,
    Supervision,
    Supervisor,
    SystemConfig,
)
from greenroom.errors import ConfigError, TooManyActors
from greenroom.testing import TestProbe
from tests.conformance.askers import until
from tests.gates import turns
from tests.supervision.staff import (
    END,
    AsyncWorker,
    Boom,
    Panic,
    Stage,
    Worker,
    both,
    by_name,
    end,
    nothing_left,
    supervise,
)

if TYPE_CHECKING:
    from tests.conftest import Play

PERMANENT, TRANSIENT, TEMPORARY = Restart.PERMANENT, Restart.TRANSIENT, Restart.TEMPORARY


# -- the start


@both
async def test_children_start_in_order_and_the_supervisor_runs_when_all_of_them_do(
    system: ActorSystem, kind: type[Worker]
) -> None:  # J10
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


async def test_the_next_child_waits_for_the_one_before(system: ActorSystem) -> None:  # J10
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


async def test_a_supervisor_without_children_is_a_supervisor(system: ActorSystem) -> None:  # J10
    supervisor = await supervise(system, [])
    assert await by_name(supervisor) == {}
    assert (await supervisor.ask(CountChildren())).specs == 0


@both
@pytest.mark.parametrize("error", [Boom, Panic, asyncio.CancelledError], ids=["fail", "panic", "cancelled"])
async def test_when_the_third_cannot_start_the_first_two_are_stopped_in_reverse(
    system: ActorSystem, kind: type[Worker], error: type[BaseException]
) -> None:  # case 36
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


async def test_a_child_that_cannot_even_be_spawned_fails_the_start_the_same_way(system: ActorSystem) -> None:  # case 36
    stage = Stage()
    children = [*stage.children("ab"), ChildSpec("c", 3), stage.child("d")]
    supervisor = system.spawn(Supervisor, Supervisor.spec(children))
    with pytest.raises(TypeError):
        await supervisor.started()
    assert isinstance((await supervisor.terminated()).cause, TypeError)
    assert stage.log == ["+a", "+b", "-b", "-a"]
    nothing_left(system)


@pytest.mark.config(max_actors=3)
async def test_a_child_there_is_no_room_for_fails_the_start(system: ActorSystem) -> None:  # case 36, J1
    stage = Stage(AsyncWorker)
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("abc")))
    with pytest.raises(TooManyActors):
        await supervisor.started()
    assert isinstance((await supervisor.terminated()).cause, TooManyActors)
    assert stage.log == ["+a", "+b", "-b", "-a"]
    nothing_left(system)


async def test_a_start_that_failed_is_tried_again_as_the_supervisors_own_supervisor_says(
    system: ActorSystem, clock: ManualClock
) -> None:  # case 36, M7
    stage = Stage()
    stage.trouble("+b", Boom(), Boom())
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("ab")), supervision=Supervision(backoff=None))
    await clock.advance(0.0)
    assert supervisor.state is State.RUNNING
    assert stage.log == ["+a", "+b!", "-b", "-a"] * 2 + ["+a", "+b"]
    assert list(await by_name(supervisor)) == ["a", "b"]


async def test_a_child_that_fails_while_its_siblings_are_starting_is_seen_to_afterwards(
    system: ActorSystem,
) -> None:  # J10
    stage = Stage(AsyncWorker)
    gate = stage.hold("+b")
    supervisor = system.spawn(Supervisor, Supervisor.spec(stage.children("ab")), name="top")
    await gate.entered.wait()
    first = system.actor("/top/a")
    assert first is not None
    first.tell(Boom())
    await until(lambda: "-a" in stage.log)
    gate.released.set()
    await supervisor.started()
    await system.settle()
    assert stage.log == ["+a", "-a", "+b", "+a"]
    infos = await by_name(supervisor)
    assert infos["a"].ref == first
    assert (infos["a"].state, infos["a"].restarts) == (State.RUNNING, 1)


async def test_a_spec_that_makes_no_sense_is_refused(system: ActorSystem) -> None:  # J9
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
def test_who_comes_back_after_which_end(play: Play, restart: Restart, how: str, kind: type[Worker]) -> None:  # case 35
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
async def test_every_end_of_a_permanent_child_counts(system: ActorSystem, how: str) -> None:  # case 35
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


async def test_a_restart_that_was_asked_for_counts_for_nothing(
    system: ActorSystem,
) -> None:  # "what counts as a restart"
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
) -> None:  # J10, case 45
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


async def test_a_stop_of_ones_own_drains_the_queue_though_one_comes_back(system: ActorSystem) -> None:  # decision 014
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
) -> None:  # case 46
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


async def test_a_child_may_have_a_mailbox_of_its_own(system: ActorSystem) -> None:  # J7, J10
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
