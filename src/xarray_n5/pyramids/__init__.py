"""Multiscale pyramids: the public `pyramid` and what it plans."""
