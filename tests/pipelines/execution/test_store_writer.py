"""Rows of a store whose time is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pyarrow
import pytest
from tests.pipelines.driving.supervised import wait_for

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.declaration.specification import StoreSink
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.store_writer import StoreWriter
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.stores.definition import Layout
from catchment.pipelines.stores.store_opening import open_store

_MINUTE_MS = 60_000


def test_rows_whose_time_is_over_go_though_no_others_come(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/city.db"
    declared = {
        "pipeline": "city",
        "sources": {"reports": {"topic": "reports", "schema": "id string"}},
        "sinks": [
            {"from": "reports", "store": address, "table": "reports", "key": "id", "ttl": "1 minute", "name": "kept"}
        ],
    }
    graph = Graph(Declared(declared).check())
    schema = pyarrow.schema([("id", pyarrow.string())])
    old = datetime.now(UTC) - timedelta(minutes=2)
    with open_store(address, "reports", _MINUTE_MS, clock=lambda: old) as store:
        store.prepare(schema, Layout("reports", ("id",), ttl_ms=_MINUTE_MS))
        store.write(pyarrow.table({"id": ["a"]}, schema=schema), "query", 0, 1)
        assert store.read().num_rows == 1
        # Nothing of Spark is asked for before a batch comes.
        context = RunContext(cast("SparkSession", None), graph, "", {}, Home(tmp_path, "city"), tmp_path)
        sink = graph.sinks["kept"]
        assert isinstance(sink.target, StoreSink)
        with context.at_end:
            StoreWriter(context, sink, sink.target, StructType().add("id", "string"), "outlet-kept")
            wait_for("the row is gone", lambda: store.read().num_rows == 0)
