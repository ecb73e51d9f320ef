"""`python -m xarray_n5`: the command `xarray-n5`."""

if __name__ == "__main__":
    from xarray_n5.cli import main

    main(prog_name="xarray-n5")
