"""Actors that tests put into worker processes, defined where those can import them; and how tests watch them."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greenroom import Actor, ActorRef, ActorSystem, Behaviors, Context, Terminated
from greenroom.errors import AskTimeout, WorkerLost


@dataclass
class Order:
    """A message with something to send."""

    item: str
    reply_to: ActorRef[Any, Any]


class Unreadable:
    """Can be pickled here, and unpickled nowhere."""

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise ImportError("no such module here")


class Odd(Exception):
    """Cannot be pickled: it holds a lock; and its constructor wants more than its text."""

    def __init__(self, text: str, lock: Any) -> None:
        super().__init__(text)
        self.lock = lock


class Echo(Actor[Any, Any]):
    """Answers with what it got; does what some words say."""

    def receive(self, message: Any) -> Any:
        if not isinstance(message, str):
            return message
        match message:
            case "pid":
                return os.getpid()
            case "crash":
                raise ValueError("on purpose")
            case "odd":
                raise Odd("odd one", asyncio)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(3)
            case "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "lambda":
                return lambda: 1
            case "unhandled":
                return Behaviors.unhandled
            case "stop":
                return Behaviors.stopped
            case "who":
                ctx = self.ctx
                return (ctx.self, ctx.name, ctx.parent, ctx.self.path, ctx.sender, ctx.lane, dict(ctx.env))
        return message


class Counter(Actor[Any, Any]):
    """Counts, and says how far it is."""

    def __init__(self, start: int = 0) -> None:
        self.count = start

    def receive(self, message: Any) -> Any:
        if message == "count":
            return self.count
        if message == "pid":
            return os.getpid()
        if message == "crash":
            raise ValueError("on purpose")
        self.count += 1
        return None


async def _something_else() -> None:
    """Wait for what is no answer."""
    aio = asyncio.get_running_loop()
    future = aio.create_future()
    aio.call_soon(future.set_result, None)
    await future


async def _give_up(way: str, question: Any) -> None:
    """Wait for an answer, but not for long."""
    if way == "cancelled":
        asyncio.get_running_loop().call_later(0.001, question.cancel)
        with suppress(asyncio.CancelledError):
            await question
    else:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await question


class Clerk(Actor[Any, Any]):
    """Uses the refs it is sent."""

    async def receive(self, message: Any) -> Any:
        if isinstance(message, list):
            return [await self.receive(one) for one in message]
        match message:
            case Order(item, reply_to):
                reply_to.tell(("sold", item))
            case ("ask", ref, question):
                return await ref.ask(question)
            case ("ask", ref, question, timeout):
                return await ref.ask(question, timeout=timeout)
            case ("ask late", ref, question):
                await _something_else()
                return await ref.ask(question, timeout=None)
            case ("await late", ref, question):
                asked = ref.ask(question, timeout=None)
                await _something_else()
                return await asked
            case ("give up", way, ref, witness, until_end_of):
                await _give_up(way, ref.ask("?", timeout=None))
                witness.tell("gave up")
                await until_end_of.terminated()
            case ("tell", ref, *words):
                for word in words:
                    ref.tell(word)
            case ("send", ref, word):
                await ref.send(word)
            case ("state", ref):
                return ref.state, ref.is_alive
            case ("end of", ref):
                return await ref.terminated()
            case ("stop", ref):
                ref.stop()
            case ("same", one, other):
                return one == other and hash(one) == hash(other) and one == self.ctx.self
        return None


class Keeper(Actor[Any, Any]):
    """Spawns, watches and stops others."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def receive(self, message: Any) -> Any:
        ctx = self.ctx
        match message:
            case ("spawn", factory, options):
                return ctx.spawn(factory, **options)
            case ("watch", ref):
                ctx.watch(ref)
            case "children":
                return ctx.children
            case ("stop child", ref):
                ctx.stop(ref)
            case "told":
                return self.told
            case "log":
                ctx.log.warning("from %s", "afar")
            case "tree":
                return ctx.system.tree(), ctx.system.name, ctx.system.actor(ctx.self.path)
            case _:
                self.told.append(message)
        return None

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.told.append(("terminated", ref, cause))

    def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.told.append(("child", ref.name))


