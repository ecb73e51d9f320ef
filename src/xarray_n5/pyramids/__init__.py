"""Multiscale pyramids: the public `pyramid` and its plan."""
