"""Views and pictures of arrays."""
