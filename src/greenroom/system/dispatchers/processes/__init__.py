"""Actors in worker processes.

In the main process, an actor in a worker has what every actor has: a cell on the system's loop, with its mailbox,
orders, children, timers and watchers. Only its code runs elsewhere: a worker *hosts* the user's instance on a loop of
its own, and gets its messages and hook calls. So ordering, supervision and ledger work as for any actor.

`pool`      the main process: starts workers, sends work to them, serves requests of hosted actors
`worker`    the worker process: its main function, its loop's host, hosted actors, stubs for refs and the system
`protocol`  the messages between the two, and the page of memory that they share
"""
