"""SIGINT and SIGTERM: the first ends a system gracefully, the second by force. In processes of their own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from greenroom import ActorSystem
from greenroom.errors import ConfigError
from greenroom.system.ending.signals import is_with_locks

DEADLINE = 120.0
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])

ACTORS = """
    import asyncio, signal, sys, threading, time
    from greenroom import Actor, ActorSystem, SystemConfig

    told = threading.Event()  # what `busy` has to tell; without a GIL it would be interrupted halfway
    told.set()

    class Slow(Actor):
        async def receive(self, message):
            if message == 0:
                told.wait()
                print("ready", flush=True)
            await asyncio.sleep(0.01)
            print("did", message, flush=True)

    class Stuck(Actor):
        async def receive(self, message):
            print("ready", flush=True)
            await asyncio.Event().wait()

        def post_stop(self):
            print("cleaned up", flush=True)

    class Spins(Actor):
        def receive(self, message):
            print("ready", flush=True)
            try:
                while True:
                    pass
            finally:
                print("broken off", flush=True)

    class Ends(Actor):
        def receive(self, message):
            self.ctx.system.stop()

    def busy(system):
        told.clear()
        ref = system.spawn(Slow)
        for number in range(5):
            ref.tell(number)
        told.set()
"""
RUN = "system = ActorSystem('demo', config=SystemConfig(drain_timeout=60.0))\n"
ASYNC = """
async def main():
    async with ActorSystem("demo", handle_signals=True, config=SystemConfig(drain_timeout=60.0)) as system:
        {body}
        await asyncio.Event().wait()
    print("after the block", system.report.signal)

asyncio.run(main())
"""
SYNC = """
with ActorSystem("demo", handle_signals=True, config=SystemConfig(drain_timeout=60.0)) as system:
    {body}
    threading.Event().wait(120)
