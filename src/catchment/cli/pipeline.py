"""`catchment pipeline`: its verbs are in modules named `pipeline_…`, each with a function of the verb's name."""

import importlib
import pkgutil

import typer

import catchment.cli

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


for found in pkgutil.iter_modules(catchment.cli.__path__):
    prefix, _, verb = found.name.partition("_")
    if prefix == "pipeline" and verb:
        app.command(verb)(getattr(importlib.import_module(f"catchment.cli.{found.name}"), verb))
