"""The command line: list, copy, verify, draw and show containers.

Each command is a module, which imports what it needs of the package when it runs.
"""

from __future__ import annotations

import click

from xarray_n5.cli.copy import copy
from xarray_n5.cli.digest import digest
from xarray_n5.cli.doctor import doctor
from xarray_n5.cli.info import info
from xarray_n5.cli.preview import preview
from xarray_n5.cli.pyramid import pyramid
from xarray_n5.cli.repair import repair
from xarray_n5.cli.run import run
from xarray_n5.cli.tree import tree
from xarray_n5.cli.verify import verify
from xarray_n5.cli.view import view

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


for _command in (
    tree,
    info,
    copy,
    pyramid,
    run,
    verify,
    digest,
    repair,
    doctor,
    preview,
    view,
):
    main.add_command(_command)
