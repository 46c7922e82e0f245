"""`ActorSystem`, and what belongs to it: configuration, dispatchers, shutdown, snapshots."""
