"""The command `catchment pipeline run` on a Spark master of its own, told a story slice by slice."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.pipelines.city import City
from tests.pipelines.everywhere.story import Board, Chapter, Outcome, Story, outcome

from catchment.pipelines.driving.supervision.run_file import read_run
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.launch.python_command import python_command
from catchment.spark.source.noted_offsets import read_up_to

_DEADLINE_S: Final = 1200.0
_STOP_S: Final = 450.0
_LOOK_S: Final = 0.02
_LOOK_AT_ALL_S: Final = 0.5


class CommandedRun:
    """One run of a pipeline file, and what its checkpoints say of it."""

    def __init__(self, city: City, process: subprocess.Popen[bytes], log: Path) -> None:
        self._city = city
        self._process = process
        self._log = log
        self._source_stage = SparkCheckpoint.at(str(city.home.checkpoint("clean", 1)))
        self._sent = 0

    def tell(self, story: Story, disturb: Callable[[int], None]) -> None:
        """Send it, each slice when the source stage has done with the one before it, each chapter when the last one is on the board.

        `disturb` is called after each slice of the first chapter.
        """
        for number, chapter in enumerate(story.chapters, 1):
            self._send(chapter, disturb if number == 1 else lambda _: None)
            self.wait_for(f"chapter {number} is on the board", partial(self._shows, story.board(number)))

    def _send(self, chapter: Chapter, disturb: Callable[[int], None]) -> None:
        for district, crew in chapter.crews.items():
            self._city.send_crew(district, crew)
        for number, (seconds, events) in enumerate(chapter.slices):
            self._city.send(events, seconds)
            self._sent += len(events)
            disturb(number)
            self.wait_for("the source stage reads what was sent", lambda: self._read() >= self._sent)

    @property
    def is_in_a_batch(self) -> bool:
        """Whether the source stage has planned a batch that is not done."""
        return self._source_stage.newest_planned() != self._source_stage.newest_finished()

    def settled(self, expected: Outcome) -> Outcome:
        """What is left in the end: waits for what is expected, and then whatever it is."""
        deadline_s = time.monotonic() + _DEADLINE_S
        while (found := outcome(self._city)) != expected and time.monotonic() < deadline_s:
            self._check_alive()
            time.sleep(_LOOK_AT_ALL_S)
        return found

    def status(self) -> dict[str, Any]:
        return read_run(self._city.home) or {}

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _DEADLINE_S
        while not holds():
            self._check_alive()
            assert time.monotonic() < deadline_s, f"never happened: {what}; {self._log.read_text()[-3000:]}"
            time.sleep(_LOOK_S)

    def stop(self) -> int:
        """Ask it to end as a service manager does; its exit code."""
        self._process.terminate()
        return self._process.wait(_STOP_S)

    def _read(self) -> int:
        """How many events batches that are done have read: nothing but events is in their topic."""
        newest = self._source_stage.newest_finished()
        return 0 if newest is None else sum(read_up_to(self._source_stage.plan(newest).ends).values())

    def _shows(self, board: Board) -> bool:
        try:
            return self._city.board() == board
        except sqlite3.OperationalError:
            # The table is made by the first batch.
            return False

    def _check_alive(self) -> None:
        assert self._process.poll() is None, self._log.read_text()[-3000:]


@contextmanager
def commanded_run(file: Path, city: City, master: str, spark_settings: dict[str, str]) -> Iterator[CommandedRun]:
    """The file, run until the block ends; Spark takes its settings from where its administrators put them."""
    configuration = city.folder / "conf"
    configuration.mkdir()
    lines = [f"{name} {value}\n" for name, value in spark_settings.items()]
    (configuration / "spark-defaults.conf").write_text("".join(lines))
    options = ["--bootstrap-server", city.servers, "--master", master, "--home", str(city.home.root)]
    # Workers on this machine may have the interpreter that starts quickly, as those of a local master do.
    python = python_command("local")
    log = city.folder / "run.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "catchment.cli", "pipeline", "run", str(file), *options],
            env=os.environ | {"SPARK_CONF_DIR": str(configuration), "PYSPARK_PYTHON": python},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    running = CommandedRun(city, process, log)
    try:
        yield running
    finally:
        if process.poll() is None:
            running.stop()