class Hooked(Actor[Any, Any]):
    """Tells a witness what is called, and where."""

    def __init__(self, witness: ActorRef[Any, Any]) -> None:
        self.witness = witness
        self.state = 0

    def say(self, *words: Any) -> None:
        self.witness.tell(words)

    async def pre_start(self) -> None:
        await asyncio.sleep(0)
        self.say("pre_start")

    def post_start(self) -> None:
        self.say("post_start")

    def pre_stop(self) -> None:
        self.say("pre_stop")

    async def post_stop(self) -> None:
        await asyncio.sleep(0)
        self.say("post_stop")

    def pre_restart(self, cause: BaseException | None) -> None:
        self.say("pre_restart", repr(cause))

    def post_restart(self) -> None:
        self.say("post_restart")

    def snapshot(self) -> Any:
        return {"state": self.state}

    def restore(self, state: Any) -> None:
        self.state = state["state"]
        self.say("restore", self.state)

    def inspect(self, *items: str) -> dict[str, Any]:
        return {"state": self.state, "items": items, "pid": os.getpid()}

    def receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        self.state = message
        return os.getpid()


class Relay(Actor[Any, Any]):
    """Passes on what it gets."""

    def __init__(self, to: Any) -> None:
        self.to = to

    def receive(self, message: Any) -> None:
        if message == "atexit":
            atexit.register((self.to / "left").touch)
        else:
            self.to.tell(message)


class Fragile(Actor[int, Any]):
    """Tells a witness what it handles, and fails on each so-manieth."""

    def __init__(self, witness: ActorRef[Any, Any], every: int) -> None:
        self.witness = witness
        self.every = every

    def receive(self, message: int) -> None:
        if message % (self.every + 1) == self.every:
            raise ValueError("on purpose")
        self.witness.tell((message, os.getpid()))


class Picky(Exception):
    """Can be pickled, and not be made again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Troubled(Actor[Any, Any]):
    """Does what is hard on those who carry it out."""

    def __init__(self, *anything: Any) -> None:
        self.seen: list[Any] = []

    def receive(self, message: Any) -> Any:
        ctx = self.ctx
        match message:
            case "seen":
                return self.seen
            case "pid":
                return os.getpid()
            case "picky":
                raise Picky(1, 2)
            case ("tell", ref, what):
                ref.tell({"picky": Picky(1, 2), "unreadable": Unreadable(), "picky inside": [Picky(1, 2)]}[what])
            case ("reply", "unreadable"):
                return Unreadable()
            case ("reply", "picky"):
                return Picky(1, 2)
            case "log":
                ctx.log.warning("odd", extra={"odd": Picky(1, 2)})
            case ("flood", ref, count, size):
                for _ in range(count):
                    ref.tell(bytes(size))
                return _peak_memory()
            case ("raise", size):
                raise ValueError("x" * size)
            case ("stash and unstash", again):
                if len(self.seen) == again:
                    ctx.stash()
                    self.seen.append(ctx.unstash_all())
                else:
                    self.seen.append("again")
            case "stash and raise":
                ctx.stash()
                raise ValueError("on purpose")
            case ("ask in a thread", ref):
                answers: list[Any] = []
                thread = threading.Thread(target=lambda: answers.append(ref.ask_sync("pid")))
                thread.start()
                ctx.pipe_to_self(asyncio.to_thread(thread.join), lambda _: ("asked", answers[0]))
            case ("watch", ref):
                ctx.watch(ref)
            case _:
                self.seen.append(message)
        return None

    def inspect(self, *items: str) -> dict[str, Any]:
        if "die" in items:
            os.kill(os.getpid(), signal.SIGKILL)
        return {}

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.seen.append(type(cause).__name__)

    def __del__(self) -> None:
        self.seen.clear()


def _peak_memory() -> int:
    """Bytes that this process has had at most. `getrusage` would count those of the one that started it, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class Slow(Actor[Any, Any]):
    """Takes its time: blocking, or awaiting."""

    async def receive(self, message: Any) -> Any:
        match message:
            case ("block", seconds, witness):
                witness.tell("begun")
                time.sleep(seconds)  # noqa: ASYNC251 - it is there to block
            case ("await", seconds):
                await asyncio.sleep(seconds)
            case "pid":
                return os.getpid()
        return message


class Stasher(Actor[Any, Any]):
    """Puts everything aside until it is opened."""

    def __init__(self) -> None:
        self.opened = False
        self.seen: list[Any] = []

    def receive(self, message: Any) -> Any:
        if message == "seen":
            return self.seen
        if message == "open":
            self.opened = True
            return self.ctx.unstash_all()
        if message == "crash":
            raise ValueError("on purpose")
        if not self.opened:
            self.ctx.stash()
        else:
            self.seen.append(message)
        return None


def meet(ctx: Context, places: tuple[Path, Path]) -> bool:
    """Holds its process until another handler has come, and lets that know that it has."""
    mine, theirs = places
    mine.touch()
    deadline = time.monotonic() + 120.0
    while not theirs.exists() and time.monotonic() < deadline:
        pass
    return theirs.exists()


