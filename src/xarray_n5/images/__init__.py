"""Images in containers: found, joined from their parts, and stored."""
