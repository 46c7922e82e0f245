"""Finding actors by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom._core.scheduler.loop import Loop
from greenroom.actor.records.record import ChildList
from greenroom.errors import BadArgument

if TYPE_CHECKING:
    from greenroom.actor.messaging.ref import ActorRef

__all__ = ["find_by_name", "number_in"]


def find_by_name(loop: Loop, top: ChildList, wanted: str | int) -> ActorRef | None:
    """The ref of the actor with this id, path, or top-level name; None if none is alive."""
    if isinstance(wanted, int):
        cell = loop.table.find(wanted)
        return None if cell is None else cell.ref
    if not isinstance(wanted, str):
        raise BadArgument(f"actors are found by name, path or id, not by {wanted!r}")
    child_list: ChildList | None = top
    found: ActorRef | None = None
    for name in wanted.removeprefix("/").split("/"):
        found = None if child_list is None else _child(loop, child_list, found, name)
        if found is None:
            return None
        child_list = found._cell.record.child_list
    return found


def _child(loop: Loop, child_list: ChildList, parent: ActorRef | None, name: str) -> ActorRef | None:
    record = child_list.named(name)
    if record is not None:
        named: ActorRef = record.cell.ref
        return named
    number = number_in(name)
    cell = None if number is None else loop.table.find(number)
    ref: ActorRef | None = None if cell is None else cell.ref
    return ref if ref is not None and ref.name == name and ref._parent == parent else None


def number_in(name: str) -> int | None:
    """The id at the end of the name of a nameless actor, by which it is found."""
    _, mark, number = name.rpartition("$")
    slot, _, generation = number.partition(".")
    if not mark or not slot.isdecimal() or not (generation or "1").isdecimal():
        return None
    return int(generation or 1) << 32 | int(slot)
