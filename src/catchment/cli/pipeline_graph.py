"""`catchment pipeline graph`: draw a pipeline, in the terminal or as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.cli.known_pipelines import PipelineFile
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note


def graph(
    file: PipelineFile,
    svg_file: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the picture as SVG to a file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw a pipeline: its topics, stages, tables, stores and alerts, and what flows where. Exits with 2 if it is badly written."""
    from catchment.pipelines.drawing.picture import picture
    from catchment.pipelines.drawing.svg import svg
    from catchment.pipelines.drawing.terminal import drawn
    from catchment.pipelines.graph import Graph
    from catchment.pipelines.loading import load

    specification = load(file).specification
    shown = picture(Graph(specification))
    if svg_file is not None:
        svg_file.write_text(svg(shown, f"pipeline {specification.pipeline}"), encoding="utf-8")
        print_note(f"drawn to {svg_file}")
    elif not as_json:
        typer.echo("\n".join(drawn(shown)))
    if as_json:
        nodes = [
            {"name": one.name, "kind": one.kind, "title": one.title, "query": one.query} for one in shown.nodes.values()
        ]
        print_json({"pipeline": specification.pipeline, "nodes": nodes, "edges": [list(one) for one in shown.edges]})
