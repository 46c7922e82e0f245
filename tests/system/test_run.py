"""A system in a program without asyncio: on a thread of its own by plain `with`, or on the caller's by `run()` (J2)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import pytest

from greenroom import Actor, ActorSystem, ActorTerminated, Context, SystemFailed, SystemStopped
from greenroom.errors import GreenroomError, InvalidDelay, NameTaken, NotStarted, WaitsForItself, WrongThread
from greenroom.exits import ExitKind
from greenroom.testing import assert_ledger_balanced
from tests.conformance.lives import report_of
from tests.conformance.sending import Echo

DEADLINE = 120.0


class AsyncEcho(Actor[Any, Any]):
    async def receive(self, message: Any) -> Any:
        await asyncio.sleep(0)
        return message


BOTH = pytest.mark.parametrize("echo", [Echo, AsyncEcho])


def names_of_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def wait_for_the_end(system: ActorSystem) -> None:
    asyncio.run(asyncio.wait_for(system.stopped(), DEADLINE))


# -- plain with


@BOTH
def test_a_sync_program_has_its_system_on_another_thread(echo: type[Actor[Any, Any]]) -> None:  # J2
    with ActorSystem("demo") as system:
        assert "demo" in names_of_threads()
        ref = system.spawn(echo, name="echo")
        assert [ref.ask_sync(number) for number in range(10)] == list(range(10))
        ref.tell("told")
        assert system.actor("echo") == ref
        assert system.actors() == [ref]
        assert "echo" in system.tree()
        assert [one.name for one in system.snapshot().actors] == ["echo"]
    assert "demo" not in names_of_threads()
    assert system.phase == "stopped"
    assert not ref.is_alive
    ledger = assert_ledger_balanced(system)
    assert (ledger.sent, ledger.handled + ledger.dead_lettered) == (11, 11)


def test_handlers_run_on_the_systems_thread_and_nowhere_else() -> None:
    with ActorSystem("demo") as system:

        def name_of_thread(ctx: Context, message: Any) -> str:
            return threading.current_thread().name

        ref = system.spawn(name_of_thread)
        assert {ref.ask_sync("who?") for _ in range(5)} == {"demo"}


def test_what_was_spawned_before_the_block_runs_in_it() -> None:
    system = ActorSystem()
    early = system.spawn(Echo, name="early")
    early.tell("queued")
    with system:
        assert early.ask_sync(1) == 1
        assert system.ledger(early).handled == 2


def test_errors_of_a_spawn_reach_the_thread_that_asked_for_it() -> None:
    with ActorSystem() as system:
        system.spawn(Echo, name="taken")
        with pytest.raises(NameTaken):
            system.spawn(Echo, name="taken")
        assert len(system.actors()) == 1


def test_an_error_in_the_block_goes_on_after_the_system_has_stopped() -> None:
    system = ActorSystem()
    ref = system.spawn(Echo)
    with pytest.raises(ZeroDivisionError), system:
        raise ZeroDivisionError
    assert system.phase == "stopped"
    assert not ref.is_alive


@pytest.mark.parametrize("cause", [ValueError("bad"), KeyboardInterrupt(), SystemExit(3)])
def test_leaving_the_block_raises_the_failure_that_ended_the_system(cause: BaseException) -> None:
    def handler(ctx: Context, message: Any) -> None:
        ctx.system.fail(cause)

    system = ActorSystem()
    system.spawn(handler).tell("now")
    with pytest.raises(SystemFailed) as caught, system:
        wait_for_the_end(system)
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_handler_that_raises_one_of_the_great_exceptions_ends_the_system(kind: type[BaseException]) -> None:
    def handler(ctx: Context, message: Any) -> None:
        raise kind

    system = ActorSystem()
    system.spawn(handler).tell("now")
    with pytest.raises(SystemFailed) as caught, system:
        wait_for_the_end(system)
    assert isinstance(caught.value.__cause__, kind)


def test_a_system_that_stopped_by_itself_can_be_left() -> None:
    with ActorSystem("demo") as system:
        ref = system.spawn(stop)
        ref.tell("stop")
        wait_for_the_end(system)
        assert system.phase == "stopped"
        with pytest.raises(SystemStopped):
            system.spawn(Echo)
        with pytest.raises(ActorTerminated):
            ref.ask_sync("anyone?")
        ref.tell("late")
    assert "demo" not in names_of_threads()
    assert_ledger_balanced(system)


def test_close_can_be_called_again() -> None:
    with ActorSystem() as system:
        system.close()
        system.close()
        assert system.phase == "stopped"
    system.close()


def test_close_is_for_systems_with_a_thread_of_their_own() -> None:
    with pytest.raises(NotStarted):
        ActorSystem().close()


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), "soon", None])
def test_close_needs_a_timeout_that_is_one(timeout: Any) -> None:
    with ActorSystem() as system:
        with pytest.raises(InvalidDelay):
            system.close(timeout)
        assert system.phase == "running"


@pytest.mark.parametrize("wait", [lambda ctx: ctx.system.close(), lambda ctx: ctx.self.ask_sync("me")])
def test_a_handler_cannot_block_its_own_thread_for_itself(wait: Callable[[Context], Any]) -> None:
    def handler(ctx: Context, message: Any) -> None:
        wait(ctx)

    with ActorSystem() as system, pytest.raises((WaitsForItself, WrongThread)):
        system.spawn(handler).ask_sync("block")


def test_a_block_can_be_entered_once() -> None:
    system = ActorSystem()
    with system, pytest.raises(GreenroomError):
        system.__enter__()
    with pytest.raises(SystemStopped):
        system.__enter__()


def test_a_handler_that_never_returns_is_named_and_left_behind(caplog: pytest.LogCaptureFixture) -> None:  # case 57
    gate = threading.Event()
    entered = threading.Event()

    def stuck(ctx: Context, message: Any) -> None:
        entered.set()
        gate.wait(DEADLINE)

    with ActorSystem("demo") as system:
        ref = system.spawn(stuck, name="stuck")
        ref.tell("go")
        assert entered.wait(DEADLINE)
        system.close(timeout=0.0)
        assert report_of(system).forced == ("/stuck",)
        record: Any = caplog.records[-1]
        assert record.getMessage().startswith("demo: /stuck holds the thread")
        assert (record.actor, record.actor_id, record.system) == ("/stuck", ref.id, "demo")
        gate.set()
    assert "demo" not in names_of_threads()


def test_refs_can_be_awaited_from_another_threads_loop() -> None:
    with ActorSystem() as system:

        async def main() -> Any:
            ref = system.spawn(AsyncEcho)
            await ref.started()
            answers = await asyncio.gather(*(ref.ask(number) for number in range(50)))
            ref.stop()
            return answers, (await ref.terminated()).kind

        assert asyncio.run(main()) == (list(range(50)), ExitKind.NORMAL)


# -- run()


def stop(ctx: Context, message: Any) -> None:
    ctx.system.stop()


def stop_at_once(system: ActorSystem) -> None:
    system.spawn(stop).tell("stop")


def stop_by_async_handler(system: ActorSystem) -> None:
    async def handler(ctx: Context, message: Any) -> None:
        await asyncio.sleep(0)
        await ctx.system.shutdown()

    system.spawn(handler).tell("stop")


def stop_by_thread(system: ActorSystem) -> None:
    threading.Timer(0.05, system.stop).start()  # by then there is nothing to do but poll


@pytest.mark.parametrize("way", [stop_at_once, stop_by_async_handler, stop_by_thread])
def test_run_blocks_until_the_system_is_stopped(way: Callable[[ActorSystem], None]) -> None:  # J2
    system = ActorSystem("demo")
    ref = system.spawn(Echo)
    way(system)
    system.run()
    assert system.phase == "stopped"
    assert not ref.is_alive
    assert_ledger_balanced(system)


def test_run_is_on_the_calling_thread() -> None:
    threads: list[int] = []

    def handler(ctx: Context, message: Any) -> None:
        threads.append(threading.get_ident())
        ctx.system.stop()

    system = ActorSystem()
    system.spawn(handler).tell("go")
    system.run()
    assert threads == [threading.get_ident()]


def test_run_on_another_thread_serves_the_first() -> None:
    runs = threading.Event()
    system = ActorSystem(root=lambda ctx, message: runs.set())
    assert system.root is not None
    system.root.tell("are you there?")
    ref = system.spawn(AsyncEcho)
    thread = threading.Thread(target=system.run)
    thread.start()
    assert runs.wait(DEADLINE)
    assert ref.ask_sync(1, timeout=DEADLINE) == 1
    system.stop()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert system.phase == "stopped"


@pytest.mark.parametrize("cause", [ValueError("bad"), KeyboardInterrupt(), SystemExit(3)])
def test_run_raises_the_failure_that_ended_the_system(cause: BaseException) -> None:
    def handler(ctx: Context, message: Any) -> None:
        ctx.system.fail(cause)

    system = ActorSystem()
    system.spawn(handler).tell("now")
    with pytest.raises(SystemFailed) as caught:
        system.run()
    assert caught.value.__cause__ is cause


def test_run_of_a_system_that_is_over_is_refused() -> None:
    system = ActorSystem()
    stop_at_once(system)
    system.run()
    with pytest.raises(SystemStopped):
        system.run()
    early = ActorSystem()
    early.stop()
    with pytest.raises(SystemStopped):
        early.run()


INTERRUPTED = """
    import asyncio, os, signal, sys, threading
    from greenroom import Actor, ActorSystem

    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    class Witness(Actor):
        def pre_start(self):
            if sys.argv[1] == "idle":
                threading.Timer(0.05, interrupt).start()
            else:
                self.ctx.self.tell(0)

        {handler}

        def pre_stop(self):
            print("pre_stop", flush=True)

        async def post_stop(self):
            await asyncio.sleep(0)
            print("post_stop", flush=True)

    system = ActorSystem(sys.argv[1], root=Witness)
    try:
        system.run()
    finally:
        print(system.phase, system.ledger().balanced, flush=True)
