"""A pipeline of some three thousand actors that come, work, fail and go, and where every message went.

stages        the actors that the work passes through: start reading here
aggregators   the rest of them, and the supervisor that keeps them running
gate          the actor that keeps them busy, and asks and disturbs them
messages      what they send to one another
gauges        what can be read off the system while it runs
view          how that is shown, line by line, and the summary
live          how it is shown on a terminal
"""
