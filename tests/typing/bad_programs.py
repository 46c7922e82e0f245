"""Programs that type checkers must reject, each at the line that is marked and nowhere else."""

from __future__ import annotations

__all__ = ["BAD_PROGRAMS", "HEADER", "MARK", "OPTIONS"]

MARK = "# wrong"

OPTIONS = {
    "name": '"a"',
    "mailbox": "MailboxConfig(10)",
    "dispatcher": '"parallel"',
    "supervision": "Supervision(Directive.STOP)",
    "drain": "Drain.DROP",
    "env": '{"stage": "test"}',
    "stop_timeout": "2.5",
}
"""The options of every `spawn`, each with a value that it may have."""

HEADER = """\
import asyncio
from typing import Any, assert_type

from greenroom import (
    Actor, ActorRef, ActorSystem, Asked, Behavior, Behaviors, Context, Directive, Drain, ExitReason, Lane, Ledger,
    MailboxConfig, Observer, Overflow, Props, Reply, Request, Signal, Supervision, SystemConfig, Terminated, Timer,
    handles, props,
)
from greenroom.pods import Handles, Mates, Pod, ServiceHandle, ThreadModel, Troupe
from greenroom.testing import ManualClock, TestProbe


class Greeter(Actor[str, str]):
    def __init__(self, greeting: str = "hello", *, mark: str = "") -> None:
        self.greeting = greeting

    def receive(self, message: str) -> str:
        return f"{self.greeting} {message}"


class Get(Request[int]):
    pass


class Describe(Request[str]):
    pass


class Counter(Actor[Get | Describe | int, Any]):
    def __init__(self, start: int) -> None:
        self.count = start

    async def receive(self, message: Get | Describe | int) -> int | str:
        return self.count


def shout(ctx: Context, message: str) -> str:
    return message.upper()


class Cancel:
    pass


class Front(Handles):
    book: ServiceHandle[int, Cancel]
    log: ServiceHandle[str]


front: Front
lane: Lane


async def main(system: ActorSystem, greeter: ActorRef[str, str], counter: ActorRef[Get | Describe | int, Any]) -> None:
"""
"""What stands before every snippet; the snippet is the body of `main`, unless it begins with `class` or `def`."""

