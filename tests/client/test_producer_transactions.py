"""Transactions: all or nothing, in both protocols, on both kinds of server, and ended by another process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pyarrow
import pytest
from kio.schema.errors import ErrorCode
from tests.client.logs import Logs

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, ClientError, TimedOut, Unreachable
from catchment.client.producer import Producer
from catchment.client.reader import Reader, Span
from catchment.client.transactions import TransactionHandle, end_transaction

FENCED = {ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch}

ENDING_PROCESS = """
import json, sys
from catchment.client.cluster import Cluster
from catchment.client.reader import Reader, Span
from catchment.client.transactions import TransactionHandle, end_transaction

servers, handle = sys.argv[1], TransactionHandle(*json.loads(sys.argv[2]))
with Cluster(servers) as cluster:
    end_transaction(cluster, handle, commit=True)
"""


@pytest.fixture(params=["first protocol", "second protocol"])
def cluster(logs: Logs, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    if request.param == "first protocol":
        # As in a cluster without a finalized transaction.version.
        monkeypatch.setattr(Cluster, "feature", lambda self, name: 0)
    with Cluster(logs.bootstrap_servers) as connected:
        assert connected.feature("transaction.version") == (0 if request.param == "first protocol" else 2)
        yield connected


@pytest.fixture
def transactional_id(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def table(*values: bytes) -> pyarrow.Table:
    return pyarrow.table({"value": list(values)})


def test_only_what_is_committed_is_seen(logs: Logs, cluster: Cluster, transactional_id: str) -> None:
    topic = logs.topic(partitions=2)
    with Producer(cluster, transactional_id=transactional_id) as producer:
        for number, does_commit in enumerate([True, False, True, False]):
            producer.begin()
            producer.write(topic, table(b"%d" % number), partition=0)
            producer.write(topic, table(b"%d" % number), partition=1)
            if does_commit:
                producer.commit()
            else:
                producer.abort()
    assert [logs.settled_values(topic, partition) for partition in range(2)] == [[b"0", b"2"], [b"0", b"2"]]


def test_an_empty_transaction_ends_at_once(logs: Logs, cluster: Cluster, transactional_id: str) -> None:
    topic = logs.topic()
    with Producer(cluster, transactional_id=transactional_id) as producer:
        for end in (producer.commit, producer.abort, producer.commit):
            producer.begin()
            assert not producer.has_written
            end()
        producer.begin()
        producer.write(topic, table(b"something"))
        assert producer.has_written
        producer.commit()
    assert logs.settled_values(topic) == [b"something"]


def test_a_block_that_fails_aborts(logs: Logs, cluster: Cluster, transactional_id: str) -> None:
    topic = logs.topic()

    def write_and_fail() -> None:
        with Producer(cluster, transactional_id=transactional_id) as producer:
            producer.begin()
            producer.write(topic, table(b"never"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    logs.fill(topic, [b"later"])
    assert logs.settled_values(topic) == [b"later"]


@pytest.fixture
def loses_responses(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The ends of transactions whose responses are lost, each once; True for a commit."""
    lost: list[bool] = []

    def end_unheard(cluster: Cluster, handle: TransactionHandle, commit: bool) -> TransactionHandle:
        ended = end_transaction(cluster, handle, commit)
        if commit in lost:
            lost.remove(commit)
            raise Unreachable("no response from the played broker")
        return ended

    monkeypatch.setattr("catchment.client.producer.end_transaction", end_unheard)
    return lost


