"""A user's program over the whole public surface: type checkers must find nothing wrong with it, and it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_type

import greenroom
from greenroom import (
    Actor,
    ActorRef,
    ActorSnapshot,
    ActorSystem,
    ActorTerminated,
    Asked,
    AskTimeout,
    Behavior,
    Behaviors,
    ChildTerminated,
    Context,
    DeadLetter,
    Directive,
    Drain,
    ExitKind,
    ExitReason,
    GreenroomError,
    Lane,
    Ledger,
    MailboxConfig,
    MailboxFull,
    ManualClock,
    Observer,
    Overflow,
    Props,
    ReceiveTimeout,
    Reply,
    Request,
    Signal,
    State,
    Supervision,
    SystemConfig,
    SystemSnapshot,
    Terminated,
    Timer,
    handles,
    props,
)
from greenroom.errors import ConfigError, NameTaken
from greenroom.pods import (
    Handles,
    KubeletConfig,
    Mates,
    Pod,
    PodPhase,
    ServiceHandle,
    ThreadModel,
    Troupe,
)
from greenroom.testing import TestProbe, assert_ledger_balanced


class Greeter(Actor[str, str]):
    def __init__(self, greeting: str = "hello") -> None:
        self.greeting = greeting

    def receive(self, message: str) -> str:
        return f"{self.greeting} {message}"


@dataclass(frozen=True)
class Add:
    amount: int


class Get(Request[int]):
    """Its reply is a number."""


class Describe(Request[str]):
    """Its reply is a text."""


class Counter(Actor[Add | Get | Describe, Any]):
    def __init__(self, start: int, *, step: int = 1) -> None:
        self.count = start
        self.step = step

    async def receive(self, message: Add | Get | Describe) -> int | str | None:
        await asyncio.sleep(0)
        match message:
            case Add(amount):
                self.count += amount * self.step
                return None
            case Get():
                return self.count
            case Describe():
                return f"{self.count}"


class Account(Actor[Add | Get]):
    """Dispatch by type; its reply type is left open."""

    answers = (ValueError, KeyError)

    def __init__(self) -> None:
        self.balance = 0

    @handles(Add)
    def on_add(self, message: Add) -> None:
        self.balance += message.amount

    @handles(Get)
    async def on_get(self, message: Get) -> int:
        return self.balance


class Anything(Actor):
    """Neither message nor reply is said."""

    def receive(self, message: Any) -> Any:
        return message


class Switch(Actor[str, bool]):
    """Returns behaviors as well as replies."""

    def receive(self, message: str) -> bool | Behavior:
        match message:
            case "off":
                return Behaviors.stopped
            case "broken":
                return Behaviors.failed(ValueError(message))
            case "unknown":
                return Behaviors.unhandled
            case "other":
                return Behaviors.receive(lambda ctx, message: True)
            case _:
                return True


class Full(Actor[str, str]):
    """Has every hook, and uses the whole context."""

    def __init__(self, peer: ActorRef[str, str]) -> None:
        self.peer = peer
        self.log: list[str] = []
        self.tick: Timer | None = None
        self.pending: list[Reply] = []

    async def pre_start(self) -> None:
        ctx = self.ctx
        assert_type(ctx, Context)
        child = ctx.spawn(Greeter, "child of")
        assert_type(child, ActorRef[str, str])
        named = ctx.spawn(Greeter, name="named", mailbox=MailboxConfig(capacity=10))
        assert_type(named, ActorRef[str, str])
        checked = ctx.spawn(props(Greeter, "hi"), name="checked", supervision=Supervision(Directive.STOP), env={})
        assert_type(checked, ActorRef[str, str])
        ctx.watch(child)
        ctx.watch(self.peer, message="the peer has ended")
        ctx.unwatch(self.peer)
        self.tick = ctx.send_after(10.0, ctx.self, "tick")
        ctx.send_every(10.0, child, "tick", fixed_rate=True).cancel()
        ctx.timers.start("key", 1.0, "tick", every=2.0)
        ctx.timers.cancel("key")
        ctx.set_receive_timeout(100.0)
        ctx.set_receive_timeout(None)

    def post_start(self) -> None:
        self.ctx.log.info("%s is running at %s", self.ctx.name, self.ctx.now())

    def receive(self, message: str) -> None:
        ctx = self.ctx
        sender: ActorRef[Any, Any] | None = ctx.sender
        parent: ActorRef[Any, Any] | None = ctx.parent
        children: list[ActorRef[Any, Any]] = ctx.children
        env: Mapping[str, Any] = ctx.env
        self.log.append(f"{message} {sender} {parent} {len(children)} {len(env)}")
        match message:
            case "reply":
                ctx.reply("answer")
            case "fail":
                ctx.fail_reply(ValueError("refused"))
            case "defer":
                reply = ctx.defer_reply()
                self.pending.append(reply)
                reply.send("deferred")
            case "forward":
                ctx.forward(self.peer)
            case "stash":
                ctx.stash()
                ctx.become(Behaviors.receive(self.other))
            case "pipe":
                ctx.pipe_to_self(self.work(), map=str, on_error=repr)
            case "stop child":
                ctx.stop(children[0])
            case "stop":
                ctx.stop()
            case _:
                pass

    def other(self, ctx: Context, message: str) -> None:
        ctx.become(self.other, push=True)
        ctx.unbecome()
        number: int = ctx.unstash() + ctx.unstash(2) + ctx.unstash_all()
        self.log.append(f"{number} unstashed")

    async def work(self) -> int:
        return 42

    def pre_stop(self) -> None:
        if self.tick is not None and self.tick.active:
            cancelled: bool = self.tick.cancel()
            self.log.append(f"cancelled {cancelled}")

    async def post_stop(self) -> None:
        await asyncio.sleep(0)

    def pre_restart(self, cause: BaseException | None) -> None:
        self.log.append(f"restart because of {cause}")

    async def post_restart(self) -> None:
        self.log.append("restarted")

    def on_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.log.append(f"{ref.name} ended with {cause}")

    async def on_child_terminated(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.log.append(f"child {ref.name} ended with {cause}")

    def on_signal(self, signal: Signal) -> None:
        match signal:
            case Terminated(ref=ref, reason=reason) | ChildTerminated(ref=ref, reason=reason):
                self.log.append(f"{ref.path}: {reason.kind}")
            case ReceiveTimeout():
                self.log.append("quiet")
            case _:
                pass

    def inspect(self, *items: str) -> Mapping[str, Any]:
        return {"log": len(self.log)}


def shout(ctx: Context, message: str) -> str:
    return message.upper()


async def shout_later(ctx: Context, message: str) -> str:
    await asyncio.sleep(0)
    return message.upper()


def make_greeter(greeting: str) -> Greeter:
    return Greeter(greeting)


def begin(ctx: Context) -> Behavior:
    ctx.log.debug("set up")
    return Behaviors.receive(shout, on_signal=lambda ctx, signal: None)


class Watcher:
    """An observer with every hook."""

    def __init__(self) -> None:
        self.count = 0

    def actor_started(self, ref: ActorRef[Any, Any]) -> None:
        self.count += 1

    def actor_stopped(self, ref: ActorRef[Any, Any], reason: ExitReason) -> None:
        self.count += 1

    def actor_restarted(self, ref: ActorRef[Any, Any], cause: BaseException | None) -> None:
        self.count += 1

    def escalated(self, ref: ActorRef[Any, Any], cause: BaseException) -> None:
        self.count += 1

    def mailbox_full(self, ref: ActorRef[Any, Any], message: object, lane: Lane) -> None:
        self.count += 1

    def message_dropped(self, ref: ActorRef[Any, Any], message: object, lane: Lane) -> None:
        self.count += 1

    def dead_letter(self, ref: ActorRef[Any, Any], message: object, sender: object, why: str) -> None:
        self.count += 1

    def slow_handler(self, ref: ActorRef[Any, Any], message: object, seconds: float) -> None:
        self.count += 1


class OneHook:
    """An observer with one of them."""

    def dead_letter(self, ref: Any, message: Any, sender: Any, why: str) -> None:
        pass


def note_letter(letter: DeadLetter) -> None:
    print(letter.message, letter.sender, letter.recipient, letter.reason, letter.time)


async def spawn_everything(system: ActorSystem) -> None:
    assert_type(system.spawn(Greeter), ActorRef[str, str])
    assert_type(system.spawn(Greeter, "hi"), ActorRef[str, str])
    assert_type(system.spawn(Greeter, greeting="hi"), ActorRef[str, str])
    assert_type(system.spawn(Counter, 5, step=2), ActorRef[Add | Get | Describe, Any])
    assert_type(system.spawn(Account), ActorRef[Add | Get, Any])
    assert_type(system.spawn(Anything), ActorRef[Any, Any])
    assert_type(system.spawn(Switch), ActorRef[str, bool])
    assert_type(system.spawn(make_greeter, "made"), ActorRef[str, str])
    parent = system.spawn(Greeter, "hi", name="greeter")
    assert_type(parent, ActorRef[str, str])
    assert_type(system.spawn(Greeter, mailbox=MailboxConfig(capacity=5)), ActorRef[str, str])
    assert_type(system.spawn(Greeter, drain=Drain.DROP), ActorRef[str, str])
    assert_type(system.spawn(Greeter, stop_timeout=30.0), ActorRef[str, str])
    assert_type(system.spawn(Greeter, drain=Drain.REDIRECT(parent)), ActorRef[str, str])
    assert_type(system.spawn(Greeter, env={"stage": "test"}), ActorRef[str, str])
    assert_type(system.spawn(Greeter, dispatcher="concurrent"), ActorRef[str, str])
    assert_type(system.spawn(Greeter, parent=parent), ActorRef[str, str])
    assert_type(
        system.spawn(Greeter, "hi", name="two", parent=parent, env={}, drain=Drain.DEAD_LETTER), ActorRef[str, str]
    )
    kept = props(Counter, 5, step=2)
    assert_type(kept, Props[Add | Get | Describe, Any])
    assert_type(system.spawn(kept), ActorRef[Add | Get | Describe, Any])
    assert_type(system.spawn(props(Greeter, "hi"), name="props", parent=parent), ActorRef[str, str])
    assert_type(
        system.spawn(
            props(Greeter, greeting="hi"),
            name="all options",
            mailbox=MailboxConfig(capacity=5),
            dispatcher="concurrent",
            supervision=Supervision(Directive.STOP),
            drain=Drain.DROP,
            env={"stage": "test"},
            parent=parent,
        ),
        ActorRef[str, str],
    )
    assert_type(system.spawn(shout), ActorRef[str, Any])
    assert_type(system.spawn(shout_later, name="later"), ActorRef[str, Any])
    assert_type(system.spawn(Behaviors.receive(shout)), ActorRef[Any, Any])
    assert_type(system.spawn(Behaviors.setup(begin), name="behavior"), ActorRef[Any, Any])
    assert_type(system.spawn(Behaviors.with_timers(lambda timers: Behaviors.receive(shout))), ActorRef[Any, Any])
    assert_type(system.spawn(Behaviors.with_stash(5, lambda stash: Behaviors.receive(shout))), ActorRef[Any, Any])
    system.spawn(lambda ctx, message: None).tell("anything")
    nameless = system.spawn(lambda ctx, message: None)
    nameless.tell("anything")
    system.spawn(lambda ctx, message: ctx.reply(message), name="lambda").tell("anything")


async def talk(system: ActorSystem) -> None:
    greeter = system.spawn(Greeter, greeting="hi")
    greeter.tell("world")
    greeter.tell("world", lane=Lane.CONTROL, sender=greeter)
    assert_type(greeter << "again" << "and again", ActorRef[str, str])
    await greeter.send("patiently", timeout=1.0, lane=Lane.LOG)
    asked = greeter.ask("world", timeout=1.0)
    assert_type(asked, Asked[str])
    assert_type(await asked, str)
    assert_type(await greeter.ask("world", timeout=None, lane=Lane.MANAGEMENT), str)
    counter = system.spawn(Counter, 0)
    counter << Add(2)
    assert_type(await counter.ask(Get()), int)
    assert_type(await counter.ask(Describe()), str)
    both = await asyncio.gather(counter.ask(Get()), greeter.ask("you"))
    assert_type(both, tuple[int, str])
    assert_type(await asyncio.to_thread(greeter.ask_sync, "thread"), str)
    assert_type(await asyncio.wait_for(counter.ask(Get()), 1.0), int)
    assert_type(await counter.ask(Get(), wait_for_room=True), int)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(counter.ask(Get()))
        assert_type(task, asyncio.Task[int])
    assert_type(await asyncio.shield(counter.ask(Get())), int)
    assert_type(await asyncio.create_task(greeter.ask("task")), str)
    future = greeter.ask("future").future()
    assert_type(future, asyncio.Future[str])
    done, _ = await asyncio.wait([future])
    assert len(done) == 1
    counter.ask(Get()).cancel()

    # Whoever takes more can stand where less is asked for, and whoever answers less where more is expected.
    anything: ActorRef[object, str] = system.spawn(shout_object)
    texts: ActorRef[str, object] = anything
    texts.tell("text")

    assert_type(greeter.state, State)
    assert_type((greeter.id, greeter.name, greeter.path, greeter.is_alive), tuple[int, str, str, bool])
    assert_type({greeter: 1}, dict[ActorRef[str, str], int])
    await greeter.started()
    assert_type(await greeter.inspect("log"), Mapping[str, Any])
    greeter.stop(after_queued=True)
    reason = await greeter.terminated()
    assert_type(reason, ExitReason)
    assert reason.kind is ExitKind.NORMAL
    counter.kill()
    anything.fail(ValueError("enough"))
    try:
        await greeter.ask("anyone?")
    except ActorTerminated as error:
        print(error.code, error.reason)
    except AskTimeout as late:
        print(late.timeout)


def shout_object(ctx: Context, message: object) -> str:
    return str(message).upper()


async def look(system: ActorSystem) -> None:
    assert_type(system.actor("greeter"), ActorRef[Any, Any] | None)
    assert_type(system.actors(), list[ActorRef[Any, Any]])
    assert_type(system.tree(), str)
    assert_type(system.snapshot(), SystemSnapshot)
    assert_type(system.snapshot().actors, tuple[ActorSnapshot, ...])
    assert_type(system.snapshot().to_json(), str)
    assert_type(system.ledger(), Ledger)
    assert_type(system.ledger(system.actors()[0]).handled, int)
    assert_type(system.clock.now(), float)
    assert_type(system.random.random(), float)
    watcher: Observer = Watcher()
    system.observers.add(watcher)
    system.observers.add(OneHook())
    system.observers.remove(watcher)
    unsubscribe = system.dead_letters.subscribe(note_letter)
    unsubscribe()
    system.dead_letters.subscribe(system.spawn(Anything))
    assert_type(system.dead_letters.count, int)
    assert_type(system.dead_letters.recent(), list[DeadLetter])
    await system.settle(timeout=5.0)


async def use_the_test_kit(system: ActorSystem, clock: ManualClock) -> None:
    probe = TestProbe(system, name="probe")
    full = system.spawn(Full, system.spawn(Greeter))
    await full.started()
    await probe.watch(full)
    assert await full.ask("reply") == "answer"
    probe.ref.tell(Add(3))
    assert_type(await probe.expect(Add), Add)
    await clock.advance(30.0)
    full.stop()
    assert_type(await probe.expect_terminated(full), Terminated)
    assert_type(assert_ledger_balanced(system), Ledger)


class Cancel:
    """Sent on the control lane."""


class BookPeers(Handles):
    log: ServiceHandle[str]


class BookMates(Mates):
    fees: Fees


class Fees(Actor[int, None]):
    def __init__(self) -> None:
        self.fee = 1

    def receive(self, message: int) -> None:
        self.fee = message


class Book(Actor[int | Cancel, None]):
    peers: BookPeers
    pod: BookMates

    async def receive(self, message: int | Cancel) -> None:
        await self.peers.log.asend(f"{message} and {self.pod.fees.fee}", lane=self.ctx.lane)
        assert_type(self.peers.log.try_send("more"), bool)


class Log(Actor[str, None]):
    def receive(self, message: str) -> None: ...


class Front(Handles):
    book: ServiceHandle[int, Cancel]


class Desk(Troupe[Front]):
    book = Pod(fees=Fees, book=Book, expose=("book",))
    log = Pod(Log, thread=ThreadModel.COOPERATIVE)


class Floor(Troupe):
    desk = Pod(Desk, watch=True)


def use_pods() -> None:
    with Desk.new(kubelet=KubeletConfig(core=0, max_restarts=10, within=60.0)) as desk:
        book = desk.exposed().book
        book.send(5)
        book.send(Cancel(), lane=Lane.CONTROL)
        assert_type(book.clone().waiting, int)
        assert_type(desk.status["book"].phase, PodPhase)
    assert_type(str(Floor.describe()), str)


async def main() -> None:
    use_pods()
    clock = ManualClock()
    config = SystemConfig(
        max_actors=1000,
        mailbox=MailboxConfig(capacity=100, overflow=Overflow.REJECT, lanes={Lane.CONTROL: 10}, priority=None),
        clock=clock,
        seed=7,
        env={"stage": "test"},
    )
    async with ActorSystem("demo", config=config) as system:
        assert_type(system, ActorSystem)
        await spawn_everything(system)
        await talk(system)
        await look(system)
        await use_the_test_kit(system, clock)
        await system.shutdown(timeout=5.0)
        await system.stopped()


def sync_main() -> None:
    with ActorSystem("plain") as system:
        greeter = system.spawn(Greeter)
        assert_type(greeter.ask_sync("world"), str)
        assert_type(greeter.ask_sync("world", wait_for_room=True), str)
        greeter.started_sync()
        greeter.send_sync("world", timeout=1.0)
        system.settle_sync()
        assert_type(greeter.inspect_sync(), Mapping[str, Any])
        greeter.stop()
        assert_type(greeter.terminated_sync(timeout=60.0), ExitReason)
        try:
            greeter.tell("x")
            system.spawn(Greeter, name="a")
            system.spawn(Greeter, name="a")
        except MailboxFull as full:
            print(full.message, full.ref)
        except NameTaken as taken:
            print(taken.path, taken.code)
        except ConfigError as bad:
            print(bad.field)
        except GreenroomError as error:
            print(error.code)
    running = ActorSystem("running", root=Behaviors.receive(lambda ctx, message: Behaviors.stopped))
    if running.root is not None:
        running.root.tell("stop")
    running.run()
    assert_type(greenroom.COMPILED, bool)


if __name__ == "__main__":
    asyncio.run(main())
    sync_main()
