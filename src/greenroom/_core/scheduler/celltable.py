"""Cells by id. An id is a slot and the slot's generation, so a stale id never finds the slot's next tenant.

The loops of one system share the numbers of their slots, block by block: so an id is one actor's in the whole system,
and tells whose table it is in.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Iterator

from greenroom._core.mailbox.cell import Cell
from greenroom.errors import TooManyActors

# Written out: as C integers, shifting them here would overflow.
SLOT_BITS = 32
_SLOT_MASK = 0xFFFF_FFFF
_LAST_GENERATION = 0x7FFF_FFFF
BLOCK_BITS = 6
_IN_BLOCK = 0x3F


class SlotBlocks:
    """Which blocks of slots belong to which table, for tables that share them. From any thread."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        # Invariant: the table of each block, and which of its own blocks that is; only ever appended to
        self._owners: list[tuple[CellTable, int]] = []
        self.tables: list[CellTable] = []

    def take(self, table: CellTable, own: int) -> int:
        """A new block: the number of it, which is `table`'s block `own`."""
        with self._lock:
            self._owners.append((table, own))
            return len(self._owners) - 1

    def owner(self, cell_id: int) -> CellTable | None:
        """The table in which an actor of this id would be."""
        block = (cell_id & _SLOT_MASK) >> BLOCK_BITS
        return self._owners[block][0] if 0 <= block < len(self._owners) else None

    def place(self, slot: int) -> int:
        """Where a slot is in its own table, by the number that all know it by."""
        return (self._owners[slot >> BLOCK_BITS][1] << BLOCK_BITS) | (slot & _IN_BLOCK)

    def counted(self) -> int:
        """How many cells count against the limit, at a glance."""
        total = 0
        for table in self.tables:
            total += table.counted
        return total


class CellTable:
    """Every living cell of one loop. Adding, finding and removing take the same time however many there are."""

    def __init__(self, limit: int, blocks: SlotBlocks | None = None) -> None:
        self.limit = limit
        # What gives out the numbers of slots, if other tables share them; and the numbers of the own blocks.
        self._blocks: SlotBlocks | None = None
        self._numbers: list[int] = []
        # Invariant: cells in the table that count against the limit
        self.counted = 0
        # Invariant: a slot holds its cell, or the generation of its next one; free slots that may be used again
        # stand in _free
        self._slots: list[Cell | int] = []
        self._free: list[int] = []
        if blocks is not None:
            self.share(blocks)

    def share(self, blocks: SlotBlocks) -> None:
        """Share the numbers of slots with other tables from now on. The first to do so keeps those it has."""
        blocks.tables.append(self)
        self._blocks = blocks
        for place in range(0, len(self._slots), _IN_BLOCK + 1):
            self._number(place)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Cell]:
        return (entry for entry in self._slots if isinstance(entry, Cell))

    def add(self, cell: Cell, exempt: bool = False) -> int:
        """Give `cell` a slot and an id, which is never 0. An exempt cell does not count against the limit."""
        if not exempt:
            if self.counted >= self.limit or (self._blocks is not None and self._blocks.counted() >= self.limit):
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
        if self._blocks is not None:
            slot = self._number(slot)
        cell.id = (generation << SLOT_BITS) | slot  # type: ignore[operator]
        cell.exempt = exempt
        return cell.id

    def _number(self, place: int) -> int:
        """The number that all know a slot by; a new block is taken for the first slot of one."""
        own = place >> BLOCK_BITS
        if own == len(self._numbers):
            self._numbers.append(self._blocks.take(self, own))  # type: ignore[union-attr]
        return (self._numbers[own] << BLOCK_BITS) | (place & _IN_BLOCK)

    def find(self, cell_id: int) -> Cell | None:
        """The living cell with this id, if there is one."""
        slot = cell_id & _SLOT_MASK
        if self._blocks is not None:
            if self._blocks.owner(cell_id) is not self:
                return None
            slot = self._blocks.place(slot)
        if cell_id > 0 and slot < len(self._slots):
            entry = self._slots[slot]
            if isinstance(entry, Cell) and entry.id == cell_id:
                return entry
        return None

    def remove(self, cell: Cell) -> None:
        """Free the slot of `cell`; its id is never given again."""
        slot = cell.id & _SLOT_MASK
        if self._blocks is not None:
            slot = self._blocks.place(slot)
        generation = cell.id >> SLOT_BITS
        self._slots[slot] = generation + 1
        # A slot whose generations are used up stays empty: two billion tenants later an id must still be new.
        if generation < _LAST_GENERATION:
            self._free.append(slot)
        if not cell.exempt:
            self.counted -= 1
