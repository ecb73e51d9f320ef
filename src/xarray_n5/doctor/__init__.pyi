from .api import examine

__all__ = ["examine"]
