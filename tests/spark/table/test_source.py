"""Topics as tables: the last record of each key, at the offsets of the batch that asks, however often it asks."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import CaseInsensitiveDict
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.checkpoints import FakeCheckpoint
from tests.spark.driven_source import delete_topic

from catchment.client.arrow_api import write_arrow
from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError, SettingsError
from catchment.client.offsets import LATEST
from catchment.spark.formats.decoding import UndecodableRecord
from catchment.spark.table import source as table_source
from catchment.spark.table.contents import TableContents
from catchment.spark.table.source import TableDataSource
from catchment.spark.task_facts import TaskFacts

SCHEMA = "district string, crew int"
Change = tuple[str | None, str | None, int | None]
"""The record's key, the district and the crew; without a district it deletes."""


class Table:
    """A topic, what is written to it, and what a task of some batch reads of it."""

    def __init__(
        self,
        logs: Logs,
        checkpoint: FakeCheckpoint,
        monkeypatch: pytest.MonkeyPatch,
        partitions: int = 1,
        **options: str,
    ) -> None:
        self.logs = logs
        self.topic = logs.topic(partitions=partitions)
        self.checkpoint = checkpoint
        self._monkeypatch = monkeypatch
        given = {
            "kafka.bootstrap.servers": logs.bootstrap_servers,
            "topic": self.topic,
            "valueFormat": "json",
            "valueSchema": SCHEMA,
            "checkpointLocation": str(checkpoint),
            **options,
        }
        self.source = TableDataSource(CaseInsensitiveDict(given))

    def write(self, *changes: Change, partition: int | None = None) -> None:
        values = [
            None if district is None else json.dumps({"district": district, "crew": crew}).encode()
            for _, district, crew in changes
        ]
        keys = [None if key is None else key.encode() for key, _, _ in changes]
        rows = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        write_arrow(self.topic, rows, self.logs.bootstrap_servers, partition=partition)

    def ends(self) -> dict[str, int]:
        with Cluster(self.logs.bootstrap_servers) as cluster:
            places = [(self.topic, partition) for partition in cluster.partitions(self.topic)]
            return {str(place[1]): at.offset for place, at in cluster.list_offsets(places, LATEST).items()}

    def plan(self, batch_id: int, ends: Mapping[str, int] | None = None) -> None:
        self.checkpoint.plan(batch_id, {"stream": {"0": 1}, f"noted:{self.topic}": dict(ends or self.ends())})

    def rows(self, batch_id: int = -1) -> list[dict[str, Any]]:
        facts = TaskFacts("query" if batch_id >= 0 else "", batch_id, 0, 0)
        self._monkeypatch.setattr(table_source, "current_task", lambda: facts)
        reader = self.source.reader(self.source.schema())
        (partition,) = reader.partitions()
        sent, sent_partition = pickle.loads(pickle.dumps((reader, partition)))
        return [row for batch in sent.read(sent_partition) for row in batch.to_pylist()]

    def crews(self, batch_id: int = -1) -> dict[str, int]:
        found = [(row["value"]["district"], row["value"]["crew"]) for row in self.rows(batch_id)]
        assert len(dict(found)) == len(found), "a key is there once"
        return dict(found)


@pytest.fixture
def checkpoint(tmp_path: Path) -> FakeCheckpoint:
    return FakeCheckpoint(tmp_path / "checkpoint")


