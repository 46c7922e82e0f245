"""What a meta-process is: its callbacks, its reader and its handlers, and its end."""
