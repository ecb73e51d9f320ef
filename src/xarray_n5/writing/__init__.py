"""The protocol of writes: planned, marked, written by tasks, ended."""
