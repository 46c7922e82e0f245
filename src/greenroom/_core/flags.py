"""Reasons why a visit must look before it takes the next message: bits of `Mailbox.flags`.

With no bit set, the next message is simply the oldest of the data lane, and the loop takes it without another
question. Every rarer state sets a bit, so what is not used costs nothing.

Never compiled: each hot module copies these numbers into C integers of its own.
"""

from __future__ import annotations

ORDERS = 1
"""Orders wait: they act before any message."""
HELD = 2
"""Messages wait: the actor has failed, has escalated, or is being restarted."""
LANES = 4
"""A lane beside the data lane holds messages."""
RECEIPTS = 8
"""The data lane holds notices, or messages that carry a receipt."""
PRIORITY = 16
"""The data lane is ordered by a user's key."""
RESUME = 32
"""The suspended handler can go on."""
ROOM = 64
"""Senders wait for room in the mailbox."""
NOTIFY_TAKEN = 128
"""The floor above wants to know of each message as it is taken."""
OFFLOADED = 256
"""The actor's code runs on another thread, or in another process: its messages are carried there."""
INTERCEPTED = 512
"""The floor above looks at each message before it is let in: it may refuse it, or take it elsewhere at once."""
PROPAGATES = 1024
"""Messages bring context variables of their senders along, and are handled with them."""
MAY_NOT_ASK = 2048
"""The cell is a meta-process with code of a user's."""
STALLED = 4096
"""Data messages and notices wait for the world outside: only control and management are served."""
