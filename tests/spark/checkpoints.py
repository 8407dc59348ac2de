"""A query's checkpoint as Spark writes it, for tests that run without Spark."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any


class FakeCheckpoint:
    """The plans and commits of batches. Spark's first version of plans has a line for each source, the second names them."""

    def __init__(self, folder: Path, version: str = "v1") -> None:
        self.folder = folder
        self.query_id = str(uuid.uuid4())
        self._version = version
        for name in ("offsets", "commits"):
            (folder / name).mkdir(parents=True)
        (folder / "metadata").write_text(json.dumps({"id": self.query_id}))

    def __str__(self) -> str:
        return str(self.folder)

    def plan(self, batch_id: int, *ends: Any, watermark_ms: int = 0, time_ms: int = 0) -> None:
        facts = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": time_ms, "conf": {}}
        lines = [
            ("" if self._version == "v1" else f"source-{number}:") + ("-" if end is None else json.dumps(end))
            for number, end in enumerate(ends)
        ]
        text = "\n".join([self._version, json.dumps(facts), *lines])
        (self.folder / "offsets" / str(batch_id)).write_text(text)
        # Hadoop's local file system has a sum beside each file.
        (self.folder / "offsets" / f".{batch_id}.crc").write_text("")

    def finish(self, batch_id: int) -> None:
        (self.folder / "commits" / str(batch_id)).write_text("v1\n{}")
