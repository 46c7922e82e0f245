"""The message path: a cell, its mailbox, and the lanes and rings inside."""