def test_the_first_error_is_reported_even_if_the_abort_fails_as_well(
    logs: Logs, cluster: Cluster, transactional_id: str, loses_responses: list[bool]
) -> None:
    topic = logs.topic()
    loses_responses.append(False)

    def write_and_fail() -> None:
        with Producer(cluster, transactional_id=transactional_id) as producer:
            producer.begin()
            producer.write(topic, table(b"never"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        write_and_fail()
    (note,) = caught.value.__notes__
    assert "could not be aborted: no response from the played broker" in note


def test_leaving_a_transaction_open_reports_that_the_abort_failed(
    logs: Logs, cluster: Cluster, transactional_id: str, loses_responses: list[bool]
) -> None:
    topic = logs.topic()
    loses_responses.append(False)

    def write_and_leave() -> None:
        with Producer(cluster, transactional_id=transactional_id) as producer:
            producer.begin()
            producer.write(topic, table(b"never"))

    with pytest.raises(Unreachable):
        write_and_leave()


def test_the_outcome_of_a_commit_without_a_response_is_unknown(
    logs: Logs, cluster: Cluster, transactional_id: str, loses_responses: list[bool]
) -> None:
    topic = logs.topic()
    loses_responses.append(True)

    def write() -> None:
        with Producer(cluster, transactional_id=transactional_id) as producer:
            producer.begin()
            producer.write(topic, table(b"perhaps"))
            producer.commit()

    with pytest.raises(TimedOut, match=r"it is unknown whether.*: no response from the played broker\. Commit again"):
        write()
    assert logs.settled_values(topic) == [b"perhaps"]


def test_a_commit_without_a_response_may_be_repeated(
    logs: Logs, cluster: Cluster, transactional_id: str, loses_responses: list[bool]
) -> None:
    topic = logs.topic()
    loses_responses.append(True)
    with Producer(cluster, transactional_id=transactional_id) as producer:
        for value in (b"first", b"second"):
            producer.begin()
            producer.write(topic, table(value))
            if loses_responses:
                with pytest.raises(TimedOut):
                    producer.commit()
            producer.commit()
    assert logs.settled_values(topic) == [b"first", b"second"]


def test_offsets_are_committed_with_the_transaction(logs: Logs, cluster: Cluster, transactional_id: str) -> None:
    topic = logs.topic()
    topic_partition = (topic, 0)
    with Producer(cluster, transactional_id=transactional_id) as producer:
        producer.begin()
        producer.write(topic, table(b"1"))
        producer.send_offsets(transactional_id, {topic_partition: 7})
        producer.commit()
        assert cluster.committed(transactional_id, [topic_partition])[topic_partition].offset == 7
        producer.begin()
        producer.send_offsets(transactional_id, {topic_partition: 9})
        producer.abort()
        assert cluster.committed(transactional_id, [topic_partition])[topic_partition].offset == 7
        producer.begin()
        producer.send_offsets(transactional_id, {topic_partition: 11})
        producer.commit()
        assert cluster.committed(transactional_id, [topic_partition])[topic_partition].offset == 11


def test_after_a_failure_and_an_abort_the_producer_is_usable_again(
    logs: Logs, cluster: Cluster, transactional_id: str
) -> None:
    topic = logs.topic(partitions=2, max_message_bytes="1000")
    with Producer(cluster, transactional_id=transactional_id) as producer:
        producer.begin()
        producer.write(topic, table(b"fits"), partition=0)
        producer.write(topic, table(b"x" * 2000), partition=0)
        producer.write(topic, table(b"fits"), partition=1)
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            producer.commit()
        producer.abort()
        producer.begin()
        producer.write(topic, table(b"again"), partition=0)
        producer.write(topic, table(b"again"), partition=1)
        producer.commit()
    assert [logs.settled_values(topic, partition) for partition in range(2)] == [[b"again"], [b"again"]]


def test_a_rejected_first_batch_can_be_aborted(logs: Logs, cluster: Cluster, transactional_id: str) -> None:
    topic = logs.topic(max_message_bytes="1000")
    with Producer(cluster, transactional_id=transactional_id) as producer:
        producer.begin()
        producer.write(topic, table(b"x" * 2000))
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            producer.commit()
        producer.abort()
        producer.begin()
        producer.write(topic, table(b"small"))
        producer.commit()
    assert logs.settled_values(topic) == [b"small"]


def test_a_later_producer_of_the_same_id_fences_the_earlier(
    logs: Logs, cluster: Cluster, transactional_id: str
) -> None:
    topic = logs.topic()
    with closing(Producer(cluster, transactional_id=transactional_id)) as earlier:
        earlier.begin()
        earlier.write(topic, table(b"earlier"))
        earlier.flush()
        with Producer(cluster, transactional_id=transactional_id) as later:
            later.begin()
            later.write(topic, table(b"later"))
            with pytest.raises(BrokerError) as caught:
                earlier.commit()
            later.commit()
    assert caught.value.code in FENCED
    assert logs.settled_values(topic) == [b"later"]


def open_transaction(logs: Logs, cluster: Cluster, transactional_id: str) -> tuple[str, Producer, TransactionHandle]:
    topic = logs.topic()
    producer = Producer(cluster, transactional_id=transactional_id)
    producer.begin()
    producer.write(topic, table(b"handed over"))
    producer.flush()
    return topic, producer, producer.handle()


def test_another_process_ends_the_transaction_and_may_do_so_twice(
    logs: Logs, cluster: Cluster, transactional_id: str
) -> None:
    topic, producer, handle = open_transaction(logs, cluster, transactional_id)
    producer.hand_over()
    with pytest.raises(ClientError, match="no transaction is open"):
        producer.write(topic, table(b"too late"))
    producer.close()
    assert logs.values(topic) == []
    arguments = [sys.executable, "-c", ENDING_PROCESS, logs.bootstrap_servers, json.dumps(handle)]
    for _ in range(2):
        subprocess.run(arguments, check=True, timeout=300)
    assert logs.settled_values(topic) == [b"handed over"]


def test_a_commit_after_an_abort_is_rejected(logs: Logs, cluster: Cluster, transactional_id: str) -> None:
    topic, producer, handle = open_transaction(logs, cluster, transactional_id)
    producer.close()
    end_transaction(cluster, handle, commit=False)
    end_transaction(cluster, handle, commit=False)
    with pytest.raises(BrokerError) as caught:
        end_transaction(cluster, handle, commit=True)
    assert caught.value.code is ErrorCode.invalid_txn_state
    assert logs.settled_values(topic) == []


def test_a_commit_after_another_producer_took_over_is_rejected(
    logs: Logs, cluster: Cluster, transactional_id: str
) -> None:
    topic, producer, handle = open_transaction(logs, cluster, transactional_id)
    producer.close()
    Producer(cluster, transactional_id=transactional_id).close()
    with pytest.raises(BrokerError) as caught:
        end_transaction(cluster, handle, commit=True)
    assert caught.value.code in FENCED
    assert logs.settled_values(topic) == []


def test_a_commit_after_the_timeout_is_rejected(logs: Logs, cluster: Cluster, transactional_id: str) -> None:
    topic = logs.topic()
    with closing(Producer(cluster, transactional_id=transactional_id, transaction_timeout_ms=3_000)) as producer:
        producer.begin()
        producer.write(topic, table(b"too late"))
        producer.flush()
        logs.fill(topic, [b"plain"])
        # The records after it can be read as soon as the server has aborted it.
        with Reader(cluster, [Span(topic, 0, 0)], columns=["value"]) as reader:
            seen = next(read.batch for _ in range(300) for read in reader.poll(0.1))
        assert seen.column("value").to_pylist() == [b"plain"]
        with pytest.raises(BrokerError) as caught:
            end_transaction(cluster, producer.handle(), commit=True)
    # In the second protocol, the epoch before the server's own abort is known to be the aborted one.
    assert caught.value.code in FENCED | {ErrorCode.invalid_txn_state}


def test_begin_and_end_are_checked(logs: Logs, cluster: Cluster, transactional_id: str) -> None:
    with Producer(cluster, transactional_id=transactional_id) as producer:
        with pytest.raises(ClientError, match="no transaction is open"):
            producer.write("topic", table(b"x"))
        producer.begin()
        with pytest.raises(ClientError, match="open already"):
            producer.begin()
