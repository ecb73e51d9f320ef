from .api import copy, pyramid, register, to_bdv

__all__ = ["copy", "pyramid", "register", "to_bdv"]
