"""`catchment pipeline`: its verbs, in the order in which its help lists them."""

import typer

from catchment.cli.pipeline.backfill import backfill, rollback
from catchment.cli.pipeline.plan import graph, plan, run_tests
from catchment.cli.pipeline.removal import prune, reset
from catchment.cli.pipeline.run import run
from catchment.cli.pipeline.status import status, stop

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
for verb in (backfill, graph, plan, prune, reset, rollback, run, status, stop):
    app.command(verb.__name__)(verb)
app.command("test")(run_tests)
