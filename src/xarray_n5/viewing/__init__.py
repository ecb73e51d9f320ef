"""Images in Neuroglancer, served by this process."""
