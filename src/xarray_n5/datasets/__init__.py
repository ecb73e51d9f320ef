"""Datasets as arrays and arrays as Datasets: what variables become, and come back from."""
