"""What one actor in a worker can do to the others there: nothing, unless it is itself to end and does not let go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ActorTerminated, DeadLetter, ExitKind, Process, Supervision, SystemConfig
from greenroom.errors import HandlerBroken, NotSendable, WireError
from greenroom.testing import assert_ledger_balanced
from tests.logs import broken_logging, logged
from tests.system.dispatchers.processes.actors import pid_of, witness_in
from tests.system.dispatchers.processes.conformance.home import Ear
from tests.system.dispatchers.processes.test_messages import ONE
from tests.system.dispatchers.processes.unruly import Busy, Hooked, Many, PanicsWhenRead, PanicsWhenSent, Teller

HASTY = pytest.mark.config(stop_timeout=0.2)


# -- a neighbour that is merely busy


@pytest.mark.parametrize("end", ["stop", "kill", "restart", "crash"])
@HASTY
async def test_the_end_of_one_does_not_end_another_that_is_busy(
    system: ActorSystem, end: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    idle = system.spawn(Hooked, dispatcher="process", name="idle")
    busy = system.spawn(Busy, dispatcher="process", name="busy")
    pid = await idle.ask("pid")
    witness, begun = witness_in(system)
    asked = asyncio.ensure_future(busy.ask(("until", tmp_path / "go", witness)))
    await begun.wait()
    with logged("was not reached") as not_reached:
        if end == "crash":
            idle.fail(ValueError("on purpose"))
        else:
            getattr(idle, end)()
        await not_reached.wait()
    if end in ("stop", "kill"):
        assert (await idle.terminated()).kind is ExitKind.KILLED
    assert not asked.done()
    (tmp_path / "go").touch()
    assert await asked == "done"
    assert await busy.ask("pid") == pid
    if end not in ("stop", "kill"):
        assert await idle.ask("pid") == pid
    await system.settle()
    assert system.ledger(busy).lost == 0
    assert_ledger_balanced(system)
    await system.shutdown()
    (told,) = [one.getMessage() for one in caplog.records if "was not reached" in one.getMessage()]
    assert told.startswith("/idle was not reached")
    assert "/busy keeps that busy" in told


@pytest.mark.parametrize("end", ["kill", "restart"])
@HASTY
async def test_messages_that_did_not_reach_one_behind_a_busy_neighbour_are_lost_and_not_failed(
    system: ActorSystem, end: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ref = system.spawn(Hooked, dispatcher="process")
    busy = system.spawn(Busy, dispatcher="process")
    pid = await ref.ask("pid")
    witness, begun = witness_in(system)
    asked = asyncio.ensure_future(busy.ask(("until", tmp_path / "go", witness)))
    await begun.wait()
    unanswered = ref.ask("pid", timeout=None)
    await asyncio.sleep(0)
    while not system.ledger(ref).in_hand:  # noqa: ASYNC110 - it is sent in a tick of the loop
        await asyncio.sleep(0)
    getattr(ref, end)()
    with pytest.raises(ActorTerminated if end == "kill" else HandlerBroken):
        await unanswered
    (tmp_path / "go").touch()
    assert await asked == "done"
    if end == "restart":
        assert await ref.ask("pid") == pid
    await system.settle()
    ledger = system.ledger(ref)
    assert (ledger.lost, ledger.failed) == (1, 0)
    assert_ledger_balanced(system)


@pytest.mark.parametrize("what", ["until", "keep the lock"])
@HASTY
async def test_one_that_is_itself_to_end_and_does_not_let_go_takes_the_worker_with_it(
    system: ActorSystem, what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    idle = system.spawn(Hooked, dispatcher="process", name="idle")
    busy = system.spawn(Busy, dispatcher="process", name="busy")
    pid = await idle.ask("pid")
    witness, begun = witness_in(system)
    busy.tell(("until", tmp_path / "never", witness) if what == "until" else (what, witness))
    await begun.wait()
    busy.stop()
    assert (await busy.terminated()).kind is ExitKind.KILLED
    while await pid_of(idle) in (pid, None):
        pass
    await system.shutdown()
    assert any("was ended: /busy held it" in record.getMessage() for record in caplog.records)


@pytest.mark.config(
    dispatchers={"process": Process(workers=2)}, supervision=Supervision(backoff=None), stop_timeout=0.2
)
async def test_one_that_is_started_again_goes_where_nobody_holds_the_thread(
    system: ActorSystem, tmp_path: Path
) -> None:
    first, second, third = (system.spawn(kind, dispatcher="process") for kind in (Busy, Hooked, Hooked))
    pids = [await ref.ask("pid") for ref in (first, second, third)]
    assert pids[2] == pids[0] != pids[1]
    witness, begun = witness_in(system)
    asked = asyncio.ensure_future(first.ask(("until", tmp_path / "go", witness)))
    await begun.wait()
    third.restart()
    assert await third.ask("pid") == pids[1]
    assert not asked.done()
    (tmp_path / "go").touch()
    assert await asked == "done"


# -- one bad item among what a worker says


@pytest.mark.parametrize("by", ["handler", "filter"])
async def test_a_log_that_raises_on_one_record_of_a_guest_costs_that_record_only(
    system: ActorSystem, by: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    ref = system.spawn(Hooked, dispatcher="process")
    pid = await ref.ask("pid")
    with broken_logging("guest", by, "bad"):
        assert await ref.ask("log") == pid
    assert await ref.ask("pid") == pid
    await system.shutdown()
    assert "good record" in caplog.text
    assert "is broken" in capfd.readouterr().err


async def test_a_message_that_another_system_cannot_take_is_a_dead_letter() -> None:
    small = SystemConfig(dispatchers={"process": Process(workers=1, frame_limit=1 << 16)})
    async with ActorSystem("one", config=ONE) as one, ActorSystem("two", config=small) as two:
        letters: list[DeadLetter] = []
        one.dead_letters.subscribe(letters.append)
        ref = one.spawn(Teller, dispatcher="process")
        other = two.spawn(Teller, dispatcher="process")
        pid = await ref.ask("pid")
        await other.started()
        await ref.ask(("tell", other, "x" * 100_000, "small"))
        assert await ref.ask("pid") == pid
        await one.settle()
        assert [letter.recipient for letter in letters] == [other]
        assert "larger than the limit" in letters[0].reason
        await two.settle()
        assert two.ledger(other).handled == 1


# -- very many buffers, and what is no exception


@pytest.mark.parametrize(("count", "size"), [(5_000, 8), (1_200, 5_000)], ids=["small", "large"])
async def test_a_value_with_thousands_of_buffers_arrives_wherever_it_goes(
    system: ActorSystem, count: int, size: int
) -> None:
    heard: list[Any] = []
    ear = system.spawn(Ear, heard)
    ref = system.spawn(Teller, dispatcher="process")
    assert await ref.ask(Many(count, size)) == count
    for _ in range(3):
        ref.tell(Many(count // 2, size))
    await ref.ask(("tell many", ear, count))
    reply = await ref.ask(("reply", "many"))
    assert reply.is_as_made()
    assert (await ref.inspect())["many"].is_as_made()
    made = system.spawn(Keeps, Many(count, size), dispatcher="process")
    assert await made.ask("count") == count
    await system.settle()
    assert len(heard) == 1
    assert heard[0].is_as_made()
    assert_ledger_balanced(system)


class Keeps(Actor[Any, Any]):
    """Keeps what it is made with."""

    def __init__(self, many: Many) -> None:
        self.many = many

    def receive(self, message: Any) -> int:
        return len(self.many.parts)


async def test_a_message_that_panics_when_it_is_read_is_an_error_to_its_sender_alone(system: ActorSystem) -> None:
    ref, other = (system.spawn(Teller, dispatcher="process") for _ in range(2))
    pid = await other.ask("pid")
    with pytest.raises(WireError, match="Panic: read"):
        await ref.ask(PanicsWhenRead())
    ref.tell(PanicsWhenRead())
    assert await ref.ask("pid") == await other.ask("pid") == pid
    with pytest.raises(WireError, match="Panic: read"):
        await ref.ask(("reply", "panic"))
    with pytest.raises(NotSendable):
        await ref.ask(("reply", "unsendable panic"))
    with pytest.raises(NotSendable, match="Panic: sent"):
        ref.tell(PanicsWhenSent())
    assert await ref.ask("pid") == await other.ask("pid") == pid
    await system.settle()
    assert_ledger_balanced(system)


@pytest.mark.config(supervision=Supervision())
async def test_an_actor_whose_arguments_panic_is_a_failed_start(system: ActorSystem) -> None:
    other = system.spawn(Teller, dispatcher="process")
    pid = await other.ask("pid")
    ref = system.spawn(Keeps, PanicsWhenRead(), dispatcher="process")
    ref.stop()
    await ref.terminated()
    assert await other.ask("pid") == pid


async def test_what_a_guest_tells_the_main_process_that_panics_when_read_is_a_dead_letter(system: ActorSystem) -> None:
    heard: list[Any] = []
    ear = system.spawn(Ear, heard)
    ref = system.spawn(Teller, dispatcher="process")
    pid = await ref.ask("pid")
    await ref.ask(("tell a panic", ear))
    await ref.ask(("tell", ear, "good"))
    await system.settle()
    assert heard == ["good"]
    assert await ref.ask("pid") == pid
    assert any("cannot be read" in letter.reason for letter in system.dead_letters.recent())
