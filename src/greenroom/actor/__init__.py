"""What a user writes against, and the life an actor leads.

From the ground up:
  records     what the runtime writes down about one actor
  messaging   refs, asks, signals, timers, stash, dead letters
  relations   watches, monitors, links
  api         Actor, Context, Behaviors, Props, spawn
  life        one life: the table of its stages, hooks, start, stop, restart, forcing
  failure     the failure decision, restart groups, reports
  lifecycle   ties these together: the host of a loop; `spawner` is the way in from outside
  offload     actors whose code runs on another thread, or in another process
"""
