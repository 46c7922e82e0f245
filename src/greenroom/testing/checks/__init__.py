"""What a test looks at when all is over: the ledger, the lives, the log, and what was left behind."""
