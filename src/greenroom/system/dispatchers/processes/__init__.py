"""Actors in worker processes.

In the main process, on the system's own loop, an actor in a worker is what every actor is: a cell with its mailbox, its
orders, its children, timers and watchers. Only its code is elsewhere: a worker *hosts* the user's instance on a loop of
its own, and messages and calls of hooks are sent to it. So order, supervision and ledger are the same ones.

`pool`      the main process: starts workers, sends work to them, does what hosted actors ask for
`worker`    the worker process: its main function, its loop's host, hosted actors, stubs for refs and the system
`protocol`  what the two say to one another; `relay` is how an answer gets from one to the other
"""
