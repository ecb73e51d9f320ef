from .read import from_hangar
from .write import to_hangar

__all__ = ["from_hangar", "to_hangar"]
