"""What other programs make of containers: a pure class for each, by the dialects that it reads.

A reader is a program with rules of its own: which attributes it reads first, which it requires,
and what it does without them. The parsing of attributes is that of the dialects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xarray_n5.doctor.readers.bigdataviewer import BigDataViewer
from xarray_n5.doctor.readers.fibsem_tools import FibsemTools
from xarray_n5.doctor.readers.n5_universe import N5ViewerFiji, Paintera
from xarray_n5.doctor.readers.neuroglancer import Neuroglancer
from xarray_n5.doctor.readers.ngff import Napari, OmeZarr
from xarray_n5.doctor.readers.own import XarrayN5
from xarray_n5.doctor.readers.tensorstore import TensorStore
from xarray_n5.doctor.readers.xarray_zarr import XarrayZarr
from xarray_n5.doctor.readers.zarr_python import ZarrPython

if TYPE_CHECKING:
    from xarray_n5.doctor.readers.protocol import Reader

__all__ = ["READERS"]

READERS: dict[str, Reader] = {
    XarrayN5.name: XarrayN5(),
    Neuroglancer.name: Neuroglancer(),
    TensorStore.name: TensorStore(),
    N5ViewerFiji.name: N5ViewerFiji(),
    BigDataViewer.name: BigDataViewer(),
    Paintera.name: Paintera(),
    FibsemTools.name: FibsemTools(),
    OmeZarr.name: OmeZarr(),
    Napari.name: Napari(),
    ZarrPython.name: ZarrPython(),
    XarrayZarr.name: XarrayZarr(),
}
"""The programs, by name; what xarray-n5 reads is what the others are compared with."""
