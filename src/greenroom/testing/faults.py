"""Faults that a simulation injects: declared here, and drawn from the seed.

>>> from greenroom.testing import faults
>>> faults.crash("worker-*", at=(1, 20), chance=0.5)      # each of them, at one of its first twenty messages, or not
crash('worker-*', at=(1, 20), chance=0.5)
>>> faults.delay(to="/bank", by=(0.0, 0.5))               # up to half a second on the way, in order for each sender
delay(to='/bank', by=(0.0, 0.5))

Actors are given by name, by path (with the wildcards `*` and `?`) or by class. A number is given as such, or as a pair
to draw it from; if it is left out, it is drawn from a default range. `chance` is the probability of each occasion: each
actor that could crash, each message that could be late.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from greenroom._core.simulation.schedules import SplitMix
from greenroom.errors import ConfigError
from greenroom.validation import is_number, is_whole

Who = str | type
Number = int | tuple[int, int] | None
Seconds = float | tuple[float, float]

ANYBODY = "*"
_USUAL = (1, 100)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fault:
    """A declared fault. If it has a `seed`, it draws from that instead of the simulation's."""

    chance: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in _CHECKS:
                checked = _CHECKS[field.name](field.name, getattr(self, field.name))
                object.__setattr__(self, field.name, checked)

    def __repr__(self) -> str:
        parts = []
        chance, seed, *own = fields(self)
        for field in (*own, chance, seed):
            value = getattr(self, field.name)
            if value != field.default:
                text = value.__name__ if isinstance(value, type) else repr(value)
                parts.append(text if field.name == "who" else f"{field.name}={text}")
        return f"{type(self).__name__.lower()}({', '.join(parts)})"

    def with_seed(self, seed: int) -> Fault:
        return replace(self, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Crash(Fault):
    who: Who
    at: Number = None
    error: Callable[[], BaseException] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Stop(Fault):
    who: Who
    at: Number = None
    kill: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Shutdown(Fault):
    at: Number = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Delay(Fault):
    sender: Who = ANYBODY
    to: Who = ANYBODY
    by: Seconds


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Fill(Fault):
    who: Who
    at: Number = None
    lasting: Seconds = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Slow(Fault):
    who: Who
    by: Seconds


def crash(
    who: Who = ANYBODY,
    *,
    at: Number = None,
    error: Callable[[], BaseException] | None = None,
    chance: float = 1.0,
) -> Fault:
    """Crash an actor at its message number `at`, instead of handling it: raise `error()`, or `InjectedFault`.

    If `who` matches several actors, each of them crashes once, at its own number.
    """
    return Crash(who=who, at=at, error=error, chance=chance)


def stop(who: Who = ANYBODY, *, at: Number = None, kill: bool = False, chance: float = 1.0) -> Fault:
    """Stop (or kill) an actor at step `at` of the simulation: one of the living actors that match `who`."""
    return Stop(who=who, at=at, kill=kill, chance=chance)


def shutdown(*, at: Number = None, chance: float = 1.0) -> Fault:
    """Shut the system down at step `at` of the simulation."""
    return Shutdown(at=at, chance=chance)


def delay(sender: Who = ANYBODY, to: Who = ANYBODY, *, by: Seconds = (0.0, 1.0), chance: float = 1.0) -> Fault:
    """Delay messages by `by` seconds.

    Messages of one sender to one actor keep their order, and no notice overtakes a message. Ticks and replies are not
    delayed. The sender `"(outside)"` stands for all code that is not an actor.
    """
    return Delay(sender=sender, to=to, by=by, chance=chance)


def reorder(to: Who = ANYBODY, *, chance: float = 0.5) -> Fault:
    """Reorder messages of different senders, by delays of up to a microsecond."""
    return Delay(to=to, by=(0.0, 1e-6), chance=chance)


def fill(who: Who = ANYBODY, *, at: Number = None, lasting: Seconds = 1.0, chance: float = 1.0) -> Fault:
    """Make a mailbox full when message number `at` is sent to it, for `lasting` seconds."""
    return Fill(who=who, at=at, lasting=lasting, chance=chance)


def slow(who: Who = ANYBODY, *, by: Seconds = (0.0, 0.1), chance: float = 0.5) -> Fault:
    """Slow handlers down by `by` seconds: an async handler sleeps first, any other blocks the loop."""
    return Slow(who=who, by=by, chance=chance)


def drawn_number(number: Number, prng: SplitMix) -> int:
    """The number, or one drawn from the pair. None draws from the default range, small numbers more often."""
    if isinstance(number, int):
        return number
    low, high = _USUAL if number is None else number
    if number is None:
        return min(high, int(math.exp(prng.fraction() * math.log(high + 1))))
    return low + prng.below(high - low + 1)


def drawn_seconds(seconds: Seconds, prng: SplitMix) -> float:
    if isinstance(seconds, tuple):
        return seconds[0] + (seconds[1] - seconds[0]) * prng.fraction()
    return seconds


def _who(name: str, who: object) -> Who:
    if isinstance(who, str | type) and who:
        return who
    raise ConfigError("who", who, "must be an actor's name or path (`*` stands for anything), or its class")


def _chance(name: str, chance: object) -> float:
    if not is_number(chance, 1.0):
        raise ConfigError(name, chance, "must be a probability from 0 to 1")
    return float(chance)


def _error(name: str, error: object) -> object:
    if error is not None and not callable(error):
        raise ConfigError(name, error, "must be an exception class, or a function that makes an exception")
    return error


def _number(name: str, number: object) -> object:
    pair: tuple[Any, ...] = number if isinstance(number, tuple) else (number, number)
    whole = all(is_whole(one, 1) for one in pair)
    if number is not None and not (len(pair) == 2 and whole and pair[0] <= pair[1]):
        raise ConfigError(name, number, "must be a whole number from 1 on, a pair of them, or None")
    return number


def _seconds(name: str, seconds: object) -> Seconds:
    pair: tuple[Any, ...] = seconds if isinstance(seconds, tuple) else (seconds, seconds)
    real = all(isinstance(one, int | float) and 0.0 <= one < math.inf for one in pair)
    if not (len(pair) == 2 and real and pair[0] <= pair[1]):
        raise ConfigError(name, seconds, "must be a number of seconds, or a pair of them")
    return (float(pair[0]), float(pair[1])) if isinstance(seconds, tuple) else float(pair[0])


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "who": _who,
    "sender": _who,
    "to": _who,
    "at": _number,
    "error": _error,
    "kill": lambda name, kill: bool(kill),
    "by": _seconds,
    "lasting": _seconds,
    "chance": _chance,
}
"""Checks and converts what a fault is given, by field."""
