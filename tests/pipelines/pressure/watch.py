"""A run watched from outside: what its status says moment by moment, how large its batches are, and how much memory it takes."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from catchment.pipelines.driving.supervision.cleanup import processes_of
from catchment.pipelines.home import Home
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.source.noted_offsets import read_up_to

_LOOK_S: Final = 0.2
_TIMEOUT_S: Final = 10.0
_SHARE: Final = re.compile(r"^Pss: +(\d+) kB$", re.MULTILINE)


class Moment(NamedTuple):
    """What was seen at a moment of the monotonic clock."""

    at_s: float
    status: dict[str, Any]
    jvm_bytes: int
    python_bytes: int

    def query(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.status["queries"] if one["name"] == name)
        return found


class Watch:
    """Looks several times a second on a thread of its own, within a `with` block."""

    def __init__(self, run: dict[str, Any], home: Home) -> None:
        """`run` is what the run file has of the run."""
        self.moments: list[Moment] = []
        self._address = run["address"]
        self._run_id = run["run_id"]
        self._ends: dict[str, dict[int, int]] = {query["name"]: {} for query in run["queries"]}
        self._checkpoints = {name: SparkCheckpoint.at(str(home.checkpoint(name, 1))) for name in self._ends}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watch")

    def __enter__(self) -> Self:
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def now(self) -> Moment:
        return self.moments[-1]

    def look(self) -> Moment:
        """Ask the address of the status, as a console does."""
        with urllib.request.urlopen(f"{self._address}/status", timeout=_TIMEOUT_S) as answer:
            status = json.load(answer)
        for name in self._ends:
            self._note_batches(name)
        jvm = status["spark_pid"]
        others = [one for one in processes_of(self._run_id) if one != jvm]
        seen = Moment(time.monotonic(), status, _own_bytes(jvm), sum(map(_own_bytes, others)))
        self.moments.append(seen)
        return seen

    def batches(self, name: str) -> list[int]:
        """How many records the batches of a query had, as far as they were seen."""
        ends = self._ends[name]
        return [ends[number] - ends.get(number - 1, 0) for number in sorted(ends) if number == 0 or number - 1 in ends]

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            # Towards its end a run no longer answers.
            with suppress(OSError):
                self.look()

    def _note_batches(self, name: str) -> None:
        """Spark keeps the plans of the last hundred batches."""
        known, checkpoint = self._ends[name], self._checkpoints[name]
        newest = checkpoint.newest_planned()
        with suppress(FileNotFoundError):
            for number in range(max(known, default=-1) + 1, -1 if newest is None else newest + 1):
                known[number] = sum(read_up_to(checkpoint.plan(number).ends).values())


def _own_bytes(process_id: int) -> int:
    """A process's memory, with its share of what it has in common with others: Spark's workers are forks of one another."""
    try:
        rollup = Path(f"/proc/{process_id}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = _SHARE.search(rollup)
    return int(found[1]) * 1024 if found else 0
