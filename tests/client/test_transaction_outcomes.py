"""Outcomes of transactions, from the log if the coordinator no longer has them; and many transactions ended at once."""

from __future__ import annotations

from contextlib import closing

import pyarrow
import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode
from tests.client.logs import CatchmentLogs, Logs

from catchment.client.cluster import Cluster
from catchment.client.errors import TimedOut
from catchment.client.producer import Producer
from catchment.client.transaction_outcomes import Outcome, Witness, ongoing_transactions, outcome_of
from catchment.client.transactions import TransactionHandle, end_transaction, end_transactions


def write(cluster: Cluster, topic: str, transactional_id: str) -> tuple[TransactionHandle, Witness]:
    """An open transaction, and one of its records."""
    with closing(Producer(cluster, transactional_id=transactional_id)) as producer:
        producer.begin()
        producer.write(topic, pyarrow.table({"value": [b"1", b"2"]}), partition=0)
        end_offset = producer.flush()[topic, 0].end_offset
        return producer.handle(), Witness(topic, str(cluster.topic_id(topic)), 0, end_offset - 1)


@pytest.mark.parametrize(("commit", "outcome"), [(True, Outcome.COMMITTED), (False, Outcome.ABORTED)])
def test_the_log_shows_how_a_transaction_ended_after_its_id_was_used_again(
    logs: Logs, commit: bool, outcome: Outcome
) -> None:
    topic = logs.topic()
    with Cluster(logs.bootstrap_servers) as cluster:
        handle, witness = write(cluster, topic, f"witness-{topic}")
        end_transaction(cluster, handle, commit)
        assert outcome_of(cluster, witness) is outcome
        later, _ = write(cluster, topic, f"witness-{topic}")
        end_transaction(cluster, later, not commit)
        assert end_transactions(cluster, [handle], commit) != [ErrorCode.none]
        assert outcome_of(cluster, witness) is outcome


def test_an_open_transaction_has_no_outcome_yet(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    with Cluster(catchment_logs.bootstrap_servers, timeout_s=3) as cluster:
        handle, witness = write(cluster, topic, f"open-{topic}")
        with pytest.raises(
            TimedOut, match=f"partition 0 of topic {topic} has an open transaction at or before offset 1"
        ):
            outcome_of(cluster, witness)
        end_transaction(cluster, handle, commit=False)


def test_without_its_witness_the_outcome_of_a_transaction_is_unknown(logs: Logs) -> None:
    topic = logs.topic()
    admin = AdminClient({"bootstrap.servers": logs.bootstrap_servers})
    with Cluster(logs.bootstrap_servers) as cluster:
        handle, witness = write(cluster, topic, f"gone-{topic}")
        end_transaction(cluster, handle, commit=True)
        assert outcome_of(cluster, witness._replace(topic_id="another")) is Outcome.UNKNOWN
        assert outcome_of(cluster, witness._replace(offset=1000)) is Outcome.UNKNOWN
        assert outcome_of(cluster, witness._replace(topic=f"deleted-{topic}")) is Outcome.UNKNOWN
        logs.settle(topic)
        for done in admin.delete_records([TopicPartition(topic, 0, OFFSET_END)]).values():
            done.result(30)
        assert outcome_of(cluster, witness) is Outcome.UNKNOWN


def test_open_transactions_are_listed_by_the_prefix_of_their_ids(logs: Logs) -> None:
    topic = logs.topic()
    with Cluster(logs.bootstrap_servers) as cluster:
        handles = [write(cluster, topic, f"listed-{topic}-{number}")[0] for number in range(3)]
        write_elsewhere, _ = write(cluster, topic, f"other-{topic}")
        names = [handle.transactional_id for handle in handles]
        assert ongoing_transactions(cluster, f"listed-{topic}-") == names
        end_transaction(cluster, handles[1], commit=True)
        assert ongoing_transactions(cluster, f"listed-{topic}-") == [names[0], names[2]]
        assert end_transactions(cluster, [*handles, write_elsewhere], commit=False) == [
            ErrorCode.none,
            ErrorCode.invalid_txn_state,
            ErrorCode.none,
            ErrorCode.none,
        ]
        assert ongoing_transactions(cluster, f"listed-{topic}-") == []


def test_many_transactions_are_ended_together_and_again(logs: Logs) -> None:
    topic = logs.topic()
    with Cluster(logs.bootstrap_servers) as cluster:
        handles = [write(cluster, topic, f"many-{topic}-{number}")[0] for number in range(20)]
    with Cluster(logs.bootstrap_servers) as cluster:
        for _ in range(2):
            assert end_transactions(cluster, handles, commit=True) == [ErrorCode.none] * len(handles)
    assert logs.settled_values(topic) == [b"1", b"2"] * len(handles)


def test_ending_transactions_survives_a_lost_connection(logs: Logs) -> None:
    topic = logs.topic()
    with Cluster(logs.bootstrap_servers) as cluster:
        handles = [write(cluster, topic, f"lost-{topic}-{number}")[0] for number in range(3)]
        for connection in cluster._connections.values():
            connection._socket.shutdown(2)
        assert end_transactions(cluster, handles, commit=True) == [ErrorCode.none] * len(handles)
    assert logs.settled_values(topic) == [b"1", b"2"] * len(handles)
