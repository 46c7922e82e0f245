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
from typing import Any

from greenroom._core.simulation.schedules import SplitMix
from greenroom.errors import ConfigError
from greenroom.frozen import Frozen
from greenroom.validation import is_number, is_whole

__all__ = ["Fault", "crash", "delay", "fill", "reorder", "shutdown", "slow", "stop"]

Who = str | type
Number = int | tuple[int, int] | None
Seconds = float | tuple[float, float]

ANYBODY = "*"
_USUAL = (1, 100)


class Fault(Frozen):
    """A declared fault. If it has a `seed`, it draws from that instead of the simulation's."""

    __slots__ = ("chance", "seed")

    chance: float
    seed: int | None

    def _shown(self) -> list[str]:
        parts = []
        for name in type(self).__slots__:
            value = getattr(self, name)
            if value != _DEFAULTS.get((type(self).__name__, name), _DEFAULTS.get(("", name))):
                text = value.__name__ if isinstance(value, type) else repr(value)
                parts.append(text if name == "who" else f"{name}={text}")
        return parts

    def __repr__(self) -> str:
        return f"{type(self).__name__.lower()}({', '.join(self._shown())})"

    def with_seed(self, seed: int) -> Fault:
        values = {name: getattr(self, name) for name in type(self).__slots__}
        return type(self)(**{**values, "seed": seed})


class Crash(Fault):
    """An actor fails at its n-th message."""

    __slots__ = ("who", "at", "error", "chance", "seed")  # noqa: RUF023 - in the order of the arguments

    who: Who
    at: Number
    error: Callable[[], BaseException] | None

    def __init__(
        self, who: Who, at: Number, error: Callable[[], BaseException] | None, chance: float, seed: int | None = None
    ) -> None:
        _require_number("at", at)
        if error is not None and not callable(error):
            raise ConfigError("error", error, "must be an exception class, or a function that makes an exception")
        self._set(_who(who), at, error, _chance(chance), seed)


class Stop(Fault):
    """An actor is told to stop, or is killed, at a step."""

    __slots__ = ("who", "at", "kill", "chance", "seed")  # noqa: RUF023 - in the order of the arguments

    who: Who
    at: Number
    kill: bool

    def __init__(self, who: Who, at: Number, kill: bool, chance: float, seed: int | None = None) -> None:
        _require_number("at", at)
        self._set(_who(who), at, bool(kill), _chance(chance), seed)


class Shutdown(Fault):
    """The whole system is told to stop at a step."""

    __slots__ = ("at", "chance", "seed")

    at: Number

    def __init__(self, at: Number, chance: float, seed: int | None = None) -> None:
        _require_number("at", at)
        self._set(at, _chance(chance), seed)


class Delay(Fault):
    """Messages are delayed."""

    __slots__ = ("sender", "to", "by", "chance", "seed")  # noqa: RUF023 - in the order of the arguments

    sender: Who
    to: Who
    by: Seconds

    def __init__(self, sender: Who, to: Who, by: Seconds, chance: float, seed: int | None = None) -> None:
        self._set(_who(sender), _who(to), _seconds("by", by), _chance(chance), seed)


class Fill(Fault):
    """A mailbox is full, from the n-th message on and for some seconds."""

    __slots__ = ("who", "at", "lasting", "chance", "seed")  # noqa: RUF023 - in the order of the arguments

    who: Who
    at: Number
    lasting: Seconds

    def __init__(self, who: Who, at: Number, lasting: Seconds, chance: float, seed: int | None = None) -> None:
        _require_number("at", at)
        self._set(_who(who), at, _seconds("lasting", lasting), _chance(chance), seed)


class Slow(Fault):
    """A handler takes longer."""

    __slots__ = ("who", "by", "chance", "seed")  # noqa: RUF023 - in the order of the arguments

    who: Who
    by: Seconds

    def __init__(self, who: Who, by: Seconds, chance: float, seed: int | None = None) -> None:
        self._set(_who(who), _seconds("by", by), _chance(chance), seed)


_DEFAULTS: dict[tuple[str, str], object] = {
    ("", "chance"): 1.0,
    ("", "seed"): None,
    ("", "at"): None,
    ("", "error"): None,
    ("", "kill"): False,
    ("", "sender"): ANYBODY,
    ("", "to"): ANYBODY,
    ("Fill", "lasting"): 1.0,
}


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
    return Crash(who, at, error, chance)


def stop(who: Who = ANYBODY, *, at: Number = None, kill: bool = False, chance: float = 1.0) -> Fault:
    """Stop (or kill) an actor at step `at` of the simulation: one of the living actors that match `who`."""
    return Stop(who, at, kill, chance)


def shutdown(*, at: Number = None, chance: float = 1.0) -> Fault:
    """Shut the system down at step `at` of the simulation."""
    return Shutdown(at, chance)


def delay(sender: Who = ANYBODY, to: Who = ANYBODY, *, by: Seconds = (0.0, 1.0), chance: float = 1.0) -> Fault:
    """Delay messages by `by` seconds.

    Messages of one sender to one actor keep their order, and no notice overtakes a message. Ticks and replies are not
    delayed. The sender `"(outside)"` stands for all code that is not an actor.
    """
    return Delay(sender, to, by, chance)


def reorder(to: Who = ANYBODY, *, chance: float = 0.5) -> Fault:
    """Reorder messages of different senders, by delays of up to a microsecond."""
    return Delay(ANYBODY, to, (0.0, 1e-6), chance)


def fill(who: Who = ANYBODY, *, at: Number = None, lasting: Seconds = 1.0, chance: float = 1.0) -> Fault:
    """Make a mailbox full when message number `at` is sent to it, for `lasting` seconds."""
    return Fill(who, at, lasting, chance)


def slow(who: Who = ANYBODY, *, by: Seconds = (0.0, 0.1), chance: float = 0.5) -> Fault:
    """Slow handlers down by `by` seconds: an async handler sleeps first, any other blocks the loop."""
    return Slow(who, by, chance)


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


def _who(who: object) -> Who:
    if isinstance(who, str | type) and who:
        return who
    raise ConfigError("who", who, "must be an actor's name or path (`*` stands for anything), or its class")


def _chance(chance: object) -> float:
    if not is_number(chance, 1.0):
        raise ConfigError("chance", chance, "must be a probability from 0 to 1")
    return float(chance)


def _require_number(name: str, number: object) -> None:
    pair: tuple[Any, ...] = number if isinstance(number, tuple) else (number, number)
    whole = all(is_whole(one, 1) for one in pair)
    if number is not None and not (len(pair) == 2 and whole and pair[0] <= pair[1]):
        raise ConfigError(name, number, "must be a whole number from 1 on, a pair of them, or None")


def _seconds(name: str, seconds: object) -> Seconds:
    pair: tuple[Any, ...] = seconds if isinstance(seconds, tuple) else (seconds, seconds)
    real = all(isinstance(one, int | float) and 0.0 <= one < math.inf for one in pair)
    if not (len(pair) == 2 and real and pair[0] <= pair[1]):
        raise ConfigError(name, seconds, "must be a number of seconds, or a pair of them")
    return (float(pair[0]), float(pair[1])) if isinstance(seconds, tuple) else float(pair[0])
