"""The stages of a write: planned, begun, written by tasks, finished."""