BAD_PROGRAMS: dict[str, str] = {
    # Messages
    "tell_a_wrong_message": "greeter.tell(5)  # wrong",
    "tell_nothing": "greeter.tell()  # wrong",
    "tell_a_wrong_message_on_a_lane": "greeter.tell(5, lane=Lane.CONTROL)  # wrong",
    "tell_on_a_lane_that_is_none": 'greeter.tell("x", lane="control")  # wrong',
    "tell_from_a_sender_that_is_no_ref": 'greeter.tell("x", sender="me")  # wrong',
    "tell_a_wrong_message_by_operator": "print(greeter << 5)  # wrong",
    "tell_a_wrong_message_by_operator_in_a_chain": 'print(greeter << "a" << 5)  # wrong',
    "push_a_wrong_message": "front.book.send('x')  # wrong",
    "push_a_data_message_on_the_control_lane": "front.book.send(5, lane=Lane.CONTROL)  # wrong",
    "push_a_control_message_on_the_data_lane": "front.book.send(Cancel())  # wrong",
    "push_on_a_lane_that_is_not_known_what_not_every_lane_takes": "front.book.send(5, lane=lane)  # wrong",
    "try_to_push_a_wrong_message": "front.book.try_send('x')  # wrong",
    "await_the_push_of_a_wrong_message": "await front.book.asend('x')  # wrong",
    "push_to_a_handle_that_is_not_declared": "front.boook.send(5)  # wrong",
    "send_a_wrong_message": "await greeter.send(5)  # wrong",
    "send_with_a_wrong_timeout": 'await greeter.send("x", timeout="soon")  # wrong',
    "forget_to_await_a_send_result": 'n: int = await greeter.send("x")  # wrong',
    "ask_a_wrong_message": "await greeter.ask(5)  # wrong",
    "ask_with_a_wrong_timeout": 'await greeter.ask("x", timeout="soon")  # wrong',
    "ask_sync_a_wrong_message": "greeter.ask_sync(5)  # wrong",
    "send_sync_a_wrong_message": "greeter.send_sync(5)  # wrong",
    "wait_for_an_ask_that_is_no_future": 'await asyncio.wait([greeter.ask("x")])  # wrong',
    "the_task_of_an_ask_taken_for_another": 'task: asyncio.Task[int] = asyncio.create_task(greeter.ask("x"))  # wrong',
    "tell_a_spawned_actor_a_wrong_message": 'system.spawn(Greeter, "hi").tell(5)  # wrong',
    "tell_a_named_actor_a_wrong_message": 'system.spawn(Greeter, "hi", name="a").tell(5)  # wrong',
    "tell_an_actor_of_props_a_wrong_message": "system.spawn(props(Greeter)).tell(5)  # wrong",
    "tell_a_function_a_wrong_message": "system.spawn(shout).tell(5)  # wrong",
    "tell_a_named_function_a_wrong_message": 'system.spawn(shout, name="a").tell(5)  # wrong',
    # Replies
    "a_reply_taken_for_something_else": 'n: int = await greeter.ask("x")  # wrong',
    "a_reply_that_was_not_awaited": 'text: str = greeter.ask("x")  # wrong',
    "a_reply_of_a_plain_thread_taken_for_something_else": 'n: int = greeter.ask_sync("x")  # wrong',
    "the_reply_of_a_request_taken_for_something_else": "text: str = await counter.ask(Get())  # wrong",
    "the_reply_of_another_request_taken_for_something_else": "n: int = await counter.ask(Describe())  # wrong",
    "the_reply_of_a_request_by_a_plain_thread": "text: str = counter.ask_sync(Get())  # wrong",
    "a_method_that_a_reply_does_not_have": '(await greeter.ask("x")).append(1)  # wrong',
    "a_method_that_the_reply_of_a_request_does_not_have": "(await counter.ask(Get())).upper()  # wrong",
    "an_asked_taken_for_another": 'asked: Asked[int] = greeter.ask("x")  # wrong',
    # Constructors
    "a_wrong_argument": "system.spawn(Greeter, 5)  # wrong",
    "a_wrong_keyword": "system.spawn(Greeter, greeting=5)  # wrong",
    "an_unknown_keyword": 'system.spawn(Greeter, volume="loud")  # wrong',
    "an_argument_too_many": 'system.spawn(Greeter, "a", "b")  # wrong',
    "an_argument_missing": "system.spawn(Counter)  # wrong",
    "a_wrong_argument_in_props": "props(Greeter, 5)  # wrong",
    "an_unknown_keyword_in_props": "props(Greeter, volume=5)  # wrong",
    "an_argument_missing_in_props": "props(Counter)  # wrong",
    "more_arguments_for_props": 'system.spawn(props(Greeter), "hi")  # wrong',
    **{
        f"{what}_beside_the_option_{option}": f"system.spawn(props({given}), {option}={value})  # wrong"
        for option, value in {**OPTIONS, "parent": "greeter"}.items()
        for what, given in {"a_wrong_argument": "Greeter, 5", "an_argument_missing": "Counter"}.items()
    },
    **{
        f"a_wrong_argument_of_a_child_beside_the_option_{option}": (
            f"def bad(ctx: Context, message: str) -> None:\n    ctx.spawn(props(Greeter, 5), {option}={value})  # wrong"
        )
        for option, value in OPTIONS.items()
    },
    "an_unknown_keyword_beside_an_option": 'system.spawn(props(Greeter, volume=5), name="a")  # wrong',
    "an_argument_too_many_beside_an_option": 'system.spawn(props(Greeter, "a", "b"), name="a")  # wrong',
    # What is no factory
    "spawn_an_instance": 'system.spawn(Greeter("hi"))  # wrong',
    "spawn_an_instance_with_a_name": 'system.spawn(Greeter("hi"), name="a")  # wrong',
    "spawn_a_number": "system.spawn(5)  # wrong",
    "spawn_something_else": "system.spawn(int)  # wrong",
    "spawn_a_function_of_one_argument": "system.spawn(len)  # wrong",
    "props_of_something_else": 'props(int, "5")  # wrong',
    # Options
    "a_name_that_is_no_text": 'system.spawn(props(Greeter, "hi"), name=5)  # wrong',
    "a_mailbox_that_is_none": "system.spawn(props(Greeter), mailbox=5)  # wrong",
    "an_option_that_does_not_exist": 'system.spawn(props(Greeter), volume="loud")  # wrong',
    "a_supervision_that_is_none": 'system.spawn(props(Greeter), supervision="stop")  # wrong',
    "a_dispatcher_that_is_no_text": "system.spawn(props(Greeter), dispatcher=5)  # wrong",
    "a_parent_that_is_no_ref": 'system.spawn(props(Greeter), parent="root")  # wrong',
    "a_drain_that_is_none": 'system.spawn(shout, drain="drop")  # wrong',
    "an_env_that_is_no_mapping": "system.spawn(shout, env=5)  # wrong",
    "redirect_to_something_that_is_no_ref": 'Drain.REDIRECT("x")  # wrong',
    # Refs
    "a_ref_taken_for_one_of_other_messages": "other: ActorRef[int, str] = greeter  # wrong",
    "a_ref_taken_for_one_of_other_replies": "other: ActorRef[str, int] = greeter  # wrong",
    "a_ref_taken_for_one_of_more_messages": "other: ActorRef[str | int, str] = greeter  # wrong",
    "a_spawned_ref_taken_for_another": "other: ActorRef[int, str] = system.spawn(Greeter)  # wrong",
    "a_state_that_is_set": 'greeter.name = "other"  # wrong',
    "fail_with_something_that_is_no_exception": 'greeter.fail("bad")  # wrong',
    "an_exit_reason_taken_for_something_else": "n: int = await greeter.terminated()  # wrong",
    "an_actor_that_may_not_be_there": 'system.actor("x").tell("y")  # wrong',
    # Actors
    "receive_takes_another_message": (
        "class Bad(Actor[str, str]):\n    def receive(self, message: int) -> str:  # wrong\n        return ''"
    ),
    "receive_returns_another_reply": (
        "class Bad(Actor[str, str]):\n    def receive(self, message: str) -> int:  # wrong\n        return 5"
    ),
    "an_async_receive_returns_another_reply": (
        "class Bad(Actor[str, str]):\n    async def receive(self, message: str) -> int:  # wrong\n        return 5"
    ),
    "receive_takes_more_than_the_message": (
        "class Bad(Actor[str, str]):\n    def receive(self, message: str, n: int) -> str:  # wrong\n        return ''"
    ),
    "receive_takes_nothing": "class Bad(Actor[str, str]):\n    def receive(self) -> str:  # wrong\n        return ''",
    **{
        f"a_wrong_signature_of_{hook}": (
            f"class Bad(Actor[str, str]):\n    {way} {hook}(self{arguments}) -> None:  # wrong\n        pass"
        )
        for hook, arguments in {
            "pre_start": ", why: str",
            "post_start": ", why: str",
            "pre_stop": ", why: str",
            "post_stop": ", why: str",
            "pre_restart": "",
            "post_restart": ", why: str",
            "on_terminated": ", ref: ActorRef[Any, Any]",
            "on_child_terminated": ", ref: int, cause: BaseException | None",
            "on_signal": ", signal: int",
        }.items()
        for way in (("async def",) if hook.startswith("post") else ("def",))
    },
    "inspect_returns_no_mapping": (
        "class Bad(Actor[str, str]):\n    def inspect(self, *items: str) -> int:  # wrong\n        return 5"
    ),
    "handles_something_that_is_no_type": "handles(5)  # wrong",
    # Context
    "a_child_told_a_wrong_message": (
        "def bad(ctx: Context, message: str) -> None:\n    ctx.spawn(Greeter).tell(5)  # wrong"
    ),
    "a_child_of_wrong_arguments": ("def bad(ctx: Context, message: str) -> None:\n    ctx.spawn(Greeter, 5)  # wrong"),
    "a_delay_that_is_no_number": (
        "def bad(ctx: Context, message: str) -> None:\n    ctx.send_after('soon', ctx.self, message)  # wrong"
    ),
    "a_timer_for_something_that_is_no_ref": (
        "def bad(ctx: Context, message: str) -> None:\n    ctx.send_after(1.0, 'me', message)  # wrong"
    ),
    "watch_something_that_is_no_ref": "def bad(ctx: Context, message: str) -> None:\n    ctx.watch('me')  # wrong",
    "fail_a_reply_with_a_text": "def bad(ctx: Context, message: str) -> None:\n    ctx.fail_reply('bad')  # wrong",
    "pipe_something_that_cannot_be_awaited": (
        "def bad(ctx: Context, message: str) -> None:\n    ctx.pipe_to_self(5)  # wrong"
    ),
    "env_that_is_written": "def bad(ctx: Context, message: str) -> None:\n    ctx.env['a'] = 1  # wrong",
    "a_behavior_of_a_function_that_takes_too_little": "Behaviors.receive(lambda message: None)  # wrong",
    "a_failed_behavior_without_an_exception": 'Behaviors.failed("bad")  # wrong',
    "a_setup_that_returns_no_behavior": "Behaviors.setup(lambda ctx: 5)  # wrong",
    # System
    "a_config_of_a_wrong_type": 'SystemConfig(max_actors="many")  # wrong',
    "a_setting_that_does_not_exist": "SystemConfig(max_actor=5)  # wrong",
    "a_setting_that_is_set_later": "SystemConfig().max_actors = 5  # wrong",
    "a_system_with_something_else_for_a_config": 'ActorSystem("x", config={"max_actors": 5})  # wrong',
    "an_overflow_that_is_none": 'MailboxConfig(overflow="drop")  # wrong',
    "a_ledger_that_is_written": "system.ledger().sent = 5  # wrong",
    "an_observer_that_lacks_a_hook": (
        "class Bad:\n    def actor_started(self, ref: Any) -> None: ...\n\n\nobserver: Observer = Bad()  # wrong"
    ),
    "subscribe_something_that_cannot_be_told": "system.dead_letters.subscribe(5)  # wrong",
    "what_a_probe_got_taken_for_something_else": "text: str = await TestProbe(system).expect(Get)  # wrong",
}


def program_of(snippet: str) -> str:
    """The whole text of a bad program."""
    if snippet.startswith(("class ", "def ")):
        return f"{HEADER}    pass\n\n\n{snippet}\n"
    return f"{HEADER}    {snippet}\n"
