"""The table: a cell by its id, and never another one by an id that has been used up."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from greenroom._core.mailbox.cell import Cell
from greenroom._core.scheduler.celltable import CellTable, SlotBlocks
from greenroom._core.scheduler.loop import Loop
from greenroom.errors import TooManyActors

LAST_GENERATION = (1 << 31) - 1


def handler(subject: object, message: object) -> None:
    """What no test here lets run."""


def cell() -> Cell:
    return Loop().spawn(handler)


def slot_of(cell_id: int) -> int:
    return cell_id & 0xFFFF_FFFF


def generation_of(cell_id: int) -> int:
    return cell_id >> 32


def test_an_empty_table_finds_nothing() -> None:
    table = CellTable(10)
    assert (len(table), list(table), table.counted) == (0, [], 0)
    assert [table.find(number) for number in (-1, 0, 1, 1 << 32, 1 << 63, -(1 << 63))] == [None] * 6


def test_a_stale_id_never_finds_the_next_tenant_of_its_slot() -> None:  # J14
    table = CellTable(1)
    stale: list[int] = []
    for _ in range(100):
        tenant = cell()
        given = table.add(tenant)
        assert slot_of(given) == 0, "the slot is used again"
        assert [table.find(old) for old in stale] == [None] * len(stale)
        assert table.find(given) is tenant
        stale.append(given)
        table.remove(tenant)


@pytest.mark.parametrize("wrong", [1, -1, 1 << 32, -(1 << 32), 1 << 63, 1 << 64, 1 << 100])
def test_an_id_that_is_only_nearly_right_finds_nothing(wrong: int) -> None:
    table = CellTable(10)
    given = table.add(cell())
    assert table.find(given + wrong) is None
    assert table.find(-given) is None


def test_freed_slots_are_used_again_before_new_ones() -> None:
    table = CellTable(10)
    cells = [cell() for _ in range(5)]
    for one in cells:
        table.add(one)
    for one in cells[1:4]:
        table.remove(one)
    again = {slot_of(table.add(cell())) for _ in range(3)}
    assert again == {1, 2, 3}
    assert slot_of(table.add(cell())) == 5


def test_the_last_generation_of_a_slot_is_a_good_one() -> None:
    table, early, late = CellTable(10), cell(), cell()
    early.id = (LAST_GENERATION - 1) << 32 | slot_of(table.add(early))
    table.remove(early)
    given = table.add(late)
    assert (generation_of(given), slot_of(given)) == (LAST_GENERATION, 0)
    assert table.find(given) is late
    assert table.find(early.id) is None


def test_a_slot_whose_generations_are_used_up_is_never_used_again() -> None:
    table, last, next_one = CellTable(10), cell(), cell()
    last.id = LAST_GENERATION << 32 | slot_of(table.add(last))
    table.remove(last)
    given = table.add(next_one)
    assert slot_of(given) == 1
    assert table.find(last.id) is None
    assert (list(table), table.counted) == ([next_one], 1)


def test_the_table_is_full_at_its_limit_and_says_so() -> None:  # J1
    table = CellTable(2)
    cells = [cell(), cell(), cell()]
    for one in cells[:2]:
        table.add(one)
    with pytest.raises(TooManyActors) as caught:
        table.add(cells[2])
    assert caught.value.limit == 2
    assert list(table) == cells[:2]
    table.remove(cells[0])
    assert table.find(table.add(cells[2])) is cells[2]


def test_an_exempt_cell_neither_needs_room_nor_takes_any() -> None:
    table = CellTable(1)
    guests = [cell() for _ in range(3)]
    for guest in guests:
        assert table.find(table.add(guest, True)) is guest
    assert (len(table), table.counted) == (3, 0)
    table.add(cell())
    table.add(cell(), True)
    with pytest.raises(TooManyActors):
        table.add(cell())
    table.remove(guests[0])
    with pytest.raises(TooManyActors):
        table.add(cell())


def test_a_loop_whose_actor_has_ended_never_finds_it_again() -> None:
    loop = Loop()
    first = loop.spawn(handler)
    stale = first.id
    loop.retire(first)
    second = loop.spawn(handler)
    assert slot_of(second.id) == slot_of(stale)
    assert loop.table.find(stale) is None
    assert loop.table.find(second.id) is second
    loop.retire(first)
    assert loop.table.find(second.id) is second, "retiring the old one again spares the new one"


class TableAgainstDict(RuleBasedStateMachine):
    """A table and a dict from id to cell, with every id that was ever given."""

    limit = 5

    def __init__(self) -> None:
        super().__init__()
        self.table = CellTable(self.limit)
        self.living: dict[int, tuple[Cell, bool]] = {}
        self.given: list[int] = []

    def counted(self) -> int:
        return sum(not exempt for _, exempt in self.living.values())

    @rule(exempt=st.booleans())
    def add(self, exempt: bool) -> None:
        one = cell()
        if not exempt and self.counted() == self.limit:
            with pytest.raises(TooManyActors):
                self.table.add(one, exempt)
            return
        given = self.table.add(one, exempt)
        assert given > 0
        assert given == one.id
        assert given not in self.given
        self.given.append(given)
        self.living[given] = one, exempt

    @precondition(lambda self: self.living)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(list(self.living)))
        self.table.remove(self.living.pop(gone)[0])

    @invariant()
    def every_id_ever_given_finds_its_own_cell_or_none(self) -> None:
        for given in self.given:
            found = self.table.find(given)
            assert found is (self.living[given][0] if given in self.living else None)

    @invariant()
    def they_hold_the_same_cells(self) -> None:
        assert {one.id for one in self.table} == self.living.keys()
        assert len(self.table) == len(list(self.table)) == len(self.living)
        assert self.table.counted == self.counted()

    @invariant()
    def slots_are_not_wasted(self) -> None:
        if self.living:
            assert max(map(slot_of, self.living)) < len(self.given)


TestTableAgainstDict = TableAgainstDict.TestCase
TestTableAgainstDict.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# Tables that share their numbers


def shared(tables: int, limit: int = 1000) -> tuple[SlotBlocks, list[CellTable]]:
    blocks = SlotBlocks()
    return blocks, [CellTable(limit, blocks) for _ in range(tables)]


def test_no_id_is_given_by_two_tables_that_share_their_numbers() -> None:
    _, tables = shared(3)
    ids = [table.add(cell()) for _ in range(200) for table in tables]
    assert len(set(ids)) == len(ids)


def test_an_id_tells_whose_table_its_cell_is_in() -> None:
    blocks, tables = shared(3)
    cells = [(table, cell()) for _ in range(200) for table in tables]
    for table, one in cells:
        table.add(one)
    for table, one in cells:
        assert blocks.owner(one.id) is table
        assert [other.find(one.id) for other in tables] == [one if other is table else None for other in tables]


def test_a_slot_is_used_again_by_its_own_table_and_its_old_id_finds_nobody() -> None:
    blocks, (one, other) = shared(2)
    first = cell()
    old = one.add(first)
    other.add(cell())
    one.remove(first)
    second = cell()
    assert one.add(second) & 0xFFFF_FFFF == old & 0xFFFF_FFFF
    assert one.find(old) is None
    assert one.find(second.id) is second
    assert blocks.owner(second.id) is one


def test_the_limit_is_that_of_all_together() -> None:
    _, (one, other) = shared(2, limit=3)
    one.add(cell())
    one.add(cell())
    mine = cell()
    other.add(mine)
    for table in (one, other):
        with pytest.raises(TooManyActors):
            table.add(cell())
    other.remove(mine)
    one.add(cell())


def test_an_unknown_number_belongs_to_no_table() -> None:
    blocks, (one,) = shared(1)
    assert blocks.owner(1 << 40) is None
    assert one.find(1 << 32 | 77) is None
