"""The command line: what is stored, copied, verified and drawn, without a line of Python.

A command is a file. It stands beside the package, whose import takes a second, and imports it when
a command runs: a shell that completes words asks for nothing but their names.
"""

from __future__ import annotations

import click

from xarray_n5_cli.completion import completion
from xarray_n5_cli.copying import copy
from xarray_n5_cli.info import info
from xarray_n5_cli.preview import preview
from xarray_n5_cli.pyramid import pyramid
from xarray_n5_cli.repair import repair
from xarray_n5_cli.tree import tree
from xarray_n5_cli.verify import verify

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xarray-n5", message="%(package)s %(version)s")
@click.option(
    "--traceback",
    is_flag=True,
    envvar="XARRAY_N5_TRACEBACK",
    help="Show where an error came from. Also: XARRAY_N5_TRACEBACK=1.",
)
def main(*, traceback: bool) -> None:
    """Look at N5, Zarr v2 and HDF5 data, copy, verify and draw them.

    A URL is a path or anything that fsspec reaches: s3://bucket/a.n5, https://host/a.zarr. The
    path of a node may follow it at once, or as the next argument. Exit codes: 0 is fine, 1 means
    that something could not be done or that data are not what they should be, 2 that an option or
    an argument is none, or makes no sense by itself.
    """


for _command in (tree, info, copy, pyramid, verify, repair, preview, completion):
    main.add_command(_command)
