"""Pyramids: what they stand on, how much coarser a level is, and how one is made of another."""
