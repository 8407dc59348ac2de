"""`catchment broker` as the other commands see it: a line in the help that hands its arguments on."""

import typer

from catchment.cli.broker import DESCRIPTION, main

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(
    "broker",
    help=DESCRIPTION,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def broker(context: typer.Context) -> None:
    raise typer.Exit(main(context.args))
