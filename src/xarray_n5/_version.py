"""The version of the distribution, as it was installed."""

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("xarray-n5")
