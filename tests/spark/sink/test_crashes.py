"""A query killed at any point, tasks run twice, time-outs: on a real broker of either kind, each row is there once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.client.logs import Logs
from tests.spark.sink_query import Query

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError
from catchment.client.transaction_outcomes import Outcome
from catchment.client.transactions import end_transaction
from catchment.spark.sink.commit_list import TaskMessage, Transaction
from catchment.spark.sink.ledger import Ledger
from catchment.spark.sink.transactions import SinkTransactions
from catchment.spark.sink.two_phase import Spared

BATCH = [["a", "b", "c"], ["d", "e"]]
ROWS = ["a", "b", "c", "d", "e"]


class Killed(BaseException):
    """The driver's process ends here."""


@pytest.fixture(params=["stream", "foreachBatch"])
def query(logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Query:
    return Query(logs, tmp_path / "checkpoint", monkeypatch, request.param)


def kill_after_ends(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let the driver end so many transactions of its list, and die."""
    commit = SinkTransactions.commit

    def commit_some(self: SinkTransactions, transactions: Sequence[Transaction]) -> list[Outcome]:
        commit(self, transactions[:count])
        raise Killed

    monkeypatch.setattr(SinkTransactions, "commit", commit_some)


def commit_and_die(query: Query, batch_id: int, ends: int) -> None:
    messages = query.tasks(batch_id, BATCH)
    with pytest.MonkeyPatch.context() as monkeypatch:
        kill_after_ends(monkeypatch, ends)
        writer = query.writer()
        with pytest.raises(Killed):
            writer.commit(messages, batch_id)


def test_batches_follow_each_other_and_leave_one_list(query: Query) -> None:
    query.run(0, BATCH)
    query.run(1, [["f"], []])
    query.run(2, [[], ["g"]])
    assert query.values() == [*ROWS, "f", "g"]
    assert [path.name for path in (query.checkpoint / "sinks/catchment").iterdir()] == ["2-0.json"]


def test_killed_before_the_decision_the_batch_is_repeated(query: Query) -> None:
    query.tasks(0, BATCH)
    assert query.visible() == []
    query.run(0, BATCH)
    assert query.values() == ROWS


@pytest.mark.parametrize("ends", [0, 1, 2])
def test_killed_behind_the_decision_the_list_is_finished_and_nothing_repeated(query: Query, ends: int) -> None:
    commit_and_die(query, 0, ends)
    query.writer()
    assert query.values() == ROWS
    query.run(0, BATCH)
    query.run(1, [["f"]])
    assert query.values() == [*ROWS, "f"]


def test_what_timed_out_while_the_driver_was_away_is_written_again_and_nothing_else(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"kafka.transaction.timeout.ms": "5000"}
    query = Query(logs, tmp_path / "checkpoint", monkeypatch, **options)
    commit_and_die(query, 0, ends=1)
    # All that is open by now ends by its time-out.
    assert query.values() == ["a", "b", "c"]
    query.run(0, BATCH)
    assert query.values() == ROWS
    assert sorted(path.name for path in (query.checkpoint / "sinks/catchment").iterdir()) == ["0-0.json", "0-1.json"]
    query.run(1, [["f"]])
    assert query.values() == [*ROWS, "f"]


def test_a_repeat_that_is_cut_differently_is_refused_if_a_part_of_the_batch_is_visible(query: Query) -> None:
    commit_and_die(query, 0, ends=1)
    lose_second(query)
    with pytest.raises(ClientError, match=r"had 3 rows in Spark partition 0 .* and has 1 now"):
        query.tasks(0, [["a"], ["b", "c"], ["d", "e"]])
    messages = query.tasks(0, [*BATCH, []])
    with pytest.raises(ClientError, match="had 2 Spark partitions when a part of it was committed, and has 3"):
        query.writer().commit(messages, 0)
    assert query.values() == ["a", "b", "c"]
    query.run(0, BATCH)
    assert query.values() == ROWS


def lose_second(query: Query) -> None:
    """Abort the transaction of Spark partition 1, as its time-out would."""
    with Cluster(query.logs.bootstrap_servers) as cluster:
        end_transaction(cluster, second_transaction(query).handle, commit=False)


def second_transaction(query: Query) -> Transaction:
    (decided,) = query_lists(query)
    return decided[1]


def query_lists(query: Query) -> list[tuple[Transaction, ...]]:
    return [one.transactions for one in Ledger.at(str(query.checkpoint)).newest()]


def test_a_list_that_lost_everything_is_repeated_whatever_its_shape(query: Query) -> None:
    commit_and_die(query, 0, ends=0)
    with Cluster(query.logs.bootstrap_servers) as cluster:
        for transaction in query_lists(query)[0]:
            end_transaction(cluster, transaction.handle, commit=False)
    query.run(0, [["a"], ["b", "c"], ["d", "e"]])
    assert query.values() == ROWS


def test_of_two_attempts_at_a_task_one_counts_and_the_other_is_aborted(query: Query) -> None:
    writer = query.writer()
    first = query.task(writer, 0, 0, ["a"], attempt=0)
    second = query.task(writer, 0, 0, ["a"], attempt=1)
    assert first != second
    query.writer().commit([second], 0)
    assert query.values() == ["a"]
    assert not query.is_open()


def test_a_failed_batch_leaves_nothing_open_not_even_of_tasks_that_were_killed(query: Query) -> None:
    messages = query.tasks(0, BATCH)
    assert query.is_open()
    query.writer().abort([messages[0], None, None], 0)
    assert query.values() == []


def test_a_task_that_writes_while_its_batch_is_given_up_leaves_nothing_open(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[TaskMessage] = []
    look = SinkTransactions._sweep

    def look_before_the_task_writes(transactions: SinkTransactions, query_id: str, spared: Spared) -> bool:
        found = look(transactions, query_id, spared)
        if not late:
            late.append(query.task(query.writer(), 0, 0, ["a"]))
        return found

    monkeypatch.setattr(SinkTransactions, "_sweep", look_before_the_task_writes)
    query.writer().abort([None, None], 0)
    assert late
    assert not query.is_open()


def test_a_commit_that_fails_behind_the_decision_is_not_undone(query: Query) -> None:
    messages = query.tasks(0, BATCH)
    with pytest.MonkeyPatch.context() as monkeypatch:
        kill_after_ends(monkeypatch, 1)
        writer = query.writer()
        with pytest.raises(Killed):
            writer.commit(messages, 0)
    writer.abort(messages, 0)
    query.run(0, BATCH)
    assert query.values() == ROWS


def test_of_two_runs_with_one_checkpoint_one_is_reported_and_no_row_is_there_twice(query: Query) -> None:
    planned = query.writer(), query.writer()
    ours = [query.task(planned[0], 0, 0, ["a"], attempt=0)]
    theirs = [query.task(planned[1], 0, 0, ["a"], attempt=1)]
    query.writer().commit(theirs, 0)
    with pytest.raises(ClientError, match=r"batch 0 was decided by another run of this query.*stop one of them"):
        query.writer().commit(ours, 0)
    query.writer().abort(ours, 0)
    assert query.values() == ["a"]


def test_a_run_that_is_a_batch_behind_is_reported_as_well(query: Query) -> None:
    slow = [query.task(query.writer(), 0, 0, ["a"], attempt=1)]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(SinkTransactions, "sweep", lambda *_, **__: None)
        query.run(0, [["a"]])
        query.run(1, [["b"]])
    with pytest.raises(ClientError, match="batch 0 was decided by another run"):
        query.writer().commit(slow, 0)
    assert query.values() == ["a", "b"]


def test_a_run_whose_task_was_taken_over_is_reported(query: Query) -> None:
    ours = query.tasks(0, [["a"]])
    query.tasks(0, [["a"]])
    with pytest.raises(
        ClientError, match=r"transactions of Spark partitions \[0\] were aborted.*Start the query again"
    ):
        query.writer().commit(ours, 0)
    query.run(0, [["a"]])
    assert query.values() == ["a"]


def test_a_checkpoint_of_which_only_a_part_was_deleted_is_refused(query: Query) -> None:
    commit_and_die(query, 7, ends=1)
    with pytest.raises(ClientError, match=r"decided for batch 7, but this is batch 0.*begin with a new checkpoint"):
        query.tasks(0, BATCH)


def test_a_list_of_another_query_is_refused(query: Query) -> None:
    commit_and_die(query, 0, ends=1)
    before, query.query_id = query.query_id, "another"
    with pytest.raises(ClientError, match=f"what query {before} decided .* of query another"):
        query.tasks(0, BATCH)


def test_a_new_checkpoint_knows_nothing_of_the_old_one(query: Query, tmp_path: Path) -> None:
    query.run(0, [["a"]])
    query.query_id, query.checkpoint = "new", tmp_path / "new"
    query.options["checkpointlocation"] = str(query.checkpoint)
    query.begin_checkpoint()
    query.run(0, [["a"]])
    assert query.values() == ["a", "a"]


def test_a_transaction_whose_witness_is_gone_is_left_to_people(query: Query) -> None:
    commit_and_die(query, 0, ends=1)
    lose_second(query)
    query.logs.settle(query.topic, second_transaction(query).witness.partition)
    admin = AdminClient({"bootstrap.servers": query.logs.bootstrap_servers})
    partition = TopicPartition(query.topic, second_transaction(query).witness.partition, OFFSET_END)
    for done in admin.delete_records([partition]).values():
        done.result(30)
    with pytest.raises(ClientError, match="Spark partition 1 were committed is no longer known"):
        query.writer()


def test_transactional_ids_do_not_pile_up(query: Query) -> None:
    for batch_id in range(10):
        query.tasks(batch_id, BATCH)
        query.run(batch_id, BATCH)
    ids = query.transactional_ids(f"catchment-spark-{query.query_id}-")
    assert ids == ["0-0-0", "0-1-0", "1-0-0", "1-1-0"]
