"""Context variables that travel with messages: their values at the sender are those that the handler sees.

A system that propagates none has no `Propagation`, and nothing here is asked. In one that does, each cell has
`PROPAGATES` among its flags, which shuts the quick ways in and out of its mailbox.

**At the sender**, on its own thread, the values are taken down. A message that was told has them in a `Told`, in the
sender's place; that of an ask or a timer has a receipt already, which keeps them.

**For the handler**, each message has a context of its own: a copy of the actor's, with these values. So nothing that a
handler sets reaches the next message, and a variable that the sender had not set is not set.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context, ContextVar
from typing import Any

from greenroom._core.receipt import Receipt, Told

Values = tuple[tuple[ContextVar[Any], object], ...]
"""Variables that were set, with what they were set to."""

_UNSET = object()


class Propagation:
    """The variables that travel within one system."""

    def __init__(self, variables: Sequence[ContextVar[Any]]) -> None:
        self.variables: Sequence[ContextVar[Any]] = variables

    def number_of(self, variable: ContextVar[Any]) -> int:
        """The number of a variable among them, by which another process knows it."""
        return self.variables.index(variable)

    def find(self, number: int) -> ContextVar[Any] | None:
        return self.variables[number]

    def values(self) -> Values:
        """The variables that are set here and now. On any thread."""
        values = ()
        for variable in self.variables:
            value = variable.get(_UNSET)
            if value is not _UNSET:
                values += ((variable, value),)  # type: ignore[assignment]
        return values

    def take_along(self, sender: object) -> object:
        """What stands in the sender's place, with the values that are set here and now; those once taken down stay."""
        if isinstance(sender, Receipt):
            if sender.propagated() is None:
                sender.propagate(self.values())
            return sender
        values = self.values()
        return Told(sender, values) if values else sender

    def context_for(self, own: Context | None, sender: object) -> Context:
        """The context in which a message is handled by an actor whose own context this is."""
        if own is None:
            context = Context()
        elif any(variable in own for variable in self.variables):
            context = self._without(own)
        else:
            context = own.copy()
        values = sender.propagated() if isinstance(sender, Receipt) else None
        if values:
            context.run(_set, values)
        return context

    def context_of(self, values: Values) -> Context:
        context = Context()
        context.run(_set, values)
        return context

    def _without(self, own: Context) -> Context:
        """A hook of the actor has set some of them: a copy without those, which no variable can be taken out of."""
        context = Context()
        context.run(_set, [(variable, value) for variable, value in own.items() if variable not in self.variables])
        return context


def _set(values: Sequence[tuple[ContextVar[Any], object]]) -> None:
    for variable, value in values:
        variable.set(value)
