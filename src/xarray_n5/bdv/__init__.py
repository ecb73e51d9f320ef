"""Projects of BigDataViewer and BigStitcher: opened by their XML, and written.

``xr.open_dataset("dataset.xml")`` opens them with the engine "bdv".
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