def switching(ctx: Context, message: Any) -> Any:
    """Becomes another behavior, and back."""
    if message == "switch":
        return Behaviors.receive(switched, on_signal=signalled)
    return "first"


def switched(ctx: Context, message: Any) -> Any:
    """The other one."""
    if message == "back":
        ctx.become(switching)
        return None
    if isinstance(message, ActorRef):
        ctx.watch(message)
        return None
    return "second"


def signalled(ctx: Context, signal: Any) -> Any:
    """Takes the end of others."""
    return Behaviors.same if isinstance(signal, Terminated) else None


class Blocker(Actor[Any, Any]):
    """Waits for others, in plain functions."""

    def receive(self, message: Any) -> Any:
        match message:
            case ("send", ref, what, timeout):
                return ref.send_sync(what, timeout=timeout)
            case ("ask", ref, what, timeout, waits):
                return ref.ask_sync(what, timeout=timeout, wait_for_room=waits)
            case ("started", ref):
                return ref.started_sync(120.0)
            case ("terminated", ref, timeout):
                return ref.terminated_sync(timeout)
            case ("inspect", ref):
                return ref.inspect_sync(timeout=120.0)
            case "settle":
                return self.ctx.system.settle_sync()
            case ("fill itself", ref):
                ref.send_sync("one")
                ref.send_sync("two")
            case ("note the time", action):
                try:
                    self.receive(action)
                except TimeoutError:
                    return self.ctx.now()
        return message


class AsyncBlocker(Actor[Any, Any]):
    """Asks as a coroutine does, and tries what only plain functions may do."""

    async def receive(self, message: Any) -> Any:
        match message:
            case ("ask", ref, what):
                self.ctx.pipe_to_self(self.answer(self.ctx.defer_reply(), ref, what))
            case ("give up", ref, what):
                asked = ref.ask(what, timeout=None, wait_for_room=True)
                assert asked.cancel()
                return "gave up"
            case ("from a thread", ref, what):
                try:
                    await asyncio.to_thread(ref.ask_sync, what, timeout=0.01, wait_for_room=True)
                except TimeoutError as exc:
                    return type(exc).__name__
            case ("block", name, ref):
                getattr(ref, name)(*(["x"] if name in ("send_sync", "ask_sync") else []))
        return None

    async def answer(self, reply: Any, ref: Any, what: Any) -> None:
        reply.send(await ref.ask(what, timeout=None, wait_for_room=True))


class Sleeper(Actor[Any, Any]):
    """Notes the time of each message, or waits for something that never happens."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    async def receive(self, message: Any) -> Any:
        match message:
            case "moments":
                return self.moments
            case "wait for ever":
                await asyncio.get_running_loop().create_future()
            case "block, and say so twice":
                with self.ctx.blocking():
                    with self.ctx.blocking():
                        pass
                    threading.Event().wait(600.0)
            case ("gather", others):
                await asyncio.gather(*(other.ask(turns, timeout=None) for turns, other in enumerate(others)))
            case ("task beside an ask", silent, other):
                task = asyncio.ensure_future(self.note_after_an_answer(other))
                with suppress(AskTimeout):
                    await silent.ask("?", timeout=5.0)
                await task
            case ("pipe", other):
                self.ctx.pipe_to_self(self.work_after_an_answer(other))
                return None
        self.moments.append(self.ctx.now())
        return None

    async def note_after_an_answer(self, other: Any) -> None:
        await self.work_after_an_answer(other)
        self.moments.append(self.ctx.now())

    async def work_after_an_answer(self, other: Any) -> str:
        await other.ask(3, timeout=None)
        time.sleep(0.1)  # noqa: ASYNC251 - it is at work, and nobody else in this process is
        return "piped"


class Cleaner(Actor[Any, Any]):
    """Takes its time to clean up when it is cancelled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def receive(self, message: str) -> Any:
        if message == "wait for ever":
            self.file.with_suffix(".begun").touch()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0.05)
                self.file.touch()
        return message


class Fickle:
    """Can be pickled when it is told, and not when it is sent."""

    def __init__(self) -> None:
        self.times = 0

    def __reduce__(self) -> Any:
        self.times += 1
        if self.times > 1:
            raise ValueError("only once")
        return str, ()


def witness_in(system: ActorSystem) -> tuple[Any, asyncio.Event]:
    """An actor at home that is told when something has begun, and what that sets."""
    begun = asyncio.Event()
    return system.spawn(lambda ctx, message: begun.set()), begun


async def pid_of(ref: Any) -> int | None:
    """The worker that `ref` is in; None if that ends before it can say so."""
    try:
        pid: int = await ref.ask("pid")
    except WorkerLost:
        return None
    return pid
