"""What other programs read from a container, and how their readings are made to agree."""

from xarray_n5.doctor.api import examine

__all__ = ["examine"]
