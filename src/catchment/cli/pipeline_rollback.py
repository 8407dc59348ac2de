"""`catchment pipeline rollback`: show the history that was shown before."""

from catchment.cli.known_pipelines import PipelineFile, StageName
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note, print_table


def rollback(
    file: PipelineFile,
    stage: StageName,
    as_json: AsJson = False,
) -> None:
    """Show the version before the one that is shown now, in every store that keeps a stage, in one moment.

    Only a version that was shown once is gone back to. Run the pipeline with the version lowered again, so that new events are
    counted into what is shown. A run does not show again what was gone back from: a backfill does, or a later version that starts
    from scratch.
    """
    from catchment.pipelines.backfill import rollback as go_back
    from catchment.pipelines.opening import read_graph

    shown = list(go_back(*read_graph(file), stage))
    if as_json:
        print_json([one._asdict() for one in shown])
        return
    print_table(["table", "version:", "left:"], shown)
    for one in shown:
        again = f"a backfill shows version {one.left} again, or a later version that starts from scratch"
        print_note(f"{one.table}: {again}; to run this file does not")
