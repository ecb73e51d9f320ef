"""Verify and repair stored chunks; map which of them are stored."""
