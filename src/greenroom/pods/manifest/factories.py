"""What a pod's actors are made by."""

from __future__ import annotations

from typing import Any

from greenroom.actor.api.actor import Actor
from greenroom.actor.api.props import Props

__all__ = ["actor_class_of", "is_troupe"]


def actor_class_of(factory: Any) -> type[Actor] | None:
    """The class of the actors that a factory makes, if that can be told."""
    if isinstance(factory, Props):
        factory = factory.factory
    return factory if isinstance(factory, type) and issubclass(factory, Actor) else None


def is_troupe(factory: Any) -> bool:
    """Whether a pod's actor is a whole troupe."""
    return isinstance(factory, type) and getattr(factory, "__greenroom_is_troupe__", False) is True
