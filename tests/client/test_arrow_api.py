"""Topics as tables in one call, and the lazy import of these functions."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from tests.client.logs import CatchmentLogs, Logs

import catchment
from catchment.client.errors import BrokerError, SettingsError

MOMENT = datetime(2026, 3, 1, tzinfo=UTC)
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "arrow.md"


def hourly(count: int) -> pyarrow.Table:
    return pyarrow.table(
        {
            "key": [f"{number}".encode() for number in range(count)],
            "value": [f"value {number}".encode() for number in range(count)],
            "timestamp": [MOMENT + timedelta(hours=number) for number in range(count)],
        }
    )


def offsets(table: pyarrow.Table) -> list[int]:
    found: list[int] = table.column("offset").to_pylist()
    return found


def test_what_is_written_is_read(logs: Logs) -> None:
    topic = logs.topic(partitions=3)
    rows = hourly(100)
    written = catchment.write_arrow(topic, rows, logs.bootstrap_servers)
    assert sum(extent.record_count for extent in written.values()) == 100
    table = catchment.read_arrow(topic, logs.bootstrap_servers)
    assert table.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert table.column("partition").to_pylist() == sorted(table.column("partition").to_pylist())
    assert table.select(["key", "value", "timestamp"]).sort_by("timestamp").to_pylist() == rows.to_pylist()
    scanned = pyarrow.Table.from_batches(catchment.scan_arrow(topic, logs.bootstrap_servers))
    assert scanned.sort_by([("partition", "ascending"), ("offset", "ascending")]) == table


def test_columns_are_in_the_requested_order(logs: Logs) -> None:
    topic = logs.topic()
    catchment.write_arrow(topic, hourly(2), logs.bootstrap_servers)
    table = catchment.read_arrow(topic, logs.bootstrap_servers, columns=["offset", "headers", "value"])
    assert table.to_pylist() == [
        {"offset": 0, "headers": None, "value": b"value 0"},
        {"offset": 1, "headers": None, "value": b"value 1"},
    ]
    with pytest.raises(ValueError, match="did you mean 'value'"):
        catchment.read_arrow(topic, logs.bootstrap_servers, columns=["valeu"])


def test_start_and_end_are_offsets_or_times_or_differ_by_partition(logs: Logs) -> None:
    topic = logs.topic()
    servers = logs.bootstrap_servers
    catchment.write_arrow(topic, hourly(10), servers)
    assert offsets(catchment.read_arrow(topic, servers, start=3, end=5)) == [3, 4]
    assert offsets(catchment.read_arrow(topic, servers, start=8, end=1000)) == [8, 9]
    assert offsets(catchment.read_arrow(topic, servers, start={0: 7}, end={0: 8})) == [7]
    assert offsets(catchment.read_arrow(topic, servers, start=5, end=2)) == []
    after = MOMENT + timedelta(hours=6, minutes=1)
    assert offsets(catchment.read_arrow(topic, servers, start=after)) == [7, 8, 9]
    assert offsets(catchment.read_arrow(topic, servers, end=after)) == [0, 1, 2, 3, 4, 5, 6]
    assert offsets(catchment.read_arrow(topic, servers, start=MOMENT + timedelta(days=9))) == []


def test_a_time_within_a_millisecond_is_after_the_records_of_that_millisecond(logs: Logs) -> None:
    topic = logs.topic()
    servers = logs.bootstrap_servers
    catchment.write_arrow(topic, hourly(10), servers)
    at = MOMENT + timedelta(hours=6)
    for later_us, first in ((0, 6), (1, 7), (400, 7), (600, 7)):
        moment = at + timedelta(microseconds=later_us)
        assert offsets(catchment.read_arrow(topic, servers, start=moment)) == list(range(first, 10))
        assert offsets(catchment.read_arrow(topic, servers, end=moment)) == list(range(first))
    just_before_the_epoch = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert offsets(catchment.read_arrow(topic, servers, start=just_before_the_epoch)) == list(range(10))


def test_invalid_positions_are_rejected(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic(partitions=2)
    servers = catchment_logs.bootstrap_servers
    # A type checker reports this before it runs.
    unknown: Any = "newest"
    with pytest.raises(ValueError, match="no time zone"):
        catchment.read_arrow(topic, servers, start=datetime.fromisoformat("2026-01-01"))
    with pytest.raises(ValueError, match="no offset is given for partition 1"):
        catchment.read_arrow(topic, servers, start={0: 0})
    with pytest.raises(ValueError, match="is not a position"):
        catchment.read_arrow(topic, servers, end=unknown)
    with pytest.raises(ValueError, match="isolation is"):
        catchment.read_arrow(topic, servers, isolation=unknown)


def test_partitions_may_be_chosen(logs: Logs) -> None:
    topic = logs.topic(partitions=4)
    for partition in range(4):
        catchment.write_arrow(topic, hourly(2), logs.bootstrap_servers, partition=partition)
    table = catchment.read_arrow(topic, logs.bootstrap_servers, partitions=[3, 1])
    assert table.column("partition").to_pylist() == [1, 1, 3, 3]


def test_a_transaction_is_visible_as_a_whole(logs: Logs) -> None:
    topic = logs.topic(partitions=2)
    logs.transaction(topic, [b"aborted"], commit=False)
    catchment.write_arrow(topic, hourly(10), logs.bootstrap_servers, transactional_id="writer", codec="zstd")
    logs.settle(topic, 0)
    logs.settle(topic, 1)
    assert catchment.read_arrow(topic, logs.bootstrap_servers).num_rows == 10
    assert catchment.read_arrow(topic, logs.bootstrap_servers, isolation="uncommitted").num_rows == 11


def test_an_empty_topic_is_an_empty_table(logs: Logs) -> None:
    table = catchment.read_arrow(logs.topic(), logs.bootstrap_servers, columns=["value"])
    assert (table.num_rows, table.schema) == (0, pyarrow.schema([("value", pyarrow.binary())]))


def test_errors_say_what_to_do(catchment_logs: CatchmentLogs) -> None:
    with pytest.raises(BrokerError, match=r"absent.*Create it, or check its spelling"):
        catchment.read_arrow("absent", catchment_logs.bootstrap_servers)
    with pytest.raises(SettingsError, match="security"):
        catchment.read_arrow("topic", catchment_logs.bootstrap_servers, settings={"securty.protocol": "SSL"})


def test_importing_the_package_loads_neither_arrow_nor_numba() -> None:
    script = "import sys, catchment; print(sorted({'pyarrow', 'numpy', 'numba', 'socket'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert shown.stdout.strip() == "[]"


def test_the_guide_runs_as_far_as_it_needs_no_other_library(catchment_logs: CatchmentLogs) -> None:
    blocks = [part.split("```")[0] for part in GUIDE.read_text().split("```python\n")[1:]]
    needs_more = ("polars", "pandas", "duckdb", "TransactionHandle")
    script = "".join(block for block in blocks if not any(name in block for name in needs_more))
    assert all(name in script for name in ("write_arrow", "read_arrow", "scan_arrow", "Reader", "send_offsets"))
    catchment_logs.create("orders", 1, {})
    script = script.replace("localhost:9092", catchment_logs.bootstrap_servers)
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "two coffees" in shown.stdout
    assert "0 2 2" in shown.stdout
    assert catchment.read_arrow("orders", catchment_logs.bootstrap_servers).num_rows == 4


def test_duckdb_takes_the_table_as_the_guide_shows(catchment_logs: CatchmentLogs) -> None:
    duckdb = pytest.importorskip("duckdb")
    (query,) = re.findall(r"^duckdb\.sql\('(.*)'\)$", GUIDE.read_text(), re.MULTILINE)
    topic = catchment_logs.topic()
    catchment.write_arrow(topic, hourly(3), catchment_logs.bootstrap_servers)
    table = catchment.read_arrow(topic, catchment_logs.bootstrap_servers)
    assert duckdb.sql(query).fetchall() == [(0, table.num_rows)]


def test_polars_takes_the_table(catchment_logs: CatchmentLogs) -> None:
    polars = pytest.importorskip("polars")
    topic = catchment_logs.topic()
    catchment.write_arrow(topic, hourly(3), catchment_logs.bootstrap_servers)
    frame = polars.from_arrow(catchment.read_arrow(topic, catchment_logs.bootstrap_servers))
    assert frame["value"].to_list() == [b"value 0", b"value 1", b"value 2"]


def test_pandas_takes_the_table(catchment_logs: CatchmentLogs) -> None:
    pytest.importorskip("pandas")
    topic = catchment_logs.topic()
    catchment.write_arrow(topic, hourly(3), catchment_logs.bootstrap_servers)
    frame = catchment.read_arrow(topic, catchment_logs.bootstrap_servers).to_pandas()
    assert list(frame["value"]) == [b"value 0", b"value 1", b"value 2"]


def test_duckdb_takes_the_table(catchment_logs: CatchmentLogs) -> None:
    duckdb = pytest.importorskip("duckdb")
    topic = catchment_logs.topic()
    catchment.write_arrow(topic, hourly(3), catchment_logs.bootstrap_servers)
    records = catchment.read_arrow(topic, catchment_logs.bootstrap_servers)
    with duckdb.connect() as connection:
        connection.register("records", records)
        assert connection.execute('select max("offset") from records').fetchone() == (2,)


def test_without_its_libraries_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['pyarrow'] = None; import catchment; catchment.read_arrow"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ImportError: catchment.read_arrow needs pyarrow: pip install 'catchment-streaming[arrow]'" in ended.stderr
