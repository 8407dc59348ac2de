"""No request, however late, opens a hanging transaction, and committed records are read once and in order.

Two producers, one of each transaction protocol, write, end and begin again at random, the broker stops or loses power and
starts again, and batches and offsets of transactions that have ended are sent once more. In the end everything is stable.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from kio.schema.errors import ErrorCode
from tests.broker.handlers.group_requests import find_coordinator, offsets
from tests.broker.handlers.log_requests import fetch, fetch_request
from tests.broker.handlers.transactional_producer import V1, V2, TransactionalProducer, Versions
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

from catchment.protocol.batch import iterate_headers
from catchment.protocol.records import read_records
from catchment.testing.embedded import Broker

DEADLINE_S = 10
PARTITIONS = 2
READ_COMMITTED = 1

producers = st.sampled_from((V1, V2))
partitions = st.integers(0, PARTITIONS - 1)


def read_committed(wire: Wire, partition: int) -> list[bytes]:
    """The values that a READ_COMMITTED consumer reads, once no transaction is open in the partition."""

    def settled() -> Any:
        fetched = fetch(wire, fetch_request("a", (partition, 0), isolation_level=READ_COMMITTED), 12)
        answer = dict(fetched.partitions)[partition]
        return answer if answer.last_stable_offset == answer.high_watermark else None

    answer = wait_until(settled, "a transaction hangs", DEADLINE_S)
    aborted = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ())
    skipped: set[int] = set()
    values: list[bytes] = []
    for position, header in iterate_headers(answer.records or b""):
        while aborted and aborted[0][0] <= header.last_offset:
            skipped.add(aborted.pop(0)[1])
        if header.is_control:
            skipped.discard(header.producer_id)
        elif header.producer_id not in skipped:
            data = answer.records[position : position + header.size]
            values += [record.value or b"" for record in read_records(data, 1 << 20)]
    return values


class HangingMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.broker = Broker()
        self.broker.start()
        self.broker.create_topic("a", PARTITIONS)
        self.wire = Wire(self.broker)
        find_coordinator(self.wire)
        self.producers = {
            versions: TransactionalProducer(self.wire, versions, f"tx-{versions.produce}") for versions in (V1, V2)
        }
        self.past: dict[Versions, list[int]] = {versions: [] for versions in self.producers}
        self.open: dict[Versions, list[tuple[int, bytes]]] = {versions: [] for versions in self.producers}
        self.is_in_group: dict[Versions, bool] = dict.fromkeys(self.producers, False)
        self.committed: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.count = 0
        for producer in self.producers.values():
            producer.begin_life()

    @rule(versions=producers, partition=partitions)
    def write(self, versions: Versions, partition: int) -> None:
        self.count += 1
        value = b"%d" % self.count
        assert self.producers[versions].write("a", value, partition=partition) is ErrorCode.none
        self.open[versions].append((partition, value))

    @rule(versions=producers)
    def commit_offset(self, versions: Versions) -> None:
        producer = self.producers[versions]
        if producer.versions.adds and not self.is_in_group[versions]:
            assert producer.add_group() is ErrorCode.none
        self.is_in_group[versions] = True
        assert producer.commit_offset(1) is ErrorCode.none

    @rule(partition=partitions)
    def add_and_write_nothing(self, partition: int) -> None:
        producer = self.producers[V1]
        assert producer.add("a", partition) is ErrorCode.none
        producer.added.add(("a", partition))

    @rule(versions=producers, is_commit=st.booleans())
    def end(self, versions: Versions, is_commit: bool) -> None:
        producer = self.producers[versions]
        if not (self.open[versions] or self.is_in_group[versions] or producer.added):
            return
        self.past[versions].append(producer.epoch)
        assert producer.end(is_commit=is_commit) is ErrorCode.none
        written, self.open[versions] = self.open[versions], []
        self.is_in_group[versions] = False
        if is_commit:
            for partition, value in written:
                self.committed[partition].append(value)

    @rule(versions=producers)
    def begin_another_life(self, versions: Versions) -> None:
        """Abort the open transaction, if there is one."""
        producer = self.producers[versions]
        self.past[versions].append(producer.epoch)
        producer.begin_life()
        producer.added.clear()
        self.open[versions] = []
        self.is_in_group[versions] = False

    @rule(versions=producers, partition=partitions, back=st.integers(1, 3), sequence=st.integers(0, 2))
    def write_too_late(self, versions: Versions, partition: int, back: int, sequence: int) -> None:
        producer = self.producers[versions]
        epochs = self.past[versions][-back:]
        is_current = not epochs or epochs[0] == producer.epoch
        if not epochs or (is_current and ("a", partition) in producer.added):
            return
        code = producer.append("a", b"late", partition=partition, sequence=sequence, epoch=epochs[0])
        assert code is not ErrorCode.none

    @rule(versions=producers, back=st.integers(1, 3))
    def commit_an_offset_too_late(self, versions: Versions, back: int) -> None:
        producer = self.producers[versions]
        epochs = self.past[versions][-back:]
        is_current = not epochs or epochs[0] == producer.epoch
        if not epochs or (is_current and self.is_in_group[versions]):
            return
        assert producer.commit_offset(99, epoch=epochs[0]) is not ErrorCode.none

    @rule(power_loss=st.none() | st.randoms(use_true_random=False))
    def restart(self, power_loss: Random | None) -> None:
        """Stop cleanly, or lose unsynced data; everything acknowledged is synced."""
        self.wire.close()
        if power_loss is None:
            self.broker.stop()
        else:
            self.broker.kill(power_loss=power_loss)
        self.broker.start()
        self.wire = Wire(self.broker)
        find_coordinator(self.wire)
        for producer in self.producers.values():
            producer.wire = self.wire

    def teardown(self) -> None:
        """A new producer with the transactional id aborts the open transaction; then none is open."""
        if not hasattr(self, "producers"):
            return
        for producer in self.producers.values():
            producer.begin_life()
        # Transactions of different producers commit in another order than they write.
        for partition in range(PARTITIONS):
            found = read_committed(self.wire, partition)
            assert sorted(found, key=int) == sorted(self.committed[partition], key=int)
            assert found == sorted(found, key=int)
        assert offsets(self.wire, "a")[0] in (-1, 1)
        self.wire.close()
        self.broker.stop()


HangingMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow]
)
TestHangingTransactions = HangingMachine.TestCase
