"""What other programs read from a container, and how their readings are made to agree."""
