"""Arrays and groups, opened or created in a container."""
