"""Options that several benchmarks share."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_ROUNDS = 3

Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload", metavar="NAME", help="Only workloads whose name starts so, or matches this pattern. Repeatable."
    ),
]
Rounds = Annotated[
    int, typer.Option("--rounds", metavar="N", min=1, help="Rounds of each workload; the median counts.")
]
Cores = Annotated[
    int | None, typer.Option("--cores", metavar="N", min=1, help="Cores of the session.", show_default="all")
]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all numbers to this file.")]
PlotFile = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Save the ratios as PNG or SVG.")]
