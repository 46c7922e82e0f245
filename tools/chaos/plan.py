"""What happens in a history, drawn from its seed before anything happens: who is there, and who does what when."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from greenroom import Backoff, Directive, Drain, MailboxConfig, OnRestart, Overflow, Scope, Supervision

__all__ = ["DEADLY", "DISPATCHERS", "FEATURES", "MemberPlan", "Plan", "Step", "draw"]

DISPATCHERS = ("concurrent", "parallel", "pinned", "process")

Action = tuple[str, tuple[Any, ...]]
Draw = Callable[[random.Random], Action]

FEATURES: dict[str, str] = {
    "kill": "a worker process is killed",
    "freeze": "a worker process is stopped by a signal, and goes on",
    "exit": "a guest ends its worker process",
    "fork": "a guest forks, and the child holds what was open; then its process may end",
    "home_fork": "the main process forks, and the child holds what was open",
    "popen": "a guest starts a program",
    "mp_fork": "a guest forks with multiprocessing",
    "busy": "a guest computes for a while",
    "gil": "a guest holds the GIL for a while",
    "stdin": "a guest reads or closes its standard input",
    "log": "a guest logs what a handler at home raises on",
    "unpicklable": "messages that cannot be pickled",
    "oversize": "messages over the frame limit",
    "unreadable": "messages that raise when they are unpickled",
    "unreadable_base": "messages that raise no Exception when they are pickled or unpickled",
    "bad_reply": "replies that cannot be sent or read",
    "buffers": "messages and replies of thousands of buffers",
    "odd_errors": "exceptions that cannot be sent, and huge ones",
    "panic": "handlers that raise what is no Exception",
    "system_exit": "a handler that ends the whole system",
    "flood": "thousands of messages, and small mailboxes",
    "two": "a second system, on a thread of its own",
    "supervisors": "supervisors with child specs",
    "escalate": "failures that are escalated",
    "hooks": "hooks that take their time, and some that raise",
    "bad_spawn": "actors that cannot be made",
    "odd_notes": "messages that cannot be shown or compared",
    "threads": "guests whose threads send and ask",
    "forward": "messages that are passed on",
    "abrupt": "the system is shut down while everything goes on",
    "stubborn": "handlers that take longer than they have to stop",
}
"""What a history may have beside the usual, each with a line about it."""
DEADLY = frozenset({"kill", "exit", "fork", "stubborn"})
"""Features that end worker processes: without one of them, none may be lost."""

BAD = ("unpicklable", "too few", "bursts", "nobody", "local")
_LANES = (1, 1, 1, 1, 1, 2, 3, 0)


class MemberPlan(NamedTuple):
    """One actor that a driver spawns."""

    number: int
    kind: str
    dispatcher: str
    system: str
    parent: int | None
    supervision: Supervision | None
    mailbox: MailboxConfig | None
    drain: Drain | None


class Step(NamedTuple):
    """What a driver does, some seconds after the step before."""

    after: float
    do: str
    args: tuple[Any, ...]


class Plan(NamedTuple):
    """A whole history."""

    seed: int
    features: tuple[str, ...]
    workers: int
    stop_timeout: float | None
    """None for as long as the history is patient."""
    uvloop: bool
    members: tuple[MemberPlan, ...]
    supervisors: tuple[tuple[Any, ...], ...]
    drivers: tuple[tuple[Step, ...], ...]
    """The first is the main one, on the loop; the others are threads."""

    def __str__(self) -> str:
        steps = sum(len(one) for one in self.drivers)
        features = ", ".join(self.features) or "no features"
        return f"history {self.seed}: {features}; {len(self.members)} members, {steps} steps"


def draw(seed: int, without: Collection[str] = (), only: Collection[str] | None = None) -> Plan:
    """The plan of a seed; without some features, or with these and no others."""
    dice = random.Random(seed)
    chosen = dice.sample(sorted(FEATURES), dice.choice((1, 2, 2, 3, 3, 4)))
    if "fork" in chosen and dice.random() < 0.5:
        chosen.append("kill")
    features = sorted(set(chosen if only is None else only) - set(without))
    usual = [weight * dice.choice((0, 1, 1, 1, 8)) for weight, _ in _USUAL]
    members = tuple(_members(dice, features))
    groups = tuple(_supervisor(dice) for _ in range(dice.randint(1, 2))) if "supervisors" in features else ()
    count = 1 + dice.choice((0, 1, 1, 2))
    drivers = tuple(tuple(_steps(dice, features, usual, len(members), is_main=one == 0)) for one in range(count))
    return Plan(
        seed,
        tuple(features),
        dice.choice((1, 1, 2)),
        0.2 if "stubborn" in features else None,
        dice.random() < 0.5,
        members,
        groups,
        drivers,
    )


def _members(dice: random.Random, features: Collection[str]) -> Any:
    systems = "ab" if "two" in features else "a"
    count = dice.randint(4, 9)
    for number in range(count):
        system = dice.choice(systems)
        # The first are one on each dispatcher.
        dispatcher = DISPATCHERS[number] if number < 4 else dice.choice(DISPATCHERS)
        parent = dice.randrange(number) if number and dice.random() < 0.4 else None
        kind = dice.choice(("member", "member", "async", "async", "bad start"))
        if "hooks" in features and dice.random() < 0.6:
            kind = "hooked"
        yield MemberPlan(
            number,
            kind,
            dispatcher,
            system,
            parent,
            _supervision(dice, features),
            _mailbox(dice, features),
            _drain(dice),
        )


def _supervision(dice: random.Random, features: Collection[str]) -> Supervision | None:
    if dice.random() < 0.25:
        return None
    directives = [Directive.RESTART] * 4 + [Directive.STOP, Directive.RESUME]
    if "escalate" in features:
        directives.append(Directive.ESCALATE)
    return Supervision(
        dice.choice(directives),
        scope=dice.choice((Scope.ONE_FOR_ONE, Scope.ONE_FOR_ONE, Scope.ONE_FOR_ALL, Scope.REST_FOR_ONE)),
        max_restarts=dice.choice((3, 100, None)),
        backoff=dice.choice((None, Backoff(min=0.005, max=0.05), Backoff(min=0.01, max=0.1, jitter=0.5))),
        mailbox=dice.choice((OnRestart.KEEP, OnRestart.KEEP, OnRestart.CLEAR)),
    )


def _mailbox(dice: random.Random, features: Collection[str]) -> MailboxConfig | None:
    if "flood" not in features and dice.random() < 0.7:
        return None
    return MailboxConfig(capacity=dice.choice((1, 7, 100, 1000)), overflow=dice.choice(list(Overflow)))


def _drain(dice: random.Random) -> Drain | None:
    return dice.choice((None, None, Drain.DEAD_LETTER, Drain.DROP))


def _supervisor(dice: random.Random) -> tuple[Any, ...]:
    children = [
        (f"c{one}", dice.choice(DISPATCHERS), dice.choice(("permanent", "transient", "temporary")))
        for one in range(dice.randint(1, 3))
    ]
    return dice.choice(list(Scope)), dice.choice((3, 50)), tuple(children)


# -- what members are told to do; who they are to turn to is a number, which the stage turns into a ref

_USUAL: list[tuple[int, Draw]] = [
    (6, lambda dice: ("mark", ())),
    (6, lambda dice: ("echo", ())),
    (4, lambda dice: ("pass", (_whom(dice), "mark", (), dice.choice((1, 3, 20)), dice.choice(_LANES)))),
    (3, lambda dice: ("question", (_whom(dice), "echo", (), dice.choice((0.2, 1.0, 3.0))))),
    (1, lambda dice: ("question", (_whom(dice), "defer", (), 0.2))),
    (2, lambda dice: ("raise", ("",))),
    (2, lambda dice: ("nap", (dice.uniform(0.0, 0.03),))),
    (1, lambda dice: ("unhandled", ())),
    (2, lambda dice: ("stash", ())),
    (1, lambda dice: ("open", (dice.random() < 0.5,))),
    (1, lambda dice: ("become", ())),
    (1, lambda dice: ("unbecome", ())),
    (2, lambda dice: ("watch", (_whom(dice),))),
    (1, lambda dice: ("unwatch", (_whom(dice),))),
    (2, lambda dice: ("monitor", (_whom(dice),))),
    (1, lambda dice: ("demonitor", ())),
    (1, lambda dice: ("link", (_whom(dice), dice.random() < 0.6))),
    (1, lambda dice: ("unlink", (_whom(dice),))),
    (1, lambda dice: ("after", (dice.uniform(0.0, 0.1),))),
    (1, lambda dice: ("every", (dice.uniform(0.02, 0.1),))),
    (1, lambda dice: ("cancel", ())),
    (1, lambda dice: ("receive_timeout", (dice.choice((None, 0.05, 0.5)),))),
    (1, lambda dice: ("pipe", (dice.uniform(0.0, 0.05),))),
    (1, lambda dice: ("defer", ())),
    (1, lambda dice: ("release", ())),
    (1, lambda dice: ("spawn", (dice.choice(DISPATCHERS), None))),
    (1, lambda dice: ("stop_child", ())),
    (1, lambda dice: ("leave", ())),
    (1, lambda dice: ("fail_reply", ("",))),
    (1, lambda dice: ("log", (False, dice.choice((0, 1000))))),
]

_ODD = ("holds a lock", "wants more", "speechless", "huge")
_SPECIAL: dict[str, Draw] = {
    "exit": lambda dice: ("exit", ()),
    "fork": lambda dice: ("fork", (dice.random() < 0.5,)),
    "popen": lambda dice: ("popen", ()),
    "mp_fork": lambda dice: ("mp_fork", ()),
    "busy": lambda dice: ("busy", (dice.uniform(0.02, 0.3),)),
    "gil": lambda dice: ("gil", dice.choice((("sum", 5), ("sum", 10), ("match", 18)))),
    "stdin": lambda dice: ("stdin", (dice.choice(("read", "close", "dup")),)),
    "log": lambda dice: ("log", (True, dice.choice((0, 100_000)))),
    "bad_reply": lambda dice: (
        "reply",
        (dice.choice(("lambda", "lock", "oversize", "unreadable", "refuses", "unreadable, not ordinary")),),
    ),
    "buffers": lambda dice: dice.choice((("reply", ("buffers",)), ("reply", ("large buffer",)))),
    "odd_errors": lambda dice: (dice.choice(("raise", "raise", "fail_reply")), (dice.choice(_ODD),)),
    "panic": lambda dice: ("raise", ("not ordinary",)),
    "threads": lambda dice: ("thread", (_whom(dice), dice.random() < 0.5)),
    "forward": lambda dice: ("forward", (_whom(dice),)),
    "stubborn": lambda dice: ("nap", (dice.uniform(0.2, 1.0),)),
}
_POISON: dict[str, tuple[str, ...]] = {
    "unpicklable": ("lambda", "lock", "refuses", "deep"),
    "oversize": ("oversize", "oversize text"),
    "unreadable": ("unreadable", "bad state"),
    "unreadable_base": (
        "refuses badly",
        "unreadable, not ordinary",
        "unreadable, exit of a generator",
        "bad state, cancelled",
    ),
    "buffers": ("buffers", "large buffer"),
}


def _whom(dice: random.Random) -> tuple[str, float]:
    """One of those who are there when it is sent."""
    return ("whom", dice.random())


def _action(dice: random.Random, features: Collection[str], usual: list[int]) -> Action:
    special = [one for one in features if one in _SPECIAL]
    if special and dice.random() < 0.3:
        return _SPECIAL[dice.choice(special)](dice)
    poison = [one for one in features if one in _POISON]
    if poison and dice.random() < 0.1:
        return "pass_poison", (_whom(dice), dice.choice(_POISON[dice.choice(poison)]))
    return dice.choices([one for _, one in _USUAL], usual)[0](dice)


# -- what drivers do


def _steps(dice: random.Random, features: Collection[str], usual: list[int], members: int, *, is_main: bool) -> Any:
    order = list(range(members)) if is_main else []
    for _ in range(dice.randint(15, 45)):
        after = dice.choice((0.0, 0.0, 0.0, dice.uniform(0.0, 0.03)))
        if order and dice.random() < 0.6:
            yield Step(after, "spawn", (order.pop(0),))
        yield Step(after, *_step(dice, features, usual, is_main))
    for number in order:
        yield Step(0.0, "spawn", (number,))
    if is_main and "system_exit" in features:
        yield Step(0.0, "tell", (_whom(dice), ("shut_down", ()), 1, None))
    for _ in range(dice.randint(2, 6)):
        yield Step(dice.uniform(0.0, 0.05), *_step(dice, features, usual, is_main))


def _step(
    dice: random.Random, features: Collection[str], usual: list[int], is_main: bool
) -> tuple[str, tuple[Any, ...]]:
    if is_main and dice.random() < 0.12:
        attacks = [one for one in ("kill", "freeze", "home_fork") if one in features]
        if attacks:
            return dice.choice(attacks), (dice.random(), dice.uniform(0.02, 0.4))
    if "bad_spawn" in features and is_main and dice.random() < 0.1:
        return "bad_spawn", (dice.choice(BAD), dice.choice(DISPATCHERS))
    poison = [one for one in features if one in _POISON]
    if poison and dice.random() < 0.15:
        what = dice.choice(_POISON[dice.choice(poison)])
        return dice.choice(
            (("tell", (_whom(dice), ("mark", ()), 1, what)), ("ask", (_whom(dice), ("echo", ()), 2.0, what)))
        )
    match dice.choices(
        ("tell", "ask", "burst", "witness", "life", "cancelled ask", "send", "look", "supervisor"),
        (30, 25, 6, 12, 8, 2, 3, 3, 10 if "supervisors" in features else 0),
    )[0]:
        case "tell":
            return "tell", (_whom(dice), _action(dice, features, usual), dice.choice(_LANES), None)
        case "ask":
            return "ask", (_whom(dice), _action(dice, features, usual), dice.choice((0.1, 0.3, 0.3, 1.0)), None)
        case "burst":
            action = dice.choice((("mark", ()), ("mark", ()), ("stash", ()), ("nap", (0.002,))))
            count = dice.choice((20, 20, 200, 2000 if "flood" in features and action[0] == "mark" else 50))
            return "burst", (_whom(dice), action, count, dice.choice(_LANES))
        case "witness":
            way = dice.choice(
                ("watch", "watch", "monitor", "monitor", "monitor", "link", "unwatch", "demonitor", "unlink")
            )
            return "witness", (dice.randrange(3), way, _whom(dice))
        case "life":
            way = dice.choice(("stop", "stop", "stop after", "kill", "restart", "restart", "fail"))
            return "life", (_whom(dice), way)
        case "supervisor":
            way = dice.choice(("which", "count", "stop", "restart", "delete"))
            return "supervisor", (dice.random(), way, f"c{dice.randrange(3)}")
        case "send":
            return "send", (_whom(dice), 0.3)
        case "cancelled ask":
            return "cancelled_ask", (_whom(dice), ("nap", (0.05,)))
        case _:
            return "look", (_whom(dice),)
