"""Hangar repositories: `from_hangar`, `to_hangar`, `HangarWriter`."""
