"""`catchment log`: look into the files of a log."""

import typer

from catchment.cli.log_dump import dump

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def log() -> None:
    """Look into the files of a log, without a broker."""


app.command("dump")(dump)
