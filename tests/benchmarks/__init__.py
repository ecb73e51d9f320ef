"""Comparisons with other libraries, run by hand."""
