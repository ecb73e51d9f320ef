"""The command line: list, copy, verify, draw and show containers.

Each command is a file. Commands import the package, which takes a second, only when they run, so
that shells complete words at once.
"""

from __future__ import annotations

import click

from xarray_n5_cli.completion import completion
from xarray_n5_cli.copy import copy
from xarray_n5_cli.doctor import doctor
from xarray_n5_cli.info import info
from xarray_n5_cli.preview import preview
from xarray_n5_cli.pyramid import pyramid
from xarray_n5_cli.repair import repair
from xarray_n5_cli.tree import tree
from xarray_n5_cli.verify import verify
from xarray_n5_cli.view import view

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="xarray-n5", message="%(package)s %(version)s")
@click.option(
    "--traceback",
    is_flag=True,
    envvar="XARRAY_N5_TRACEBACK",
    help="Show the traceback of errors. Also: XARRAY_N5_TRACEBACK=1.",
)
def main(*, traceback: bool) -> None:
    """List, copy, verify, draw and show N5, Zarr and HDF5 data.

    A URL is a local path or any URL of fsspec: s3://bucket/a.n5, https://host/a.zarr. The path of
    a node is part of it, or the next argument. Exit codes: 0 for success; 1 if the command failed
    or the data is damaged; 2 for an invalid option or argument.
    """


for _command in (tree, info, copy, pyramid, verify, repair, doctor, preview, view, completion):
    main.add_command(_command)
