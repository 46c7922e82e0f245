"""Run random histories of actor systems under attack, and check each of them against a model of its own.

A *history* is made from one seed: an `ActorSystem`, or two, with actors on all dispatchers, in trees with supervisors
of any policy; drivers that send, ask, stop, kill, restart and fail them, from several threads; and a few *features* on
top: worker processes that are killed or frozen, guests that fork, hold the GIL, or read the standard input, messages
that cannot be pickled or unpickled, log handlers that raise, and so on.

Everything is black box: histories use the public API and the operating system only. Actors and drivers write what they
do and see into a *journal*, a file, which survives the death of its writer. The *model* reads the journal when the
history is over, and knows nothing of how the runtime works:

- every actor ends once, children before their parents, and all are told the same reason
- a watch, a monitor or a link tells of an end once
- an ask has one outcome: its own reply, or an error; never later than its time
- messages of one sender to one receiver on one lane are handled in order, and none twice
- every message that was not handled is a dead letter, or in another column of the ledger, and the columns add up
- the system stops in time, and what its report says is so
- nothing is left: no cell, task, thread, fd, process, zombie, or shared memory

Run as ``python -m tools.chaos --seconds 60 --seed 7``; `make chaos` does. A violation is shown with the command that
runs its history again.
"""
