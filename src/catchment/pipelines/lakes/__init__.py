"""The forever store: a lake of Parquet files, with Delta's log or without, each batch of a query in it exactly once."""

from catchment.pipelines.lakes.lake import Lake
from catchment.pipelines.lakes.lake_errors import LakeAway, LakeError, LakeRefused
from catchment.pipelines.lakes.lake_opening import find_lake, open_lake

__all__ = ["Lake", "LakeAway", "LakeError", "LakeRefused", "find_lake", "open_lake"]
