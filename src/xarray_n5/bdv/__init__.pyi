from .api import register, to_bdv

__all__ = ["register", "to_bdv"]
