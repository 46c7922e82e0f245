"""Who supervises whom.

    ingest                       rest for one: what stands below in this list depends on what stands above
    ├─ indexer-0, indexer-1      a thread and a database each
    ├─ merger-0, merger-1
    ├─ files                     one for one
    │  └─ FileHead ...           one per file, each with its LineReader
    ├─ connections
    │  └─ ConnectionHead ...     one per client
    └─ listener
       └─ TcpServer

When an indexer dies, what its merger has sent to it is gone. So the mergers and heads are restarted too: the heads read
again what is not in the database, and clients, whose connections are closed, send it again. Mergers and heads have
nothing to put in order at their end, and may be waiting for one that will never take what they send: they are killed.
"""

from __future__ import annotations

from pathlib import Path

from examples.ingest.heads import ConnectionHead, FileHead
from examples.ingest.indexer import Indexer
from examples.ingest.listener import Listener
from examples.ingest.merger import Merger
from greenroom import (
    ChildSpec,
    DynamicSupervisor,
    MailboxConfig,
    Restart,
    Scope,
    Shutdown,
    Supervisor,
    SupervisorSpec,
)

SHARDS = 2
OFTEN = 1_000_000
"""Restarts: in this example, things are killed all the time."""


def database(folder: Path, shard: int) -> Path:
    """Where an indexer writes."""
    return folder / f"index-{shard}.sqlite"


def tree(folder: Path, port: int, seconds: float = 10.0) -> SupervisorSpec:
    """The tree for the files `*.log` of a folder, and for clients; with windows of so many `seconds`."""
    indexers = [f"/ingest/indexer-{shard}" for shard in range(SHARDS)]
    mergers = [f"/ingest/merger-{shard}" for shard in range(SHARDS)]
    heads = [
        ChildSpec(
            path.stem, FileHead, (path, mergers, indexers), shutdown=Shutdown.KILL, mailbox=MailboxConfig(capacity=64)
        )
        for path in sorted(folder.glob("*.log"))
    ]
    connection = ChildSpec(
        "connection",
        ConnectionHead,
        kwargs={"mergers": mergers},
        restart=Restart.TEMPORARY,
        shutdown=Shutdown.KILL,
        mailbox=MailboxConfig(capacity=64),
    )
    children = [
        *(
            ChildSpec(
                f"indexer-{shard}",
                Indexer,
                (database(folder, shard),),
                mailbox=MailboxConfig(capacity=4),
                dispatcher="pinned",
            )
            for shard in range(SHARDS)
        ),
        *(
            ChildSpec(
                f"merger-{shard}",
                Merger,
                (indexers[shard], seconds),
                shutdown=Shutdown.KILL,
                mailbox=MailboxConfig(capacity=256),
            )
            for shard in range(SHARDS)
        ),
        ChildSpec("files", Supervisor, (Supervisor.spec(children=heads, intensity=OFTEN),)),
        ChildSpec("connections", DynamicSupervisor, (connection,)),
        ChildSpec("listener", Listener, (port, "/ingest/connections"), shutdown=Shutdown.KILL),
    ]
    return Supervisor.spec(children=children, scope=Scope.REST_FOR_ONE, intensity=OFTEN)
