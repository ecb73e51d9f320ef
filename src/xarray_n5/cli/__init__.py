"""The command line: list, copy, verify, draw and show containers.

Commands that write, verify or show import these rooms of the package when they run.
"""

from __future__ import annotations

import click

from xarray_n5.cli.check import digest, doctor, repair, verify
from xarray_n5.cli.read import info, preview, tree, view
from xarray_n5.cli.write import copy, pyramid, run

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

    URL is a local path or any fsspec URL, such as s3://bucket/a.n5 or https://host/a.zarr. The path
    of an array or group is part of it, or the next argument. Exit codes: 0 for success; 1 if the
    command failed or the data is damaged; 2 for an invalid option or argument.
    """


for _command in (tree, info, copy, pyramid, run, verify, digest, repair, doctor, preview, view):
    main.add_command(_command)
