"""Opens a lake by its declaration, or by its path alone."""

from __future__ import annotations

from collections.abc import Sequence

from catchment.pipelines.lakes.delta import LOG_FOLDER, DeltaLake
from catchment.pipelines.lakes.folder import folder_at
from catchment.pipelines.lakes.lake import Lake
from catchment.pipelines.lakes.lake_errors import LakeRefused
from catchment.pipelines.lakes.parquet import OWN_FOLDER, ParquetLake
from catchment.pipelines.lakes.partitioning import parse_partition_by


def open_lake(path: str, *, kind: str = "delta", partition_by: str | Sequence[str] = ()) -> Lake:
    """The lake at a path, in the format "delta" or "parquet"; the first batch makes it."""
    columns = parse_partition_by([partition_by] if isinstance(partition_by, str) else partition_by)
    folder = folder_at(path)
    if kind == "delta":
        return DeltaLake(folder, columns)
    if kind == "parquet":
        return ParquetLake(folder, columns)
    raise LakeRefused(f"there is no format {kind!r} of lakes", 'Choose "delta" or "parquet".')


def find_lake(path: str) -> DeltaLake | ParquetLake:
    """The lake that is at a path, to be read or maintained."""
    folder = folder_at(path)
    if folder.names(LOG_FOLDER):
        return DeltaLake(folder, ())
    if folder.names(OWN_FOLDER):
        return ParquetLake(folder, ())
    raise LakeRefused(f"there is no lake at {folder.location}", "Check the path; a pipeline's first batch makes it.")
