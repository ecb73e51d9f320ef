"""The stages of a write: planned, marked, written by tasks, finished."""
