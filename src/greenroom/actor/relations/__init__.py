"""Who is told when an actor ends: watches, monitors and links."""
