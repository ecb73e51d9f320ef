"""Layers of napari: pyramids as lazy arrays, with places, channels and labels.

napari itself is never imported: a layer is a tuple of data, arguments and a type.
"""
