"""Every error: one base, a code of its own, its data kept by pickle, and a text that says what to do next."""

import copy
import pickle
from asyncio import CancelledError
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from greenroom import errors
from greenroom.errors import (
    ActorTerminated,
    AlreadyAttached,
    AlreadyReplied,
    AskDeadlock,
    AskTimeout,
    BadArgument,
    ChildExists,
    ChildRestarting,
    ChildRunning,
    ClockHeldUp,
    ConfigError,
    ConnectionClosed,
    ConnectTimeout,
    DeathPact,
    DispatcherExists,
    FailedElsewhere,
    Fatal,
    FrameError,
    FrameTooLarge,
    GreenroomError,
    HandleHeld,
    HandlerAbandoned,
    HandlerBroken,
    HandlerConflict,
    HandshakeFailed,
    HookError,
    HttpError,
    InjectedFault,
    InternalError,
    InvalidDelay,
    InvalidName,
    LinkBroken,
    LoopBusy,
    LoopStopped,
    MailboxFull,
    ManifestError,
    MessageDropped,
    MetaCannotAsk,
    MetaCannotCompress,
    MetaCannotLink,
    MetaCannotMonitor,
    MetaCannotReply,
    MetaCannotSetLane,
    MetaCannotSpawnActors,
    MetaCannotWatch,
    MetaEnded,
    MetaNotSpawned,
    MetaRefused,
    MetaSpawnedBefore,
    NameTaken,
    NoMessage,
    NoSuchChild,
    NotAMeta,
    NotAnActor,
    NotAwaited,
    NoThread,
    NotInWorker,
    NotSendable,
    NotStarted,
    PodGone,
    PodRestartLimit,
    ProgramFailed,
    RefGone,
    RestartLimit,
    RingFull,
    SendTimeout,
    SettleTimeout,
    SimulationEndless,
    SimulationRefused,
    SimulationStuck,
    StartTimeout,
    StashFull,
    StaysAtHome,
    SystemFailed,
    SystemStopped,
    TooManyActors,
    TooManyChildren,
    TooManyTimers,
    TooManyWatches,
    TroupeEnding,
    TroupeFailed,
    Unhandled,
    UnknownDispatcher,
    WaitsForItself,
    WaitTimeout,
    WatchError,
    WireError,
    WorkerLost,
    WrongLoop,
    WrongThread,
)
from greenroom.lanes import Lane


class Sample(NamedTuple):
    """An error as it is raised, the data a handler finds in it, and what its text must tell."""

    error: GreenroomError
    data: dict[str, Any]
    tells: tuple[str, ...]