"""

SYNC_HANDLER = """
        def receive(self, message):
            if message == 1000:
                interrupt()
            self.ctx.self.tell(message + 1)
"""

ASYNC_HANDLER = """
        async def receive(self, message):
            if message == 1000:
                interrupt()
            await asyncio.sleep(0)
            self.ctx.self.tell(message + 1)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no way to send oneself a Ctrl-C")
@pytest.mark.parametrize(("when", "handler"), [("idle", SYNC_HANDLER), ("busy", SYNC_HANDLER), ("busy", ASYNC_HANDLER)])
def test_ctrl_c_ends_run_in_good_order(when: str, handler: str) -> None:  # J2
    program = textwrap.dedent(INTERRUPTED.format(handler=handler.strip()))
    command = [sys.executable, "-c", program, when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.stdout.split("\n") == ["pre_stop", "post_stop", "stopped True", ""], done.stderr
    assert done.stderr == ""
    assert done.returncode == 0


def ends_with(source: str) -> str:
    """What a program says to standard error."""
    code = "from greenroom import Actor, ActorSystem\n" + textwrap.dedent(source)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE, check=True)
    return done.stderr


def test_a_system_that_was_never_started_is_told_of_when_the_program_ends() -> None:
    started = """
    def work(ctx, message):
        pass

    {}
    ref = system.spawn(work)
    ref.tell(1)
    ref.tell(2)
    """
    line = ends_with(started.format("system = ActorSystem('shop')"))
    assert line == ("shop was never started, so 2 messages were never handled: use `with`, `async with` or `run()`\n")
    assert ends_with(started.format("system = ActorSystem('shop').__enter__()")) == ""
    assert ends_with("system = ActorSystem('shop').spawn(lambda ctx, message: None)") == ""
