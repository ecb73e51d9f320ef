"""Images in Neuroglancer, served from this process."""
