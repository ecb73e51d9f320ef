"""xarray: the engine, the accessor `n5`, and the storage of Datasets."""
