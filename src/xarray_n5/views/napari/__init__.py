"""napari layers: pyramids as lazy arrays, with positions, channels and labels.

napari itself is never imported: a layer is a tuple of data, arguments and a type.
"""
