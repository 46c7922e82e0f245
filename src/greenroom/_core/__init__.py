"""The loop: cells with mailboxes, and what runs them. Knows nothing of actors, refs or supervision.

From the ground up: the files in this folder, then
  mailbox     the message path: a cell, its mailbox, lanes and rings
  timing      timers, the time budget of a tick
  simulation  schedules, and the director that decides and records
  delivery    admission to a mailbox: from this thread, and from others
  connections rings from one thread to another, and the inbox that drains those of a group of cells
  scheduler   the loop: ticks, visits, async handlers, asyncio around it
  handoff     calls and messages that another thread works on
"""