def test_of_each_key_the_last_record_counts_and_a_tombstone_deletes(
    logs: Logs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(logs, checkpoint, monkeypatch, partitions=2)
    assert table.rows() == []
    table.write(("a", "a", 1), ("b", "b", 2), ("c", "c", 3))
    table.write(("a", "a", 4), ("b", None, None))
    assert table.crews() == {"a": 4, "c": 3}
    table.write(("b", "b", 5), ("c", None, None), ("a", None, None))
    assert table.crews() == {"b": 5}


def test_a_batch_sees_what_was_noted_when_it_was_planned(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(catchment_logs, checkpoint, monkeypatch)
    table.write(("a", "a", 1))
    table.plan(0)
    table.write(("a", "a", 2), ("b", "b", 2))
    assert table.crews(0) == {"a": 1}
    table.plan(1)
    table.write(("a", None, None))
    assert table.crews(1) == {"a": 2, "b": 2}
    table.plan(2)
    assert table.crews(2) == {"b": 2}
    assert table.crews(0) == {"a": 1}, "an older batch that is repeated sees its own version"
    assert table.crews(2) == {"b": 2}
    assert table.crews() == {"b": 2}


def test_a_topic_that_is_recreated_is_another_table_though_it_has_grown_longer(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(catchment_logs, checkpoint, monkeypatch)
    table.write(("old", "old", 1))
    assert table.crews() == {"old": 1}
    delete_topic(catchment_logs, table.topic)
    catchment_logs.create(table.topic, 1, {})
    table.write(("a", "a", 1), ("b", "b", 2), ("c", "c", 3))
    assert table.crews() == {"a": 1, "b": 2, "c": 3}


def test_partitions_that_are_added_are_read(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(catchment_logs, checkpoint, monkeypatch)
    table.write(("a", "a", 1))
    assert table.crews() == {"a": 1}
    catchment_logs.grow(table.topic, 2)
    table.write(("b", "b", 2), partition=1)
    assert table.crews() == {"a": 1, "b": 2}


def test_a_batch_that_is_repeated_in_another_process_sees_the_same(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(catchment_logs, checkpoint, monkeypatch)
    table.write(("a", "a", 1), ("b", "b", 1))
    table.plan(0)
    before = table.crews(0)
    table.write(("a", "a", 2), ("b", None, None))
    table_source._tables.clear()
    assert table.crews(0) == before == {"a": 1, "b": 1}


def test_only_what_is_new_is_read(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(catchment_logs, checkpoint, monkeypatch)
    table.write(*[(str(number), str(number), number) for number in range(100)])
    table.plan(0)
    assert len(table.crews(0)) == 100
    spans: list[tuple[int, int | None]] = []
    real = TableContents._catch_up

    def look(self: TableContents, cluster: Cluster, ends: Mapping[int, int]) -> None:
        spans.append((self._read_to[0], ends[0]))
        real(self, cluster, ends)

    monkeypatch.setattr(TableContents, "_catch_up", look)
    assert len(table.crews(0)) == 100
    table.write(("x", "x", 0))
    table.plan(1)
    assert len(table.crews(1)) == 101
    assert spans == [(100, 101)]


def test_fields_of_the_value_can_be_the_key(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(catchment_logs, checkpoint, monkeypatch, partitions=2, tableKey="district")
    table.write((None, "a", 1), ("k1", "b", 1), partition=0)
    table.write((None, "a", 2), ("k2", "b", 2), ("k3", "c", 2), partition=1)
    assert table.crews() == {"a": 2, "b": 2, "c": 2}
    table.write(("k2", None, None), partition=1)
    assert table.crews() == {"a": 2, "b": 1, "c": 2}
    # A record whose key stays while the field changes is one row.
    table.write(("k3", "d", 3), partition=1)
    assert table.crews() == {"a": 2, "b": 1, "d": 3}


def test_a_record_without_a_key_is_reported(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(catchment_logs, checkpoint, monkeypatch)
    table.write(("a", "a", 1), (None, "b", 1))
    with pytest.raises(ClientError, match=r"partition 0, offset 1: a record of a table has no key.*set tableKey"):
        table.rows()


def test_what_does_not_decode_fails_or_is_ignored(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = Table(catchment_logs, checkpoint, monkeypatch)
    lenient = Table(catchment_logs, checkpoint, monkeypatch, onDecodeError="null")
    for table in (strict, lenient):
        table.write(("a", "a", 1), ("b", "b", 1))
        bad = pa.table({"key": [b"a", b"c"], "value": [b"{", b"{"]})
        write_arrow(table.topic, bad, catchment_logs.bootstrap_servers)
    with pytest.raises(UndecodableRecord, match="offset 2 does not decode"):
        strict.rows()
    assert lenient.crews() == {"a": 1, "b": 1}


def test_a_stream_that_notes_nothing_is_reported(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(catchment_logs, checkpoint, monkeypatch)
    checkpoint.plan(0, {"stream": {"0": 1}})
    with pytest.raises(ClientError, match=rf"batch 0 does not say how far .*noteTopics={table.topic}"):
        table.rows(0)
    with pytest.raises(ClientError, match=r"batch 1 is not planned at .* as seen from a task"):
        table.rows(1)
    del table.source.options["checkpointLocation"]
    with pytest.raises(ClientError, match="Give checkpointLocation of that stream"):
        table.rows(0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topic": ""}, "read from one topic"),
        ({"tableKye": "a"}, "Did you mean tableKey"),
        ({"tableKey": "town"}, r"tableKey names town, which is no field.*district, crew"),
        ({"tableKey": "tags", "valueSchema": "tags array<string>"}, "which is of type array<string>"),
    ],
)
def test_a_wrong_option_is_reported(catchment_logs: CatchmentLogs, options: dict[str, str], expected: str) -> None:
    base = {"kafka.bootstrap.servers": catchment_logs.bootstrap_servers, "topic": "t", "valueFormat": "json"}
    source = TableDataSource(CaseInsensitiveDict({**base, "valueSchema": SCHEMA, **options}))
    with pytest.raises(SettingsError, match=expected):
        source.reader(source.schema())


def test_few_tables_are_kept(
    catchment_logs: CatchmentLogs, checkpoint: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(table_source._MOST_TABLES + 2):
        Table(catchment_logs, checkpoint, monkeypatch).rows()
    assert len(table_source._tables) == table_source._MOST_TABLES


CHANGES = st.tuples(st.sampled_from("abcd"), st.none() | st.sampled_from("pqr"), st.integers(0, 9))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(CHANGES, min_size=1, max_size=6), min_size=1, max_size=5), st.data())
def test_any_version_is_the_same_from_scratch_and_caught_up(
    catchment_logs: CatchmentLogs,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[Change]],
    data: st.DataObject,
) -> None:
    """Against a dictionary that is kept by hand, in any order of batches."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        checkpoint = FakeCheckpoint(tmp_path_factory.mktemp("random") / "checkpoint")
        table = Table(catchment_logs, checkpoint, monkeypatch)
        state: dict[str | None, tuple[str, int | None]] = {}
        versions = []
        for batch_id, changes in enumerate(batches):
            table.write(*changes)
            for key, district, crew in changes:
                state.pop(key, None)
                if district is not None:
                    state[key] = (district, crew)
            table.plan(batch_id)
            versions.append(sorted(state.values(), key=repr))
        order = data.draw(st.lists(st.sampled_from(range(len(batches))), min_size=1, max_size=6))
        for batch_id in order:
            found = [(row["value"]["district"], row["value"]["crew"]) for row in table.rows(batch_id)]
            assert sorted(found, key=repr) == versions[batch_id]