print("after the block", system.report.signal)
"""
WAYS = {
    "run": RUN + "{body}\nsystem.run()\nprint('after the block', system.report.signal)",
    "async with": ASYNC,
    "with": SYNC,
}
EACH_WAY = pytest.mark.parametrize("way", list(WAYS))


class Program:
    """A program in a process of its own."""

    def __init__(self, source: str) -> None:
        code = textwrap.dedent(ACTORS) + textwrap.dedent(source)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.output = ""
        self.errors = ""

    def reads(self, text: str) -> None:
        """Wait until it has printed `text`."""
        assert self._process.stdout is not None
        line = b""
        # Byte by byte: what is read ahead would be lost to `communicate`.
        while more := os.read(self._process.stdout.fileno(), 1):
            line += more
            if more == b"\n":
                self.output += line.decode()
                if text in line.decode():
                    return
                line = b""
        pytest.fail(f"it ended before it said {text!r}: {self.output}")

    def says(self, line: str) -> None:
        """Give it a line to read."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def gets(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ends(self) -> int:
        output, self.errors = self._process.communicate(timeout=DEADLINE)
        self.output += output
        return self._process.returncode

    def has_said(self, text: str, seconds: float) -> bool:
        """Whether it prints a line within so many seconds, which must be this one."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return False
        self.reads(text)
        return True

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def running(source: str) -> Iterator[Program]:
    program = Program(source)
    try:
        yield program
    finally:
        program.kill()


@BOTH
@EACH_WAY
def test_the_first_signal_lets_the_system_finish_and_the_program_go_on(way: str, number: signal.Signals) -> None:
    with running(WAYS[way].format(body="busy(system)")) as program:
        program.reads("ready")
        program.gets(number)
        assert program.ends() == 0, program.errors
        assert [line for line in program.output.splitlines() if line.startswith("did")] == [
            f"did {number}" for number in range(5)
        ]
        assert f"after the block {int(number)}" in program.output
        assert program.errors == ""


@BOTH
@EACH_WAY
def test_the_second_signal_ends_the_system_at_once(way: str, number: signal.Signals) -> None:
    body = "import logging; logging.basicConfig(level='INFO', stream=sys.stdout); system.spawn(Stuck).tell('go')"
    with running(WAYS[way].format(body=body)) as program:
        program.reads("ready")
        program.gets(number)
        program.reads("a second signal ends it at once")
        program.gets(number)
        assert program.ends() == 128 + number, program.errors
        assert "cleaned up" in program.output
        assert "after the block" not in program.output
        assert "Traceback" not in program.errors + program.output


@BOTH
def test_a_handler_that_holds_the_thread_is_broken_off_by_another_signal(number: signal.Signals) -> None:
    with running(WAYS["run"].format(body="system.spawn(Spins).tell('go')")) as program:
        program.reads("ready")
        program.gets(number)
        while not program.has_said("broken off", 0.2):
            program.gets(number)
        assert program.ends() == 128 + number, program.errors
        assert "after the block" not in program.output


def test_a_signal_before_the_first_message_ends_it_too() -> None:
    source = WAYS["run"].format(body="threading.Timer(0.0, signal.raise_signal, [signal.SIGTERM]).start()")
    with running(source) as program:
        assert program.ends() in (0, -signal.SIGTERM)  # which is first, the timer or our handler, is up to the machine


@pytest.mark.parametrize("uvloop", [True, False])
@EACH_WAY
def test_signals_that_another_thread_takes_in_are_not_overheard(way: str, uvloop: bool) -> None:
    # As those that strike just before the main thread goes to sleep: nothing wakes it.
    body = """import logging; logging.basicConfig(level='INFO', stream=sys.stdout); system.spawn(Stuck).tell('go')
    def on_a_thread():
        for line in sys.stdin:
            signal.raise_signal(signal.SIGTERM)
    threading.Thread(target=on_a_thread, daemon=True).start()"""
    if way == "run":
        body = textwrap.dedent(body.replace("import logging", "    import logging"))
    elif way == "async with":
        body = body.replace("\n", "\n    ")
    source = WAYS[way].format(body=body)
    with running(source if uvloop else "sys.modules['uvloop'] = None\n" + source) as program:
        program.reads("ready")
        program.says("a line")
        program.reads("a second signal ends it at once")
        program.says("a line")
        assert program.ends() == 128 + signal.SIGTERM, program.errors
        assert "cleaned up" in program.output
        assert program.errors == ""


def test_a_condition_that_takes_its_lock_again_is_not_broken_off() -> None:
    class Lock:
        """Tells where it was used."""

        def __init__(self) -> None:
            self.used: list[tuple[str, bool]] = []
            self.is_held = False

        def acquire(self, *args: object) -> bool:
            frame = sys._getframe(1)
            self.used.append((frame.f_code.co_name, is_with_locks(frame)))
            free, self.is_held = not self.is_held, True
            return free

        def release(self) -> None:
            frame = sys._getframe(1)
            self.used.append((frame.f_code.co_name, is_with_locks(frame)))
            self.is_held = False

        def __enter__(self) -> bool:
            return self.acquire()

        def __exit__(self, *args: object) -> None:
            self.release()

    lock = Lock()
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    with condition:
        condition.wait(0.0)
    assert ("_acquire_restore", True) in lock.used
    assert ("_release_save", True) in lock.used
    assert ("__enter__", False) in lock.used  # that is no code of a condition's
    assert not is_with_locks(sys._getframe())


def test_another_signal_breaks_off_a_body_that_took_in_the_first() -> None:
    source = """
    with ActorSystem("demo", handle_signals=True) as system:
        system.spawn(Slow).tell(0)
        try:
            threading.Event().wait(120)
        except KeyboardInterrupt:
            print("goes on", flush=True)
        threading.Event().wait(120)
    """
    with running(source) as program:
        program.reads("ready")
        program.gets(signal.SIGINT)
        program.reads("goes on")
        program.gets(signal.SIGINT)
        assert program.ends() == 128 + signal.SIGINT, program.errors
        assert "Traceback" not in program.errors


def test_signals_can_be_told_to_somebody_else_as_well() -> None:
    source = """
    import socket
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno())
    with ActorSystem("demo", handle_signals=True) as system:
        signal.raise_signal(signal.SIGTERM)
    assert signal.set_wakeup_fd(-1) == writer.fileno()
    print("after the block", system.report.signal, reader.recv(1)[0])
    """
    with running(source) as program:
        assert program.ends() == 0, program.errors
        assert "after the block 15 15" in program.output
        assert program.errors == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_signal_to_a_forked_child_is_the_childs_own() -> None:
    source = """
    import os, warnings
    warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, of a fork where there are threads
    with ActorSystem("demo", handle_signals=True) as system:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, b"forked")
            time.sleep(120)
            os._exit(1)
        os.read(reader, 6)
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert system.spawn(Slow).ask_sync(1) is None  # by now the loop has heard what there is to hear
    print("after the block", system.report.signal)
    """
    with running(source) as program:
        assert program.ends() == 0, program.errors
        assert "after the block None" in program.output
        assert program.errors == ""


def test_a_body_may_have_asyncio_handle_signals_in_between() -> None:
    source = """
    async def main():
        loop = asyncio.get_running_loop()
        got = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, got.set)
        signal.raise_signal(signal.SIGUSR1)
        await got.wait()
        loop.remove_signal_handler(signal.SIGUSR1)

    import logging; logging.basicConfig(level='INFO', stream=sys.stdout)
    with ActorSystem("demo", handle_signals=True, config=SystemConfig(drain_timeout=60.0)) as system:
        asyncio.run(main())
        system.spawn(Stuck).tell("go")
        threading.Event().wait(120)
    """
    with running(source) as program:
        program.reads("ready")
        program.gets(signal.SIGTERM)
        program.reads("a second signal ends it at once")
        program.gets(signal.SIGTERM)
        assert program.ends() == 128 + signal.SIGTERM, program.errors
        assert "cleaned up" in program.output


def test_an_interrupt_while_a_block_ends_loses_nothing_without_a_word() -> None:
    source = """
    class Busy(Stuck):
        async def receive(self, message):
            while self.ctx.system.phase != "draining":
                await asyncio.sleep(0.001)
            await super().receive(message)

    try:
        with ActorSystem("demo", config=SystemConfig(drain_timeout=60.0)) as system:
            ref = system.spawn(Busy, name="busy")
            for _ in range(5):
                ref.tell("go")
    except KeyboardInterrupt:
        print("after the block", system.phase, system.report.discarded_count)
    """
    with running(source) as program:
        program.reads("ready")
        program.gets(signal.SIGINT)
        assert program.ends() == 0, program.errors
        assert "cleaned up" in program.output
        assert "after the block stopped 4" in program.output
        assert "discarded 4 messages: /busy 4" in program.errors


def test_a_handler_that_holds_the_systems_thread_is_left_behind_when_its_time_is_over() -> None:
    # Long before the end of the time that the whole system would have, which is that of this test.
    source = f"""
    held = threading.Event()

    def holds(ctx, message):
        held.set()
        threading.Event().wait()

    with ActorSystem("demo", config=SystemConfig(drain_timeout=0.1, stop_timeout=0.1)) as system:
        ref = system.spawn(holds, name="holds")
        for _ in range(5):
            ref.tell("go")
        held.wait()
        system.close(timeout={10 * DEADLINE})
    print("after the block", system.report.forced, system.report.discarded_count)
    """
    with running(source) as program:
        assert program.ends() == 0, program.errors
        assert "after the block ('/holds',) 4" in program.output
        assert "/holds holds the thread and cannot be interrupted; it is left behind, with 4 messages" in program.errors


def test_a_block_that_is_left_by_force_leaves_signals_as_they_were() -> None:
    source = """
    release = threading.Event()

    def holds(ctx, message):
        print("ready", flush=True)
        release.wait(120)

    try:
        with ActorSystem("demo", handle_signals=True) as system:
            system.spawn(holds).tell("go")
            threading.Event().wait(120)
    except KeyboardInterrupt:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.set_wakeup_fd(-1) == -1
        print("left by force", flush=True)
    release.set()
    """
    with running(source) as program:
        program.reads("ready")
        program.gets(signal.SIGINT)
        while not program.has_said("left by force", 0.2):
            program.gets(signal.SIGINT)
        assert program.ends() == 0, program.errors


@EACH_WAY
def test_nothing_is_left_of_the_handling_of_signals(way: str) -> None:
    ends = {"with": "pass #", "run": "system.spawn(Ends).tell(0)", "async with": "return print('after the block') #"}
    source = WAYS[way].format(body=ends[way])
    if way == "with":
        source = source.replace("threading.Event().wait(120)", "pass")
    # The first loop of a process leaves some behind.
    before = "import os\nwith ActorSystem(): pass\nbefore = sorted(os.listdir('/proc/self/fd'))\n"
    after = """
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
assert signal.set_wakeup_fd(-1) == -1
assert sorted(os.listdir('/proc/self/fd')) == before
"""
    with running(before + source + after) as program:
        assert program.ends() == 0, program.errors
        assert program.errors == ""


@pytest.mark.parametrize("way", ["async with", "with"])
def test_blocks_leave_signals_alone_unless_they_are_asked(way: str) -> None:
    source = WAYS[way].replace("handle_signals=True, ", "").format(body="busy(system)")
    with running(source) as program:
        program.reads("ready")
        program.gets(signal.SIGTERM)
        assert program.ends() == -signal.SIGTERM, program.errors
    with running(source) as program:
        program.reads("ready")
        program.gets(signal.SIGINT)
        assert program.ends() != 0
        assert "KeyboardInterrupt" in program.errors


def test_run_can_be_told_to_leave_signals_alone() -> None:
    source = WAYS["run"].replace("'demo', ", "'demo', handle_signals=False, ").format(body="busy(system)")
    with running(source) as program:
        program.reads("ready")
        program.gets(signal.SIGINT)
        assert program.ends() != 0
        assert "KeyboardInterrupt" in program.errors


def test_run_does_not_replace_a_handler_of_the_programs_own() -> None:
    body = """
    def mine(number, frame):
        print("mine", flush=True)
        system.stop()
    signal.signal(signal.SIGTERM, mine)
    system.spawn(Stuck, stop_timeout=0.3).tell('go')
    """
    with running(RUN + textwrap.dedent(body) + "system.run()\n") as program:
        program.reads("ready")
        program.gets(signal.SIGTERM)
        program.reads("mine")
        program.gets(signal.SIGINT)
        assert program.ends() == 0, program.errors


@EACH_WAY
def test_the_programs_handlers_are_back_when_the_system_has_ended(way: str) -> None:
    before = """
    def mine(number, frame): ...
    signal.signal(signal.SIGTERM, mine)
    """
    after = "print(signal.getsignal(signal.SIGTERM) is mine, signal.getsignal(signal.SIGINT))"
    source = WAYS[way].format(body="system.spawn(lambda ctx, message: ctx.system.stop()).tell('now')")
    source = source.replace("await asyncio.Event().wait()", "").replace("threading.Event().wait(120)", "")
    with running(textwrap.dedent(before) + source + "\n" + after) as program:
        assert program.ends() == 0, program.errors
        assert program.output.splitlines()[-1] == "True <built-in function default_int_handler>"


def test_signals_cannot_be_handled_on_another_thread_than_the_main_one() -> None:
    refused: list[BaseException] = []

    def elsewhere() -> None:
        try:
            with ActorSystem(handle_signals=True):
                pass
        except ConfigError as exc:
            refused.append(exc)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(DEADLINE)
    assert "main thread" in str(refused[0])


def test_a_bad_choice_is_refused() -> None:
    with pytest.raises(ConfigError, match="handle_signals"):
        ActorSystem(handle_signals="yes")  # type: ignore[arg-type]
