"""The chaos program: ``python -m tools.chaos --seconds 60 --seed 7``. Exit code 1 if anything was wrong."""

from __future__ import annotations

import argparse
import random
import sys
import time

from tools.chaos.display import Display
from tools.chaos.plan import FEATURES
from tools.chaos.program import Program, Settings

SPAN = 1_000_000
"""Histories of one seed: their numbers begin at the seed times this."""


def main(arguments: list[str] | None = None) -> int:
    """Run histories, and say what is wrong with them."""
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description="Random histories under attack.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default: 60)")
    parser.add_argument("--seed", type=int, help="of the first history; a random one if none is given")
    parser.add_argument("--histories", type=int, default=SPAN, help="how many at most")
    parser.add_argument("--history", type=int, metavar="NUMBER", help="run this one history, and nothing else")
    parser.add_argument("--repeat", type=int, default=1, help="with --history: how often")
    parser.add_argument("--features", metavar="A,B", help="have these features in each history, and no others")
    parser.add_argument("--without", default="", metavar="A,B", help="features that no history has")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for what must happen")
    parser.add_argument("--plain", action="store_true", help="lines instead of a display")
    parser.add_argument("--list", action="store_true", help="list the features")
    given = parser.parse_args(arguments)
    if given.list:
        for name, what in FEATURES.items():
            print(f"{name:16} {what}")
        return 0
    for name in [*given.without.split(","), *(given.features or "").split(",")]:
        if name and name not in FEATURES:
            parser.error(f"there is no feature {name!r}: --list shows them")
    settings = Settings(without=given.without, features=given.features, patience=given.patience)
    display = Display(is_plain=given.plain or not sys.stdout.isatty())
    program = Program(settings, display)
    if given.history is not None:
        for _ in range(given.repeat):
            program.run(given.history, 1, time.time() + 1e9)
    else:
        seed = random.SystemRandom().randrange(1000) if given.seed is None else given.seed
        print(f"chaos: seed {seed}, {given.seconds:g} s", flush=True)
        program.run(seed * SPAN, given.histories, time.time() + given.seconds)
    return program.sum_up()


if __name__ == "__main__":
    sys.exit(main())
