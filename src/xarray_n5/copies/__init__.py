"""Copies: arrays and trees from any format into any other."""
