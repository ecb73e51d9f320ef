"""`completion`: scripts that let shells complete commands and options."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in SHELL.

    \b
    Examples:
      eval "$(xarray-n5 completion bash)"
      xarray-n5 completion fish > ~/.config/fish/completions/xarray-n5.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    program = context.find_root().command
    click.echo(kind(program, {}, "xarray-n5", "_XARRAY_N5_COMPLETE").source())
