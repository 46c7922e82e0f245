"""Meta-processes: work that blocks, and the world outside, beside actors.

A meta-process belongs to one actor and ends with it. `ctx.spawn_meta(meta)` brings one up and returns its alias.
"""

from greenroom.actor.api.fdwatch import READ, WRITE, FdWatch, IoReady
from greenroom.actor.messaging.ref import Alias
from greenroom.meta.process.metaprocess import MetaProcess
from greenroom.meta.process.options import Compression, MetaOptions
from greenroom.meta.process.state import MetaState

__all__ = [
    "READ",
    "WRITE",
    "Alias",
    "Compression",
    "FdWatch",
    "IoReady",
    "MetaOptions",
    "MetaProcess",
    "MetaState",
]
