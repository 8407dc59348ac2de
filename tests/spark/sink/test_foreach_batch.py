"""Writes in `foreachBatch`: several of one batch, each once, and the errors when they cannot be distinguished."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.sink_query import Query

from catchment.client.errors import ClientError, SettingsError

BATCH = [["a", "b", "c"], ["d", "e"]]


def foreach(logs: Logs, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> Query:
    return Query(logs, folder / "checkpoint", monkeypatch, "foreachBatch", **options)


def commit(query: Query, batch_id: int) -> None:
    """A write up to its end; Spark does not know yet that the batch is done."""
    query.writer().commit(query.tasks(batch_id, BATCH), batch_id)


def test_writes_with_names_of_their_own_are_each_once(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = foreach(logs, tmp_path, monkeypatch)
    commit(query, 0)
    query.options["sinkname"] = "second"
    messages = query.tasks(0, BATCH)
    # The first write of the repeated batch sweeps what it finds open of its own, and nothing of the second.
    del query.options["sinkname"]
    commit(query, 0)
    query.options["sinkname"] = "second"
    query.writer().commit(messages, 0)
    commit(query, 0)
    assert query.values() == sorted(["a", "b", "c", "d", "e"] * 2)
    lists = sorted(str(path.relative_to(query.checkpoint)) for path in query.checkpoint.glob("sinks/*/*"))
    assert lists == ["sinks/catchment-second/0-0.json", "sinks/catchment/0-0.json"]


def test_a_second_write_without_a_name_is_reported_and_not_taken_for_a_repeat(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = foreach(catchment_logs, tmp_path, monkeypatch)
    query.run_id = str(uuid.uuid4())
    commit(query, 0)
    with pytest.raises(ClientError, match=r"batch 0 has been written already in this run.*sinkName of its own"):
        query.tasks(0, BATCH)
    query.run_id = str(uuid.uuid4())
    commit(query, 0)
    query.finish(0)
    commit(query, 1)
    assert query.values() == sorted(["a", "b", "c", "d", "e"] * 2)


def test_a_job_group_of_ones_own_is_refused_since_a_repeat_could_not_be_detected(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = foreach(catchment_logs, tmp_path, monkeypatch)
    query.run_id = "nightly"
    with pytest.raises(SettingsError, match=r"job group 'nightly', which hides the run.*Do not call setJobGroup"):
        query.tasks(0, BATCH)
    assert query.values() == []


def test_a_write_outside_of_the_stream_whose_checkpoint_it_names_is_refused(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = foreach(catchment_logs, tmp_path, monkeypatch)
    writer = query.writer()
    with pytest.raises(SettingsError, match=r"batch 0 is under way, but this is no batch of a stream.*leave it out"):
        query.task(writer, -1, 0, ["a"])
    with pytest.raises(SettingsError, match="this is batch 4 of a stream"):
        query.task(writer, 4, 0, ["a"])
    assert query.values() == []


def test_a_checkpoint_in_which_no_batch_is_planned_is_reported(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = foreach(catchment_logs, tmp_path, monkeypatch)
    (query.checkpoint / "offsets/0").unlink()
    with pytest.raises(ClientError, match="has planned no batch"):
        query.writer()


def test_at_least_once_asks_for_no_checkpoint(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = foreach(catchment_logs, tmp_path, monkeypatch, deliveryguarantee="atLeastOnce")
    commit(query, 0)
    commit(query, 0)
    assert query.values() == sorted(["a", "b", "c", "d", "e"] * 2)
    assert not (query.checkpoint / "sinks").exists()


def without_checkpoint(query: Query) -> Query:
    del query.options["checkpointlocation"]
    query.options["transactionalidprefix"] = query.topic
    return query


def test_without_a_checkpoint_the_ids_of_transactions_do_not_pile_up_and_each_topic_has_its_own(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = without_checkpoint(foreach(logs, tmp_path, monkeypatch))
    for batch_id in range(5):
        commit(query, batch_id)
        commit(query, batch_id)
    ids = query.transactional_ids(f"{query.topic}-")
    assert sorted(one[-5:] for one in ids) == ["0-0-0", "0-1-0", "1-0-0", "1-1-0"]
    assert query.values() == sorted(["a", "b", "c", "d", "e"] * 10)
    query.options["topic"] = logs.topic(partitions=2)
    commit(query, 5)
    assert len(query.transactional_ids(f"{query.topic}-")) == 6


def test_without_a_checkpoint_writes_at_the_same_time_are_distinguished_by_name_and_otherwise_rejected(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = without_checkpoint(foreach(catchment_logs, tmp_path, monkeypatch))
    first = query.writer()
    written = [query.task(first, 0, 0, ["a"])]
    query.options["sinkname"] = "second"
    second = query.writer()
    second.commit([query.task(second, 0, 0, ["b"])], 0)
    first.commit(written, 0)
    assert query.values() == ["a", "b"]
    third = query.writer()
    overtaken = [query.task(third, 1, 0, ["c"])]
    commit(query, 1)
    with pytest.raises(ClientError, match=r"rows of Spark partitions \[0\] were not written.*sinkName of its own"):
        third.commit(overtaken, 1)


@pytest.mark.parametrize("name", ["", "a/b", "a" * 101])
def test_a_name_that_is_no_name_is_reported(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    query = foreach(catchment_logs, tmp_path, monkeypatch, sinkname=name)
    with pytest.raises(SettingsError, match="the option sinkName cannot be"):
        query.writer()
