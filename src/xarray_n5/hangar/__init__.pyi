from .api import from_hangar, to_hangar

__all__ = ["from_hangar", "to_hangar"]
