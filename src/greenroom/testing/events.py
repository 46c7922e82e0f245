"""The events of a trace, and their texts."""

from __future__ import annotations

import re
from typing import Any

from greenroom._core.simulation import events as event_kinds
from greenroom.exits import ExitReason
from greenroom.frozen import Frozen

__all__ = ["KINDS", "OUTSIDE", "Event", "printable", "shown"]

OUTSIDE = "(outside)"
"""The sender of messages that no actor sends: the program itself and its tasks."""
_LONGEST = 80
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")

KINDS = {
    number: name.lower() for name, number in vars(event_kinds).items() if isinstance(number, int) and name != "ENTRIES"
}


class Event(Frozen):
    """Something that happened at a step of a simulation.

    `kind` says what: `told`, `asked`, `ticked` (a timer sent), `taken` (the message is handled), `answered`,
    `refused` (a question without a reply), `failed`, `started`, `stopped`, `restarted`, `escalated`, `full`,
    `dropped`, `dead_letter`, `declined` (a told message was refused, with one of the actor's `answers`), or `injected`
    (a fault). `actor` is the path of the actor that it happened to. `other` is the other side: the sender of a message,
    or the asker that gets an answer. Both are empty if there is none. `what` is the message, reply, exception or
    reason.
    """

    __slots__ = ("step", "time", "kind", "actor", "what", "other")  # noqa: RUF023 - in the order of the arguments

    step: int
    time: float
    kind: str
    actor: str
    what: Any
    other: str

    def __init__(self, step: int, time: float, kind: str, actor: str, what: object, other: str) -> None:
        self._set(step, time, kind, actor, what, other)

    def __str__(self) -> str:
        return f"{self.step:>6} {self.time:>10.6g} s  {_SENTENCES[self.kind].format(self=self, what=shown(self.what))}"


_SENTENCES = {
    "told": "{self.other} -> {self.actor}: {what}",
    "asked": "{self.other} -> {self.actor}: {what}, and asks for a reply",
    "ticked": "{self.other} -> {self.actor}: {what}, by a timer",
    "taken": "    {self.actor} handles {what}",
    "answered": "{self.actor} answers {self.other}: {what}",
    "refused": "{self.other} gets no answer from {self.actor}: {what}",
    "failed": "    {self.actor} fails: {what}",
    "started": "    {self.actor} has started",
    "stopped": "    {self.actor} has ended: {what}",
    "restarted": "    {self.actor} is restarted after {what}",
    "escalated": "    {self.actor} escalates {what}",
    "full": "    {self.actor} has no room for {what}",
    "dropped": "    {self.actor} drops {what}",
    "dead_letter": "    {what} to {self.actor} is a dead letter",
    "declined": "    {self.actor} refuses it: {what}",
    "injected": "    fault: {self.what}",
}


def printable(text: str) -> str:
    """`text` on one line, with unprintable characters escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def shown(what: object) -> str:
    """A short text for `what` that is the same in every run: without addresses."""
    if isinstance(what, ExitReason):
        return str(what)
    try:
        text = repr(what)
    except Exception as exc:
        text = f"<{type(what).__name__} whose repr raises {type(exc).__name__}>"
    text = printable(_ADDRESS.sub("", text)) or f"<{type(what).__name__} that shows nothing>"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
