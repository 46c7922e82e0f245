"""Cells by id. An id is a slot and the slot's generation, so a stale id never finds the slot's next tenant."""

from __future__ import annotations

from collections.abc import Iterator

from greenroom._core.mailbox.cell import Cell
from greenroom.errors import TooManyActors

__all__ = ["CellTable"]

# Written out: as C integers, shifting them here would overflow.
SLOT_BITS = 32
_SLOT_MASK = 0xFFFF_FFFF
_LAST_GENERATION = 0x7FFF_FFFF


class CellTable:
    """Every living cell of one loop. Adding, finding and removing take the same time however many there are."""

    __slots__ = ("_free", "_slots", "counted", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # Invariant: cells in the table that count against the limit
        self.counted = 0
        # Invariant: a slot holds its cell, or the generation of its next one; free slots that may be used again
        # stand in _free
        self._slots: list[Cell | int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Cell]:
        return (entry for entry in self._slots if isinstance(entry, Cell))

    def add(self, cell: Cell, exempt: bool = False) -> int:
        """Give `cell` a slot and an id, which is never 0. An exempt cell does not count against the limit."""
        if not exempt:
            if self.counted >= self.limit:
                raise TooManyActors(self.limit)
            self.counted += 1
        if self._free:
            slot = self._free.pop()
            generation = self._slots[slot]
            self._slots[slot] = cell
        else:
            slot = len(self._slots)
            generation = 1
            self._slots.append(cell)
        cell.id = (generation << SLOT_BITS) | slot  # type: ignore[operator]
        cell.exempt = exempt
        return cell.id

    def find(self, cell_id: int) -> Cell | None:
        """The living cell with this id, if there is one."""
        slot = cell_id & _SLOT_MASK
        if cell_id > 0 and slot < len(self._slots):
            entry = self._slots[slot]
            if isinstance(entry, Cell) and entry.id == cell_id:
                return entry
        return None

    def remove(self, cell: Cell) -> None:
        """Free the slot of `cell`; its id is never given again."""
        slot = cell.id & _SLOT_MASK
        generation = cell.id >> SLOT_BITS
        self._slots[slot] = generation + 1
        # A slot whose generations are used up stays empty: two billion tenants later an id must still be new.
        if generation < _LAST_GENERATION:
            self._free.append(slot)
        if not cell.exempt:
            self.counted -= 1