SAMPLES = [
    Sample(GreenroomError("anything"), {}, ("anything",)),
    Sample(
        ConfigError("capacity", 0, "must be at least 1"),
        {"field": "capacity", "value": 0},
        ("capacity", "0", "must be at least 1"),
    ),
    Sample(
        MailboxFull("/parent/child", ("order", 7), Lane.DATA, 65_536),
        {"ref": "/parent/child", "message": ("order", 7), "lane": Lane.DATA, "capacity": 65_536},
        ("/parent/child", "65536", "DATA", ".message", "send_sync", "capacity", "overflow"),
    ),
    Sample(TooManyActors(10), {"limit": 10}, ("10", "stop some", "max_actors")),
    Sample(TooManyActors(1), {"limit": 1}, ("1 actor is alive",)),
    Sample(TooManyTimers(11), {"limit": 11}, ("11", "cancel some", "max_timers")),
    Sample(TooManyWatches(12), {"limit": 12}, ("12", "unwatch some", "max_io_watches")),
    Sample(NotAMeta("spawn_meta() takes a MetaProcess, not 7"), {}, ("MetaProcess", "7")),
    Sample(MetaNotSpawned("Port", "`send()`"), {"operation": "`send()`"}, ("Port", "`send()`", "ctx.spawn_meta")),
    Sample(MetaSpawnedBefore("Port"), {"meta": "Port"}, ("Port", "make a new one", "restart")),
    Sample(MetaRefused("/a", "fly", "it is heavy"), {"ref": "/a", "operation": "fly"}, ("/a", "fly", "heavy")),
    Sample(MetaCannotAsk("/a"), {"ref": "/a", "operation": "ask"}, ("/a", "ask", "send()")),
    Sample(MetaCannotLink("/a"), {"ref": "/a", "operation": "link"}, ("/a", "link", "ctx.link(alias)")),
    Sample(MetaCannotMonitor("/a"), {"ref": "/a", "operation": "monitor"}, ("/a", "monitor", "parent")),
    Sample(MetaCannotWatch("/a"), {"ref": "/a", "operation": "watch"}, ("/a", "watch", "parent")),
    Sample(MetaCannotSpawnActors("/a", "Echo"), {"ref": "/a", "operation": "spawn Echo"}, ("/a", "Echo", "parent")),
    Sample(
        MetaCannotReply("/a", "asleep"),
        {"ref": "/a", "operation": "defer a reply", "state": "asleep"},
        ("/a", "asleep", "handle_call()"),
    ),
    Sample(
        MetaCannotSetLane("/a", "asleep"),
        {"ref": "/a", "operation": "set `send_lane`", "state": "asleep"},
        ("/a", "asleep", "MetaOptions"),
    ),
    Sample(
        MetaCannotCompress("/a", "asleep"),
        {"ref": "/a", "operation": "set `compression`", "state": "asleep"},
        ("/a", "asleep", "MetaOptions"),
    ),
    Sample(MetaEnded("/a"), {"ref": "/a", "operation": "spawn"}, ("/a", "terminated", "init()")),
    Sample(
        NotInWorker("/a", "spawn_meta()", "let another"),
        {"ref": "/a", "operation": "spawn_meta()"},
        ("/a", "worker process", "spawn_meta()", "let another"),
    ),
    Sample(FrameError("a frame has 4 bytes here"), {}, ("4 bytes",)),
    Sample(ConnectionClosed("/a", "eof"), {"ref": "/a", "reason": "eof"}, ("/a", "write", "eof")),
    Sample(HttpError(404, "no such book"), {"status": 404, "text": "no such book"}, ("404", "no such book")),
    Sample(ProgramFailed("sort", 2), {"command": "sort", "status": 2}, ("sort", "status 2")),
    Sample(ProgramFailed("sort", -9), {"command": "sort", "status": -9}, ("sort", "signal 9")),
    Sample(AlreadyAttached("this loop is attached already: detach it first"), {}, ("detach",)),
    Sample(WrongLoop("/a"), {"ref": "/a"}, ("/a", "send it a message")),
    Sample(WaitsForItself("a handler waits for its own loop"), {}, ("handler",)),
    Sample(HookError("Spy has none of the hooks"), {}, ("Spy", "hooks")),
    Sample(WatchError(-1, "it is closed"), {"fd": -1}, ("-1", "it is closed")),
    Sample(InvalidDelay("interval", -0.5), {"value": -0.5}, ("interval", "-0.5", "finite", "zero or more")),
    Sample(LoopStopped("this loop has stopped"), {}, ("stopped",)),
    Sample(WrongThread("spawn()"), {}, ("spawn()", "thread", "send a message")),
    Sample(InternalError("the table is torn: please report this"), {}, ("the table is torn",)),
    Sample(NotAwaited("/a", "<Asked>"), {"ref": "/a"}, ("/a", "<Asked>", "async def", "await", "pipe_to_self")),
    Sample(
        ActorTerminated("/a", "normal"), {"ref": "/a", "reason": "normal"}, ("/a", "normal", "watch it", "successor")
    ),
    Sample(AskTimeout("/a", 5.0), {"ref": "/a", "timeout": 5.0}, ("/a", "5.0 s", "`timeout`", "busy")),
    Sample(
        AskDeadlock(("/a", "/b", "/a")),
        {"cycle": ("/a", "/b", "/a")},
        ("/a -> /b -> /a", "tell", "pipe_to_self", "defer_reply"),
    ),
    Sample(MessageDropped("/a"), {"ref": "/a"}, ("/a", "policy", "no reply")),
    Sample(MessageDropped("/a", "cleared by a restart"), {"ref": "/a"}, ("/a", "cleared by a restart", "no reply")),
    Sample(HandlerBroken("/a", CancelledError("enough")), {"ref": "/a"}, ("/a", "CancelledError: enough", "ask again")),
    Sample(Unhandled("/a", 7), {"ref": "/a", "message": 7}, ("/a", "@handles(int)")),
    Sample(SendTimeout("/a", "m", 2.0), {"ref": "/a", "message": "m", "timeout": 2.0}, ("/a", "2.0 s", ".message")),
    Sample(BadArgument("an actor watches refs, not 7"), {}, ("watches refs", "7")),
    Sample(AlreadyReplied(), {}, ("already", "once")),
    Sample(NoMessage("/a", "reply()"), {"ref": "/a"}, ("reply()", "/a", "within a handler")),
    Sample(StashFull("/a", 3), {"ref": "/a", "capacity": 3}, ("/a", "3", "unstash", "stash_capacity")),
    Sample(StashFull("/a", 1), {"ref": "/a", "capacity": 1}, ("holds 1 message,",)),
    Sample(
        DeathPact("/a", "/b", "fail"),
        {"ref": "/a", "ended": "/b", "reason": "fail"},
        ("/a", "/b", "fail", "on_terminated", "unwatch"),
    ),
    Sample(
        LinkBroken("/a", "/b", "killed"),
        {"ref": "/a", "peer": "/b", "reason": "killed"},
        ("/a", "/b", "killed", "trap_exit", "unlink"),
    ),
    Sample(
        RestartLimit("/s", "/s/a", "normal", 3, 5.0),
        {"ref": "/s", "child": "/s/a", "reason": "normal", "limit": 3, "period": 5.0},
        ("/s/a", "normal", "/s", "3", "5.0 s", "intensity"),
    ),
    Sample(
        ChildExists("/s", "a"), {"ref": "/s", "name": "a"}, ("/s", "'a'", "RestartChild", "DeleteChild", "another name")
    ),
    Sample(NoSuchChild("/s", "a"), {"ref": "/s", "name": "a"}, ("/s", "'a'", "WhichChildren", "StartChild")),
    Sample(ChildRunning("/s", "a"), {"ref": "/s", "name": "a"}, ("/s", "'a'", "StopChild")),
    Sample(ChildRestarting("/s", "a"), {"ref": "/s", "name": "a"}, ("/s", "'a'", "StopChild", "wait")),
    Sample(TooManyChildren("/s", 5), {"ref": "/s", "limit": 5}, ("/s", "5", "max_children")),
    Sample(NotAnActor("Greeter() was given: pass the class"), {}, ("pass the class",)),
    Sample(
        HandlerConflict(dict, int, "add", "count"), {"message_type": int}, ("dict.add", ".count", "int", "one of them")
    ),
    Sample(NameTaken("/a/b"), {"path": "/a/b"}, ("/a/b", "another name")),
    Sample(InvalidName("a/b"), {"name": "a/b"}, ("a/b", "not empty", "'/'")),
    Sample(UnknownDispatcher("warp", ("concurrent",)), {"name": "warp"}, ("warp", "concurrent")),
    Sample(DispatcherExists("io"), {"name": "io"}, ("io", "another name")),
    Sample(StaysAtHome("Supervisor", "io"), {"dispatcher": "io"}, ("Supervisor", "io", "children may have any")),
    Sample(WireError("broken"), {}, ("broken",)),
    Sample(HandlerAbandoned("/a"), {"ref": "/a"}, ("/a", "did not end in time", "return")),
    Sample(WorkerLost("gone"), {}, ("gone",)),
    Sample(NoThread("/a"), {"user": "/a"}, ("/a", "ulimit -u", "parallel")),
    Sample(HandshakeFailed("a stranger"), {}, ("a stranger",)),
    Sample(FrameTooLarge(2000, 1000), {"size": 2000, "limit": 1000}, ("2,000", "1,000", "in pieces")),
    Sample(FailedElsewhere("Odd", "Odd: bad"), {"kind": "Odd", "words": "Odd: bad"}, ("Odd: bad", "another process")),
    Sample(NotSendable("a text", "why not"), {"message": "a text", "why": "why not"}, ("a str", "why not")),
    Sample(
        NotSendable("a text", "why not", "the argument"), {"message": "a text", "why": "why not"}, ("the argument",)
    ),
    Sample(NotStarted("demo", "settle()"), {}, ("settle()", "demo", "async with", "run()")),
    Sample(SystemStopped("demo"), {"name": "demo"}, ("demo", "new ActorSystem")),
    Sample(RefGone("demo", "/a"), {"system": "demo", "path": "/a"}, ("/a", "demo", "this process")),
    Sample(ClockHeldUp(3.0, 30.0, ["/a"]), {}, ("from 3 for 30.0 s", "/a is busy")),
    Sample(ClockHeldUp(3.0, 30.0, []), {}, ("timers have no delay",)),
    Sample(
        StartTimeout("/a", 600.0),
        {"ref": "/a", "timeout": 600.0},
        ("/a", "600 s", "`pre_start`", "`SystemConfig(start_timeout=...)`"),
    ),
    Sample(WaitTimeout("/a", "started", 2.0), {"ref": "/a", "timeout": 2.0}, ("/a", "started", "2 s", "timeout=")),
    Sample(SettleTimeout("demo", 1.0, "/a"), {"busy": "/a"}, ("demo", "1.0 s", "/a")),
    Sample(SimulationRefused("a socket is made", "put an actor in its place"), {}, ("a socket", "an actor")),
    Sample(SimulationStuck(("/a waits in wait",)), {"waiting": ("/a waits in wait",)}, ("/a waits in wait",)),
    Sample(SimulationEndless(100, "/a"), {"steps": 100, "last": "/a"}, ("100 steps", "/a ran last", "max_steps")),
    Sample(InjectedFault("/a", 3), {"number": 3}, ("/a", "number 3")),
    Sample(LoopBusy("demo", "/a holds its thread"), {"name": "demo"}, ("demo", "/a holds its thread")),
    Sample(SystemFailed("demo", ValueError("the cause")), {"name": "demo"}, ("demo", "ValueError: the cause")),
    Sample(
        ManifestError("studio.py:7", "engine", 5, "a pod needs an actor: Pod(Engine)"),
        {"where": "studio.py:7", "field": "engine", "value": 5},
        ("studio.py:7: a pod needs", "Pod(Engine)"),
    ),
    Sample(
        PodGone("engine", "it has failed", "m"),
        {"pod": "engine", "why": "it has failed", "message": "m"},
        ("'engine'", "it has failed", "not sent"),
    ),
    Sample(
        TroupeEnding("engine", "the troupe is being shut down", "m"),
        {"pod": "engine", "why": "the troupe is being shut down", "message": "m"},
        ("'engine'", "being shut down"),
    ),
    Sample(
        ConnectTimeout("engine", 2.0, "it has failed", "m"),
        {"pod": "engine", "message": "m"},
        ("'engine'", "2 s", "it has failed", "not sent", "`connect_timeout`"),
    ),
    Sample(
        RingFull("engine", "m", Lane.DATA, 4096, "it does not run yet"),
        {"ref": "engine", "message": "m", "lane": Lane.DATA, "capacity": 4096},
        ("'engine'", "4096", "DATA", "does not run yet", "`.message`", "`buffers`"),
    ),
    Sample(HandleHeld("engine"), {"pod": "engine"}, ("'engine'", "another thread", "handle.clone()")),
    Sample(Fatal("no such device"), {}, ("no such device",)),
    Sample(
        PodRestartLimit("engine", 3, 10.0, None),
        {"pod": "engine"},
        ("'engine'", "number 4", "10 s", "`max_restarts`", "`within`"),
    ),
    Sample(
        PodRestartLimit("engine", 3, 10.0, ValueError("bad")), {"pod": "engine"}, ("it failed with ValueError: bad",)
    ),
    Sample(
        TroupeFailed("Studio", ValueError("bad"), "engine"),
        {"name": "Studio", "pod": "engine"},
        ("'Studio'", "'engine'", "ValueError: bad"),
    ),
]
# Written down a second time on purpose: a code is a promise to whoever filters logs by it.
CODES = {
    "ConfigError": "config",
    "GreenroomError": "greenroom",
    "InternalError": "internal",
    "InvalidDelay": "invalid_delay",
    "LoopStopped": "loop_stopped",
    "MailboxFull": "mailbox_full",
    "TooManyActors": "too_many_actors",
    "TooManyTimers": "too_many_timers",
    "TooManyWatches": "too_many_watches",
    "AlreadyAttached": "already_attached",
    "HookError": "hook",
    "WaitsForItself": "waits_for_itself",
    "WrongLoop": "wrong_loop",
    "WatchError": "watch",
    "WrongThread": "wrong_thread",
    "ActorTerminated": "actor_terminated",
    "AlreadyReplied": "already_replied",
    "AskDeadlock": "ask_deadlock",
    "AskTimeout": "ask_timeout",
    "BadArgument": "bad_argument",
    "ChildExists": "child_exists",
    "ChildRestarting": "child_restarting",
    "ChildRunning": "child_running",
    "LinkBroken": "link_broken",
    "NoSuchChild": "no_such_child",
    "RestartLimit": "restart_limit",
    "TooManyChildren": "too_many_children",
    "DeathPact": "death_pact",
    "HandlerConflict": "handler_conflict",
    "InvalidName": "invalid_name",
    "LoopBusy": "loop_busy",
    "HandlerBroken": "handler_broken",
    "MessageDropped": "message_dropped",
    "NameTaken": "name_taken",
    "NoMessage": "no_message",
    "NoThread": "no_thread",
    "NotAnActor": "not_an_actor",
    "NotAwaited": "not_awaited",
    "NotStarted": "not_started",
    "RefGone": "ref_gone",
    "SendTimeout": "send_timeout",
    "ClockHeldUp": "clock_held_up",
    "SettleTimeout": "settle_timeout",
    "WaitTimeout": "wait_timeout",
    "StartTimeout": "start_timeout",
    "SimulationRefused": "simulation_refused",
    "SimulationStuck": "simulation_stuck",
    "SimulationEndless": "simulation_endless",
    "InjectedFault": "injected_fault",
    "StashFull": "stash_full",
    "SystemFailed": "system_failed",
    "SystemStopped": "system_stopped",
    "Unhandled": "unhandled",
    "UnknownDispatcher": "unknown_dispatcher",
    "DispatcherExists": "dispatcher_exists",
    "StaysAtHome": "stays_at_home",
    "WireError": "wire_error",
    "HandlerAbandoned": "handler_abandoned",
    "WorkerLost": "worker_lost",
    "HandshakeFailed": "handshake_failed",
    "FailedElsewhere": "failed_elsewhere",
    "FrameTooLarge": "frame_too_large",
    "NotSendable": "not_sendable",
    "NotAMeta": "not_a_meta",
    "MetaNotSpawned": "meta_not_spawned",
    "MetaSpawnedBefore": "meta_spawned_before",
    "MetaRefused": "meta_refused",
    "MetaCannotAsk": "meta_ask",
    "MetaCannotLink": "meta_link",
    "MetaCannotMonitor": "meta_monitor",
    "MetaCannotWatch": "meta_watch",
    "MetaCannotSpawnActors": "meta_spawn",
    "MetaCannotReply": "meta_reply",
    "MetaCannotSetLane": "meta_send_lane",
    "MetaCannotCompress": "meta_compression",
    "MetaEnded": "meta_ended",
    "NotInWorker": "not_in_worker",
    "FrameError": "frame",
    "ConnectionClosed": "connection_closed",
    "HttpError": "http",
    "ProgramFailed": "program_failed",
    "ManifestError": "manifest",
    "PodGone": "pod_gone",
    "ConnectTimeout": "connect_timeout",
    "TroupeEnding": "troupe_ending",
    "RingFull": "ring_full",
    "HandleHeld": "handle_held",
    "Fatal": "fatal",
    "PodRestartLimit": "pod_restart_limit",
    "TroupeFailed": "troupe_failed",
}
BY_CLASS = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample.error).__name__)


