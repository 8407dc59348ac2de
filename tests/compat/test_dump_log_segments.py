"""Kafka's DumpLogSegments, an independent checker, reads every file of a mixed workload and finds no error."""

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
from tests.waiting import wait_until

from catchment.ports.clock import ManualClock
from catchment.ports.real_disk import RealDisk
from catchment.protocol.batch import read_header
from catchment.storage.recovery import create_log
from catchment.testing.embedded import Broker

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_STATES = ("running", "closed", "recovered")
_RECORDS_A_PRODUCER = 150
_TROUBLE = re.compile(r"mismatch|corrupt|out of order|not found in log|exception|error|isvalid: false", re.IGNORECASE)
# The tool reports every log but the first that starts with another offset than 0: "-1 is followed by".
_GAP = re.compile(r"\s+\d+ is followed by")
_TOPICS: Mapping[str, Mapping[str, object]] = {
    "create-time": {},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "densely-indexed": {"index.interval.bytes": 100},
    "recompressed": {"compression.type": "gzip"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
}


def _fill(broker: Broker, topic: str) -> None:
    """Values that compress by half, in small batches, so that there is something to index and to roll."""
    randomness = random.Random(topic)
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
                _marker(codec, record) + base64.b64encode(randomness.randbytes(1500)) + b"." * 1500,
                f"key-{record % 50}".encode(),
                partition=0,
                headers=[("number", str(record).encode())],
            )
        assert producer.flush(TIMEOUT_S) == 0


def _marker(codec: str, record: int) -> bytes:
    return f"{codec}:{record}:".encode()


def _await_compaction(partition: Path) -> None:
    """Wait until the first segment has lost its first batches and no file is about to change its name."""
    first_log = partition / f"{0:020}.log"

    def is_compacted() -> bool:
        is_rewritten = read_header(first_log.read_bytes()).base_offset > 0
        return is_rewritten and not [*partition.glob("*.cleaned"), *partition.glob("*.swap")]

    wait_until(is_compacted, "nothing was compacted", TIMEOUT_S)


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
        _await_compaction(states["closed"] / "compacted-0")
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
def _dump(files: Sequence[Path], *options: str, may_have_gaps: bool = False) -> str:
    output = java_tool("DumpLogSegments", *options, "--files", ",".join(map(str, files)), with_errors=True).decode()
    # What a record holds may read like anything.
    lines = [line.partition(" payload: ")[0] for line in output.splitlines()]
    trouble = [line for line in lines if _TROUBLE.search(line) or (_GAP.match(line) and not may_have_gaps)]
    assert not trouble, "\n".join(trouble[:20])
    for file in files:
        assert f"Dumping {file}" in output
    return output


def test_every_record_of_every_log_is_read(written: Path) -> None:
    segments = _files(written, ".log")
    assert len(segments) > len(_TOPICS), "nothing was rolled"
    compacted = [file for file in segments if file.parent.name == "compacted-0"]
    _dump(tuple(compacted), "--deep-iteration", "--print-data-log", may_have_gaps=True)
    others = [file for file in segments if file not in compacted]
    output = _dump(tuple(others), "--deep-iteration", "--print-data-log")
    for codec in _CODECS:
        assert re.search(rf"compresscodec: {codec}\b", output)
        for record in range(_RECORDS_A_PRODUCER):
            copies = output.count(f"payload: {_marker(codec, record).decode()}")
            assert copies == len(_TOPICS) - 1, f"record {record} of {codec} is there {copies} times"


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
    log = create_log(RealDisk(), ManualClock(logs.NOW_MS), str(directory), "flow", 0, logs.TOPIC_ID, logs.SMALL)
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


@pytest.mark.parametrize(
    ("suffix", "options"), [(".log", ("--deep-iteration",)), (".index", ()), (".timeindex", ()), (".snapshot", ())]
)
def test_the_checker_would_notice_damage(
    directories: Mapping[str, Path], tmp_path: Path, suffix: str, options: tuple[str, ...]
) -> None:
    shutil.copytree(directories["closed"] / "densely-indexed-0", tmp_path / "densely-indexed-0")
    damaged = next(file for file in _files(tmp_path, suffix) if file.stat().st_size)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)
    with pytest.raises(AssertionError):
        _dump((damaged,), *options)
