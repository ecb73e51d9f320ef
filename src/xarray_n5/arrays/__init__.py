"""What a user holds: arrays and groups, opened or created in a container."""
