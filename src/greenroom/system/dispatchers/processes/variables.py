"""Context variables between the main process and its workers.

A variable cannot be pickled, so it goes by its number among those that the system propagates, and the worker finds its
own by the module and the name that it has there. Values are packed one by one: one that cannot be sent must not keep
the message from arriving. It is left out, and the log says so once for each variable.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from greenroom._core.delivery.propagation import Propagation, Values
from greenroom.errortext import in_words
from greenroom.runtimelog import RuntimeLog
from greenroom.wire.codec import pack, unpacked

_log = RuntimeLog()

Place = list[str]
"""The module of a variable, and its name there; empty if it has none that a worker could import."""
PackedValues = list[tuple[int, object]]
"""The numbers of variables, and their packed values."""


def places_of(variables: Sequence[ContextVar[Any]]) -> list[Place]:
    places = [_place_of(variable) for variable in variables]
    for variable, place in zip(variables, places, strict=True):
        if not place:
            told = "the context variable %r stays in this process: a worker process finds only a global of a module"
            _log.warning(told, variable.name)
    return places


def _place_of(variable: ContextVar[Any]) -> Place:
    for name, module in reversed(list(sys.modules.items())):  # who imports it from there often comes before
        if name != "__main__":
            for attribute, value in list(getattr(module, "__dict__", {}).items()):
                if value is variable:
                    return [name, attribute]
    return []


class WorkerPropagation(Propagation):
    """The variables of a system, in a worker process: known when their modules are imported."""

    __slots__ = ("_found", "_places")

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = list(places)
        self._found: list[ContextVar[Any] | None] = [None] * len(self._places)

    @property
    def variables(self) -> Sequence[ContextVar[Any]]:  # type: ignore[override]
        """The variables that are known by now: no other can have been set."""
        for number, place in enumerate(self._places):
            if self._found[number] is None and place and place[0] in sys.modules:
                self.find(number)
        return [variable for variable in self._found if variable is not None]

    def number_of(self, variable: ContextVar[Any]) -> int:
        return self._found.index(variable)

    def find(self, number: int) -> ContextVar[Any] | None:
        """The variable of this number, whose module is imported if need be."""
        place = self._places[number]
        if self._found[number] is None and place:
            found = getattr(import_module(place[0]), place[1], None)
            self._found[number] = found if isinstance(found, ContextVar) else None
        return self._found[number]


class ValuePacker:
    """Packs values for the other process, and unpacks those that come from there. On one thread."""

    def __init__(self, propagation: Propagation, limit: int) -> None:
        self._propagation = propagation
        self._limit = limit
        # The variables that the log has named.
        self._named: set[ContextVar[Any]] = set()
        # The last ones, since many messages of a burst have the same.
        self._values: Values = ()
        self._packed: PackedValues = []

    def here(self) -> PackedValues:
        return self.pack(self._propagation.values())

    def pack(self, values: Values) -> PackedValues:
        if values == ():
            return []
        if not _are_same(values, self._values):
            self._packed = [(number, packed) for number, packed in map(self._pack, values) if number >= 0]
            self._values = values
        return self._packed

    def _pack(self, given: tuple[ContextVar[Any], object]) -> tuple[int, object]:
        variable, value = given
        try:
            return self._propagation.number_of(variable), pack(value, self._limit)
        except Exception as exc:
            self._leave_out(variable, exc)
            return -1, None

    def unpack(self, packed: PackedValues) -> Values:
        values = []
        for number, value in packed:
            variable = self._propagation.find(number)
            if variable is not None:
                try:
                    values.append((variable, unpacked(value)))
                except Exception as exc:
                    self._leave_out(variable, exc)
        return tuple(values)

    def _leave_out(self, variable: ContextVar[Any], exc: Exception) -> None:
        if variable not in self._named:
            self._named.add(variable)
            told = "the context variable %r does not travel between processes, for its value cannot be sent: %s"
            _log.warning(told, variable.name, in_words(exc))


def _are_same(values: Values, others: Values) -> bool:
    """Whether these are the very same values: equal ones need not be alike."""
    if len(values) != len(others):
        return False
    return all(one[0] is other[0] and one[1] is other[1] for one, other in zip(values, others, strict=True))
