"""Things that greet, in the forms an actor may have."""

from __future__ import annotations

import asyncio

from greenroom import Actor, Context


class Greeter(Actor[str, str]):
    def __init__(self, greeting: str = "hello", *, mark: str = "") -> None:
        self.greeting = greeting
        self.mark = mark

    def receive(self, message: str) -> str:
        return f"{self.greeting} {message}{self.mark}"


class Demanding(Actor[str, str]):
    """Has keywords of the same names as spawn's own."""

    def __init__(self, name: str, parent: str = "nobody", mailbox: str = "none") -> None:
        self.text = f"{name} of {parent}, {mailbox}"

    def receive(self, message: str) -> str:
        return f"{self.text}: {message}"


def handler(ctx: Context, message: str) -> str:
    return f"hello {message}"


async def async_handler(ctx: Context, message: str) -> str:
    await asyncio.sleep(0)
    return f"hello {message}"


def handler_with_more(ctx: Context, message: str, greeting: str = "hello") -> str:
    return f"{greeting} {message}"


def three(greeting: str, ctx: Context, message: str) -> str:
    return f"{greeting} {message}"
