"""The log on Apache Spark: a configured session, the format "catchment" as source and sink, and typed columns.

PySpark is loaded when a name is first used, so that a missing extra is explained instead of failing in an import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catchment.spark.launch.session import session
    from catchment.spark.registration import register

__all__ = ["register", "session"]

if not TYPE_CHECKING:
    _MODULES = {"register": "catchment.spark.registration", "session": "catchment.spark.launch.session"}
    _EXTRA = ("fastavro", "google", "numba", "numpy", "py4j", "pyarrow", "pyspark")

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            return getattr(import_module(_MODULES[name]), name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in _EXTRA:
                message = f"catchment.spark.{name} needs {missing}: pip install 'catchment-streaming[spark]'"
                raise ImportError(message) from error
            raise
