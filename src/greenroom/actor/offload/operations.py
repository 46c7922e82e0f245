"""What an actor may do while its code runs elsewhere than on its home loop, and how that is carried out.

An actor's life stays on its home loop, wherever its code runs. `OPERATIONS` has a row for everything that its code can
do through `ctx`, a ref or the system. A row has two columns: `shared` is for code that shares the memory of the home
loop, `remote` for code that can only exchange messages with it. A carrier makes its stubs from one of the columns
(`carries_out`), and `Operation.apply` does at home what the stubs ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, TypeVar

from greenroom.errors import NotInWorker, WaitsForItself

C = TypeVar("C", bound=type)
Stub = Callable[..., Any]


class Way(Enum):
    """How an operation is carried out."""

    HERE = auto()
    """Where the code runs, with what is there."""
    UNLESS_ABANDONED = auto()
    """Where the code runs, unless the handler has been abandoned."""
    MAIL = auto()
    """By a message, which travels as any other."""
    POST = auto()
    """By the home loop, without waiting for it."""
    CALL = auto()
    """By the home loop, and its result is waited for."""
    AWAIT = auto()
    """By the home loop, where it takes a while: it is awaited."""
    BLOCK = auto()
    """By the home loop, where it takes a while: the thread blocks meanwhile."""


class Refused(NamedTuple):
    """An operation that cannot be carried out."""

    error: type[Exception]
    why: str


class Operation(NamedTuple):
    """One row."""

    of: str
    """`ctx`, `timers` (its keyed timers), `timer` (a handle of one), `ref` or `system`."""
    name: str
    """The name of a method or property; with a `=` at the end for setting the property."""
    shared: Way
    remote: Way | Refused

    @property
    def key(self) -> str:
        return f"{self.of}.{self.name}"

    def apply(self, subject: object, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Carry it out here, on a context, ref or whatever it is an operation of."""
        if self.name.endswith("="):
            setattr(subject, self.name[:-1], *args)
            return None
        found = getattr(subject, self.name)
        return found(*args, **kwargs) if callable(found) else found


_META = Refused(NotInWorker, "let an actor in the main process spawn it, and send this one its alias")
_DESCRIPTOR = Refused(NotInWorker, "let an actor in the main process watch it")
_IDLENESS = Refused(WaitsForItself, "an actor waits for its system to be idle, which it is not before the handler ends")

# Of what, the two columns, and the operations. Those that begin with `_` are steps of others.
_ROWS: list[tuple[str, Way, Way | Refused, str]] = [
    ("ctx", Way.HERE, Way.HERE, "self name parent system env log sender lane blocking timers pipe_to_self"),
    ("ctx", Way.HERE, Way.HERE, "reply fail_reply defer_reply forward"),
    ("ctx", Way.HERE, Way.HERE, "stash unstash unstash_all stash_capacity stash_capacity="),
    ("ctx", Way.HERE, Way.CALL, "now _stop_child _begin_pipe _take_piped"),
    ("ctx", Way.HERE, Way.POST, "_end_pipe"),
    ("ctx", Way.UNLESS_ABANDONED, Way.HERE, "stop become unbecome"),
    ("ctx", Way.UNLESS_ABANDONED, Way.CALL, "spawn"),
    ("ctx", Way.UNLESS_ABANDONED, _META, "spawn_meta"),
    ("ctx", Way.CALL, Way.CALL, "children watch unwatch monitor demonitor link unlink trap_exit="),
    ("ctx", Way.CALL, Way.CALL, "send_after send_every set_receive_timeout"),
    ("ctx", Way.HERE, Way.CALL, "trap_exit"),
    ("ctx", Way.CALL, Way.HERE, "metas unwatch_fd _publish _owe _hand_on"),
    ("ctx", Way.CALL, _DESCRIPTOR, "watch_fd"),
    ("timers", Way.CALL, Way.CALL, "start cancel cancel_all"),
    ("timers", Way.HERE, Way.CALL, "is_active active"),
    ("timer", Way.HERE, Way.CALL, "cancel active"),
    ("ref", Way.HERE, Way.HERE, "id name path parent"),
    ("ref", Way.MAIL, Way.MAIL, "tell __lshift__ ask ask_sync"),
    ("ref", Way.HERE, Way.CALL, "state is_alive history stop kill fail restart _fail_by_pipe"),
    ("ref", Way.HERE, Way.AWAIT, "send started terminated inspect"),
    ("ref", Way.HERE, Way.BLOCK, "send_sync started_sync terminated_sync inspect_sync"),
    ("system", Way.HERE, Way.HERE, "name shutdown"),
    ("system", Way.HERE, Way.CALL, "phase token spawn actor actors ledger tree snapshot stop fail _request_end"),
    ("system", Way.HERE, _IDLENESS, "settle_sync"),
]

OPERATIONS: dict[str, Operation] = {
    f"{of}.{name}": Operation(of, name, shared, remote) for of, shared, remote, names in _ROWS for name in names.split()
}


def carries_out(of: str, stub: Callable[[Operation, Stub], Stub | None]) -> Callable[[C], C]:
    """Decorate a class so that it carries out the operations of `of` by stubs. `stub` makes one from a row and the
    function that does it at home; None where that function is as good. What the class itself defines is kept.
    """

    def decorated(carrier: C) -> C:
        own = set(vars(carrier))
        for row in OPERATIONS.values():
            name, sets = row.name.removesuffix("="), row.name.endswith("=")
            if row.of != of or name in own:
                continue
            found: Any = getattr(carrier, name)
            is_property = isinstance(found, property)
            at_home: Any = found if not is_property else found.fset if sets else found.fget
            made = stub(row, at_home)
            if made is not None and is_property:
                setattr(carrier, name, found.setter(made) if sets else found.getter(made))
            elif made is not None:
                setattr(carrier, name, made)
        return carrier

    return decorated
