"""The targets that a checkpoint has claimed: `catchment-owner.json` beside Spark's own files.

The token of a run is noted here before it is written to a target, and the target afterwards. So a run that is killed in between
recognises its own token, and never takes a target that it has not claimed for one that was emptied.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from catchment.pipelines.errors import Refusal
from catchment.pipelines.home import Home
from catchment.pipelines.ownership.owner import Asking, Claimant, Owner
from catchment.spark.checkpoint.files import LocalFiles, sync
from catchment.spark.checkpoint.progress import SparkCheckpoint

_FILE: Final = "catchment-owner.json"
_METADATA: Final = "metadata"
_MOST_RUNS: Final = 64


class Notes(BaseModel):
    """The claims of one checkpoint, and the brokers that it was made with."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    runs: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    cluster_id: str | None = None
    topics: dict[str, str] = Field(default_factory=dict)
    """The ids of the topics that the query reads and writes."""

    @classmethod
    def read(cls, checkpoint: Path) -> Notes:
        """Those of a checkpoint; nothing is known of one from before owners were recorded."""
        path = checkpoint / _FILE
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except ValidationError as cause:
            raise Refusal(f"{path} cannot be understood", "It is damaged: restore the checkpoint.") from cause

    def write(self, checkpoint: Path) -> None:
        """Durably, in one step."""
        checkpoint.mkdir(parents=True, exist_ok=True)
        temporary = checkpoint / f"{_FILE}.writing"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(checkpoint / _FILE)
        sync(checkpoint)

    def with_run(self, run: str) -> Notes:
        return self.model_copy(update={"runs": (*self.runs, run)[-_MOST_RUNS:]})

    def with_place(self, digest: str) -> Notes:
        return self.model_copy(update={"places": tuple(dict.fromkeys((*self.places, digest)))})


def claimant(home: Home, query: str, version: int) -> Claimant:
    """A query as the checkpoint of one of its versions knows it, whether there is one or not."""
    folder = home.checkpoint(query, version)
    checkpoint = SparkCheckpoint.at(str(folder))
    notes = Notes.read(folder)
    return Claimant(
        home.pipeline,
        version,
        query,
        str(home.root),
        Asking(_id(folder), frozenset(home_ids(home))),
        frozenset(notes.runs),
        frozenset(notes.places),
        checkpoint.newest_planned(),
    )


def begun(home: Home, query: str, version: int) -> str:
    """The id of a query, which is given one if it has no checkpoint yet: Spark takes the one that it finds."""
    folder = home.checkpoint(query, version)
    if (known := _id(folder)) is not None:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        LocalFiles(folder).create(_METADATA, json.dumps({"id": str(uuid.uuid4())}))
    if (created := _id(folder)) is None:
        raise Refusal(f"{folder / _METADATA} cannot be understood", "It is damaged: restore the checkpoint.")
    return created


def new_owner(home: Home, query: str, version: int, query_id: str) -> Owner:
    """The owner that a claim of this run writes down, with a token that no other claim has."""
    return Owner(
        pipeline=home.pipeline,
        version=version,
        query=query,
        query_id=query_id,
        run=uuid.uuid4().hex,
        home=str(home.root),
        host=socket.gethostname(),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def home_ids(home: Home) -> set[str]:
    """The ids of all queries whose checkpoints are in a home, of whatever version."""
    found = (_id(one) for one in home.folder.glob("checkpoints/*") if one.is_dir())
    return {one for one in found if one is not None}


def _id(folder: Path) -> str | None:
    """The id of the query in a checkpoint; None where there is none, or none that can be read."""
    try:
        return SparkCheckpoint.at(str(folder)).query_id()
    except (KeyError, ValueError):
        return None
