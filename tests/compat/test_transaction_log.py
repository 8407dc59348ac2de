"""Kafka's DumpLogSegments reads what the transaction coordinator wrote, and finds in it what was asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode
from tests.broker.handlers.transaction_requests import TransactionWire
from tests.broker.handlers.wire import Wire
from tests.compat.java_tool import java_tool, require_java

from catchment.testing.embedded import Broker

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


def _run_transactions(directory: Path) -> None:
    """One transaction of a client without epoch bumps that commits, and one of a client with them that aborts."""
    with Broker(directory) as broker, Wire(broker) as wire:
        broker.create_topic("flow", 2)
        transactions = TransactionWire(wire, "copier")
        producer = transactions.begin()
        transactions.add(producer, {"flow": [1, 0]}, 3)
        transactions.add_offsets(producer)
        assert transactions.end(producer, 3)[0] is ErrorCode.none
        transactions.completed()
        transactions.add(producer, {"flow": [1]}, 5)
        assert transactions.end(producer, 5, is_commit=False)[0] is ErrorCode.none
        transactions.completed()


def _decoded(line: str) -> tuple[Any, Any]:
    key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
    return json.loads(key), json.loads(payload)


def _partitions(value: Any) -> Any:
    return value["transactionPartitions"] and {
        one["topic"]: one["partitionIds"] for one in value["transactionPartitions"]
    }


def test_kafkas_decoder_reads_every_state_of_a_transaction(tmp_path: Path) -> None:
    require_java()
    _run_transactions(tmp_path)
    (log,) = (tmp_path / "__transaction_state-0").glob("*.log")
    output = java_tool("DumpLogSegments", "--transaction-log-decoder", "--files", str(log), with_errors=True).decode()
    assert not re.search(r"mismatch|corrupt|exception|error|isvalid: false", output, re.IGNORECASE), output
    records = [_decoded(line) for line in output.splitlines() if " key: " in line]
    assert {key["data"]["transactionalId"] for key, _ in records} == {"copier"}
    assert {payload["version"] for _, payload in records} == {"1"}
    values = [payload["data"] for _, payload in records]
    states = [value["transactionStatus"] for value in values]
    assert states == [
        EMPTY, ONGOING, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT, ONGOING, PREPARE_ABORT, COMPLETE_ABORT
    ]  # fmt: skip
    both = {"__consumer_offsets": [0], "flow": [0, 1]}
    assert [_partitions(value) for value in values] == [
        None, {"flow": [0, 1]}, both, both, [], {"flow": [1]}, {"flow": [1]}, []
    ]  # fmt: skip
    assert [value["producerEpoch"] for value in values] == [0, 0, 0, 0, 0, 0, 1, 1]
    assert [value.get("clientTransactionVersion", 0) for value in values] == [0, 0, 0, 0, 0, 2, 2, 2]
