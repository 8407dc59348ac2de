"""Kafka's DumpLogSegments, a checker that we did not write, reads every file of a mixed workload and finds nothing wrong."""

from __future__ import annotations

import base64
import random
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.compat.clients.client import TIMEOUT_S
from tests.compat.java_tool import java_tool, require_java
from tests.storage import logs

from catchment.ports.clock import ManualClock
from catchment.ports.real_disk import RealDisk
from catchment.storage.recovery import create_log
from catchment.testing.embedded import Broker

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_STATES = ("running", "closed", "recovered")
_RECORDS_A_PRODUCER = 150
_TROUBLE = re.compile(
    r"mismatch|corrupt|consecutive|monotonic|not found in log|invalid|exception|error|isvalid: false", re.IGNORECASE
)
_TOPICS: Mapping[str, Mapping[str, object]] = {
    "create-time": {},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "densely-indexed": {"index.interval.bytes": 100},
    "recompressed": {"compression.type": "gzip"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}


def _fill(broker: Broker, topic: str) -> None:
    """Values that compress by half, in small batches, so that there is something to index and to roll."""
    dice = random.Random(topic)
    for number, codec in enumerate(_CODECS):
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "compression.type": codec,
                "enable.idempotence": number % 2 == 0,
                "batch.num.messages": 10,
            }
        )
        for record in range(_RECORDS_A_PRODUCER):
            producer.produce(
                topic,
                _marker(codec, record) + base64.b64encode(dice.randbytes(1500)) + b"." * 1500,
                f"key-{record % 50}".encode(),
                partition=0,
                headers=[("number", str(record).encode())],
            )
        assert producer.flush(TIMEOUT_S) == 0


def _marker(codec: str, record: int) -> bytes:
    return f"{codec}:{record}:".encode()


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """What a broker wrote: as it runs, after a clean stop, and after the recovery from a stop that was not."""
    require_java()
    root = tmp_path_factory.mktemp("dumped")
    states = {state: root / state for state in _STATES}
    with Broker(states["closed"], settings={"log.cleaner.backoff.ms": 100}) as broker:
        for topic, settings in _TOPICS.items():
            broker.create_topic(topic, settings={"segment.bytes": 1024 * 1024, **settings})
            _fill(broker, topic)
        for state in ("running", "recovered"):
            shutil.copytree(states["closed"], states[state])
    for index in (states["recovered"] / "create-time-0").glob("*index"):
        index.unlink()
    with Broker(states["recovered"]):
        pass
    return states


@pytest.fixture(params=_STATES)
def written(request: pytest.FixtureRequest, directories: Mapping[str, Path]) -> Path:
    return directories[request.param]


def _files(directory: Path, suffix: str) -> list[Path]:
    found = sorted(directory.glob(f"*/*{suffix}"))
    assert found, f"there is no {suffix} in {directory}"
    return found


@cache
def _dump(files: Sequence[Path], *options: str) -> str:
    output = java_tool("DumpLogSegments", *options, "--files", ",".join(map(str, files))).decode()
    trouble = [line for line in output.splitlines() if _TROUBLE.search(line[:200]) and "isvalid: true" not in line]
    assert not trouble, "\n".join(line[:300] for line in trouble[:20])
    for file in files:
        assert f"Dumping {file}" in output
    return output


def test_every_record_of_every_log_is_read(written: Path) -> None:
    segments = _files(written, ".log")
    assert len(segments) > len(_TOPICS), "nothing was rolled"
    output = _dump(tuple(segments), "--deep-iteration", "--print-data-log", "--max-message-size", "10000000")
    for codec in _CODECS:
        assert re.search(rf"compresscodec: {codec}\b", output)
        for record in range(_RECORDS_A_PRODUCER):
            copies = output.count(f"payload: {_marker(codec, record).decode()}")
            assert copies >= len(_TOPICS) - 1, f"record {record} of {codec} is there {copies} times"


def test_every_index_agrees_with_its_log(written: Path) -> None:
    indexes = _files(written, ".index") + _files(written, ".timeindex")
    assert any(file.stat().st_size for file in _files(written, ".index"))
    sane = _dump(tuple(indexes), "--index-sanity-check")
    assert sane.count("passed sanity check") == len(indexes)
    _dump(tuple(indexes), "--verify-index-only")


def test_every_snapshot_of_producers_is_read(written: Path) -> None:
    assert "producerId: " in _dump(tuple(_files(written, ".snapshot")))


def test_aborted_transactions_are_read(tmp_path: Path) -> None:
    require_java()
    directory = tmp_path / "flow-0"
    log = create_log(
        RealDisk(), ManualClock(logs.NOW_MS), str(directory), "flow", 0, logs.TOPIC_ID, logs.SMALL
    )
    for number in range(20):
        for producer_id in (7, 8):
            values = logs.batch(
                b"value %d" % number, producer_id=producer_id, epoch=0, sequence=number, is_transactional=True
            )
            log.append_as_leader(values, 0)
        for producer_id in (8, 7):
            marker = logs.marker(producer_id, is_commit=producer_id == 8)
            log.append_as_leader(marker, 0, is_from_client=False)
    log.close()
    records = _dump(tuple(_files(tmp_path, ".log")), "--deep-iteration", "--print-data-log")
    assert records.count("endTxnMarker: ABORT") == records.count("endTxnMarker: COMMIT") == 20
    aborted = _dump(tuple(_files(tmp_path, ".txnindex")))
    assert aborted.count("producerId: 7") == 20
    assert "producerId: 8" not in aborted
    _dump(tuple(_files(tmp_path, ".index") + _files(tmp_path, ".timeindex")), "--index-sanity-check")
    _dump(tuple(_files(tmp_path, ".snapshot")))