def classes() -> Iterator[type[BaseException]]:
    return (value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, BaseException))


def same(left: GreenroomError, right: GreenroomError) -> bool:
    return (type(left), left.args, vars(left)) == (type(right), right.args, vars(right))


def test_every_class_of_the_module_is_public_and_stands_under_one_base() -> None:
    assert {cls.__name__ for cls in classes()} == set(errors.__all__)
    assert all(issubclass(cls, GreenroomError) for cls in classes())
    assert issubclass(GreenroomError, Exception)


def test_every_class_is_shown_by_a_sample() -> None:
    assert {type(sample.error) for sample in SAMPLES} == set(classes())


def test_every_class_has_the_code_it_always_had() -> None:  # J9
    assert {cls.__name__: vars(cls)["code"] for cls in classes()} == CODES


def test_no_two_classes_share_a_code() -> None:
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.parametrize("cls", [ConfigError, InvalidDelay])
def test_a_bad_value_is_a_value_error_too(cls: type[Exception]) -> None:
    assert issubclass(cls, ValueError)


@BY_CLASS
def test_every_error_carries_what_a_handler_needs(sample: Sample) -> None:
    assert {name: getattr(sample.error, name) for name in sample.data} == sample.data
    assert vars(sample.error) == sample.data


@BY_CLASS
def test_every_text_tells_what_happened_and_what_to_do(sample: Sample) -> None:
    assert [part for part in sample.tells if part not in str(sample.error)] == []


