"""A program that doubles even numbers, drops odd ones, and crashes now and then."""

import random
import sys

if __name__ == "__main__":
    chance = random.Random(sys.argv[1])
    for line in sys.stdin:
        if chance.random() < 0.0005:
            sys.exit(1)
        print(int(line) * 2 if int(line) % 2 == 0 else "-", flush=True)
