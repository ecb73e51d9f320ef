"""Containers in directories of the local system, shared mounts included."""

from xarray_n5.stores.local.store import LocalStore

__all__ = ["LocalStore"]
