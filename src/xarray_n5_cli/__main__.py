"""`python -m xarray_n5_cli`: the command `xarray-n5`."""

from xarray_n5_cli import main

if __name__ == "__main__":
    main(prog_name="xarray-n5")
