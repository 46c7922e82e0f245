"""The loop: cells with mailboxes, and what runs them. Knows nothing of actors, refs or supervision.

From the ground up: `ring` holds messages; `mailbox` adds lanes, admission and overflow; `cell` adds a handler and an
identity; `table` finds cells by id; `runqueue` says who is next; `timers` and `inbound` bring in what time and other
threads send; `stepping` runs coroutines; `loop` turns all of it; `poller` lets it live inside asyncio or uvloop.
"""
