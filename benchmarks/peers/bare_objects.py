"""Bare random touches: what the memory hierarchy alone charges for a million objects, not a thousand."""

from __future__ import annotations

import time

from benchmarks.program import Report, dice, main, settle

FEW = 1000
PASSES = 5


class Account:
    """One attribute, read and written by each touch."""

    def __init__(self) -> None:
        self.balance = 0


def run(n: int) -> Report:
    """Cost per touch with ``n`` objects over the cost with a thousand, best of alternating passes."""
    many, few = _shuffled(n), _shuffled(FEW)
    settle()
    costs = [(_seconds_per_touch(many, 1), _seconds_per_touch(few, n // FEW)) for _ in range(PASSES)]
    with_many = min(cost for cost, _ in costs)
    with_few = min(cost for _, cost in costs)
    return Report(with_many / with_few, {"ns with many": with_many * 1e9, "ns with 1k": with_few * 1e9})


def _shuffled(count: int) -> list[Account]:
    accounts = [Account() for _ in range(count)]
    dice().shuffle(accounts)
    return accounts


def _seconds_per_touch(accounts: list[Account], rounds: int) -> float:
    start = time.perf_counter()
    for _ in range(rounds):
        for account in accounts:
            account.balance += 1
    return (time.perf_counter() - start) / (rounds * len(accounts))


if __name__ == "__main__":
    main(run)
