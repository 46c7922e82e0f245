"""Actors in worker processes.

At home, on the system's own loop, an actor in another process is what every actor is: a cell with its mailbox, its
orders, its children, timers and watchers. Only its code is elsewhere: the user's instance is a *guest* of a worker,
which runs a loop of its own, and to which messages and the calls of hooks are carried. So order, supervision and
ledger are the same ones.

Home's side:   `workers` starts processes, `worker` is one of them, `place` and `flight` carry work to it, `service`
               does what guests ask for.
Worker's side: `inside` is its main function, `guesthouse` its loop's host, `guest` an actor, `link` its end of the
               connection, `standins` are the refs, timers and the system that guests see.
Both:          `frames` is what they say to one another, `relay` how an answer gets from one to the other.
"""
