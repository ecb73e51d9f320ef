"""xarray: the engine, the accessor `n5`, and how Datasets are stored."""
