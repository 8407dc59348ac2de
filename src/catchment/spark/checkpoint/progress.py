"""What Spark itself writes into a query's checkpoint: who the query is, what each batch is to read, and which are done.

Spark plans a batch in `offsets/<batch>` before it runs it, and notes in `commits/<batch>` that it is done. A batch that is
repeated after a crash is the one of the newest plan, and so has the same watermark, time and offsets again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from catchment.client.errors import ClientError
from catchment.spark.checkpoint.files import Files, files_at

_METADATA: Final = "metadata"
_PLANS: Final = "offsets"
_COMMITS: Final = "commits"
_VERSIONS: Final = ("v1", "v2")
_NO_OFFSET: Final = "-"


@dataclass(frozen=True)
class BatchPlan:
    """One batch, as it was planned."""

    batch_id: int
    watermark_ms: int
    """The watermark that this batch evicts state by; 0 as long as there is none."""
    time_ms: int
    """What `current_timestamp()` is in the batch."""
    ends: tuple[Any, ...]
    """The end of each source, as parsed JSON; sources without one are left out."""


class SparkCheckpoint:
    """For reading only."""

    def __init__(self, files: Files) -> None:
        self._files = files

    @classmethod
    def at(cls, checkpoint: str) -> SparkCheckpoint:
        """The checkpoint, given as Spark takes it: a path, or a URI."""
        return cls(files_at(checkpoint))

    def query_id(self) -> str | None:
        """The query's, which Spark writes before anything else; None if Spark has no checkpoint here."""
        try:
            return str(json.loads(self._files.read(_METADATA))["id"])
        except FileNotFoundError:
            return None

    def newest_planned(self) -> int | None:
        """The batch that is under way, or the last one that was."""
        return self._newest(_PLANS)

    def newest_finished(self) -> int | None:
        return self._newest(_COMMITS)

    def plan(self, batch_id: int) -> BatchPlan:
        """FileNotFoundError if there is none: Spark keeps those of the last hundred batches by default."""
        path = f"{_PLANS}/{batch_id}"
        return _read(batch_id, path, self._files.read(path))

    def plans(self) -> Iterator[BatchPlan]:
        """All that Spark has kept, in any order."""
        for name in self._files.names(_PLANS):
            if name.isdecimal():
                # Spark may remove old ones meanwhile.
                with suppress(FileNotFoundError):
                    yield self.plan(int(name))

    def _newest(self, folder: str) -> int | None:
        return max((int(name) for name in self._files.names(folder) if name.isdecimal()), default=None)


def _read(batch_id: int, path: str, text: str) -> BatchPlan:
    """The version, the facts of the batch, and a line for each source, which the second version names before a colon."""
    version, _, rest = text.partition("\n")
    facts_line, *lines = rest.split("\n")
    try:
        if version not in _VERSIONS:
            raise ClientError(f"{path} in the checkpoint has version {version}", "A newer version of Spark wrote it.")
        facts = json.loads(facts_line)
        if version == "v2":
            lines = [line.partition(":")[2] for line in lines]
        ends = tuple(json.loads(line) for line in lines if line not in (_NO_OFFSET, ""))
        return BatchPlan(batch_id, int(facts["batchWatermarkMs"]), int(facts["batchTimestampMs"]), ends)
    except (ValueError, KeyError, TypeError) as cause:
        raise ClientError(
            f"{path} in the checkpoint is damaged", "Restore the checkpoint from a backup, or begin with a new one."
        ) from cause
