from .api import from_hangar, hangar_records, to_hangar
from .writer import HangarWriter

__all__ = ["HangarWriter", "from_hangar", "hangar_records", "to_hangar"]