@BY_CLASS
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_pickles_with_its_data(sample: Sample, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(sample.error, protocol))
    assert same(again, sample.error)
    assert str(again) == str(sample.error)
    assert again.code == sample.error.code


@BY_CLASS
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_every_error_can_be_copied_and_the_copy_is_its_own(sample: Sample, copied: Any) -> None:
    again = copied(sample.error)
    assert same(again, sample.error)
    again.note = "only here"
    assert not hasattr(sample.error, "note")


def test_a_refused_message_is_given_back_itself_and_not_a_copy() -> None:
    message: list[object] = []
    assert MailboxFull("ref", message, Lane.LOG, 1).message is message


def test_notes_added_on_the_way_up_survive_pickling() -> None:
    error = TooManyActors(3)
    error.add_note("while starting the pool")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while starting the pool"]


class OutOfStock(GreenroomError):
    """A user's own error, with a constructor that pickle could not guess."""

    code = "out_of_stock"

    def __init__(self, item: str, *, wanted: int) -> None:
        super().__init__(f"{wanted} of {item} wanted")
        self.item = item
        self.wanted = wanted


def test_a_users_own_error_under_the_base_pickles_too() -> None:
    # By hand: in importlib mode pickle cannot find this module by its name.
    error = OutOfStock("bolts", wanted=4)
    rebuild, arguments = error.__reduce__()
    again = rebuild(*arguments)
    assert same(again, error)
    assert again.code == "out_of_stock"
