"""What a user writes against: actors, behaviors, refs, contexts, asks; and the life an actor leads.

`address` and `ask` are the message path, `record` the record of one actor, `lifecycle` its births and ends. They are
compiled. What users see is built on them in plain Python: `ref` on `address`, `context` on `record`. `ports` says what
this floor asks of the system above it.
"""
