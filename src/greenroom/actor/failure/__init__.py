"""What happens after a failure: the decision, the group that restarts, the report."""
