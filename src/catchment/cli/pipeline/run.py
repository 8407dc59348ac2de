"""`catchment pipeline run`: a pipeline kept running in the foreground, in the background, or until it has caught up."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.failure import CommandError
from catchment.cli.options import AsJson
from catchment.cli.output import print_json, print_note
from catchment.cli.pipeline.files import HomeFolder, Master, PipelineFile, Servers, find_topics, require_topics

if TYPE_CHECKING:
    from catchment.pipelines.declaration.loading import Loaded
    from catchment.pipelines.driving.driver_options import DriverOptions
    from catchment.pipelines.driving.supervision.supervisor import Supervisor

_POLL_S = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(
    file: PipelineFile,
    servers: Servers = None,
    home: HomeFolder = None,
    master: Master = "local[*]",
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background: return once it runs.")] = False,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process the records that exist now, then exit: for schedulers.")
    ] = False,
    status_port: Annotated[
        int,
        typer.Option(
            "--status-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve /status and /metrics here; 0 takes a free port.",
        ),
    ] = 0,
    patience_s: Annotated[
        float,
        typer.Option("--patience", min=1, metavar="SECONDS", help="How long brokers or a store may be unreachable."),
    ] = 600.0,
    lineage: Annotated[
        str | None,
        typer.Option(
            "--lineage", metavar="FILE|URL", envvar="CATCHMENT_LINEAGE", help="Send OpenLineage events there."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline until it is stopped; Ctrl-C stops it within three seconds, a second one at once.

    Brokers and topics are checked before Spark starts.

    Exit status: 0 success, 1 failed, 2 invalid pipeline or missing topic, 3 incompatible state or schema,
    4 stopped by a check, 5 brokers or a store unreachable for too long, 130 interrupted.
    """
    from catchment.pipelines.declaration.addresses import brokers
    from catchment.pipelines.declaration.loading import load
    from catchment.pipelines.driving.driver_options import DriverOptions
    from catchment.pipelines.home import default_home

    loaded = load(file, is_to_run=True)
    specification = loaded.specification
    there = find_topics(specification, servers)
    options = DriverOptions(
        file.resolve(),
        (home or default_home()).resolve(),
        master,
        brokers(specification, servers),
        is_endless=not available_now,
        status_port=status_port,
        lineage=lineage,
        patience_s=patience_s,
    )
    _check_owners(loaded, options)
    require_topics(loaded, there)
    if detach:
        _detach(options, specification.pipeline, as_json)
    else:
        raise typer.Exit(_supervise(options, specification.pipeline, specification.version, as_json))


def _check_owners(loaded: "Loaded", options: "DriverOptions") -> None:
    """Reject, before Spark starts, a run that would write rows a second time."""
    from catchment.pipelines.checks.owners import require_owner
    from catchment.pipelines.driving.supervision.run_file import is_running
    from catchment.pipelines.graph import Graph
    from catchment.pipelines.home import Home

    home = Home(options.home, loaded.specification.pipeline)
    # A running pipeline has claimed all of it, which its lock shows.
    if not is_running(home):
        for note in require_owner(Graph(loaded.specification), loaded.folder, home, options.servers).notes:
            print_note(f"note: {note}")


def _supervise(options: "DriverOptions", pipeline: str, version: int, as_json: bool) -> int:
    from catchment.pipelines.driving.status.panel import Lines, LivePanel, summary
    from catchment.pipelines.driving.supervision.run_file import AlreadyRunning, read_run
    from catchment.pipelines.driving.supervision.supervisor import Supervisor
    from catchment.pipelines.home import Home

    home = Home(options.home, pipeline)
    is_watched = sys.stderr.isatty() and not as_json
    facts = {"pipeline": pipeline, "version": version, "file": str(options.file), "master": options.master}
    with LivePanel() if is_watched else Lines(print_note) as view:
        supervisor = Supervisor(
            home,
            options.command(),
            facts,
            # On a terminal, the output of Spark would break the table.
            log=home.folder / "driver.log" if is_watched else None,
            show=view.show,
            is_endless=options.is_endless,
        )
        threading.Thread(target=_prepare_next_start, daemon=True).start()
        try:
            with _signals_for(supervisor):
                code = supervisor.run()
        except AlreadyRunning as error:
            raise CommandError(str(error), f"Stop it first: catchment pipeline stop {pipeline}.") from error
    ended = read_run(home) or {}
    if as_json:
        print_json(ended)
        return code
    for line in summary(ended) if ended else ():
        print_note(line)
    if ended.get("error"):
        print_note(f"error: {ended['error']}")
    return code


def _prepare_next_start() -> None:
    """In a thread, while Spark starts: checking its cache takes a moment."""
    from catchment.spark.launch.class_cache import train_if_missing

    train_if_missing()


@contextmanager
def _signals_for(supervisor: "Supervisor") -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, lambda received, _: supervisor.ask_to_stop(received))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _detach(options: "DriverOptions", pipeline: str, as_json: bool) -> None:
    """The same command without --detach, in a session of its own, until it runs or has ended."""
    from catchment.pipelines.driving.supervision.run_file import report
    from catchment.pipelines.home import Home

    home = Home(options.home, pipeline)
    home.folder.mkdir(parents=True, exist_ok=True)
    log = home.folder / "run.log"
    arguments = [one for one in sys.argv[1:] if one != "--detach"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "catchment.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    while process.poll() is None:
        now = report(home)
        if now.get("pid") == process.pid and now["state"] != "starting":
            print_json(now) if as_json else print_note(f"{pipeline} runs as process {process.pid}; it logs to {log}")
            return
        time.sleep(_POLL_S)
    sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
    raise typer.Exit(process.returncode)
