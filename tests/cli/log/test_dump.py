"""`catchment log dump` on files that a real broker wrote, sound and damaged."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from catchment import Broker
from catchment.cli.app import app

SEGMENT = "00000000000000000000"


def dump(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["log", "dump", *map(str, arguments)])


def dump_json(*arguments: object) -> dict[str, dict[str, Any]]:
    """What is said about each file, by the file's suffix."""
    result = dump(*arguments, "--json")
    return {Path(entry["file"]).suffix: entry for entry in map(json.loads, result.stdout.splitlines())}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with forty batches in one segment, several of them indexed."""
    directory = tmp_path_factory.mktemp("data")
    with Broker(directory) as broker:
        broker.create_topic("orders", settings={"index.interval.bytes": 2000})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 0})
        for number in range(40):
            headers: list[tuple[str, str | bytes | None]] = [("number", b"%d" % number)]
            producer.produce("orders", bytes(1000), b"key", timestamp=1_700_000_000_000 + number, headers=headers)
            assert producer.flush(30) == 0
    return directory


@pytest.fixture
def partition(pristine: Path, tmp_path: Path) -> Path:
    """A copy that may be damaged."""
    copy = tmp_path / "orders-0"
    copy.mkdir()
    for file in (pristine / "orders-0").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def test_valid_files_have_no_problems(pristine: Path) -> None:
    result = dump(pristine, "--summary")

    assert result.exit_code == 0, result.stderr
    assert "40 batches, 40 records  sound" in result.stdout
    assert "damaged" not in result.stdout


def test_batches_are_shown_with_their_headers(partition: Path) -> None:
    log = dump_json(partition)[".log"]

    assert [batch["base_offset"] for batch in log["batches"]] == list(range(40))
    assert [batch["base_sequence"] for batch in log["batches"]] == list(range(40))
    assert {batch["compression"] for batch in log["batches"]} == {"none"}
    assert log["batches"][-1]["max_timestamp"] == 1_700_000_000_039


def test_records_are_shown_on_demand(partition: Path) -> None:
    assert "contents" not in dump_json(partition)[".log"]["batches"][0]

    (record,) = dump_json(partition, "--records")[".log"]["batches"][7]["contents"]

    assert record["offset"] == 7
    assert record["timestamp"] == 1_700_000_000_007
    assert record["key"] == "key"
    assert record["headers"] == [["number", "7"]]


def test_indexes_are_shown_on_demand_and_agree_with_the_log(partition: Path) -> None:
    found = dump_json(partition, "--indexes")
    positions = {batch["position"]: batch["last_offset"] for batch in found[".log"]["batches"]}

    assert len(found[".index"]["entries"]) > 5
    assert all(positions[entry["position"]] == entry["offset"] for entry in found[".index"]["entries"])
    assert all(entry["timestamp"] == 1_700_000_000_000 + entry["offset"] for entry in found[".timeindex"]["entries"])


def test_producers_of_a_snapshot_are_shown(partition: Path) -> None:
    (producer,) = dump_json(partition)[".snapshot"]["entries"]

    assert (producer["last_sequence"], producer["last_offset"]) == (39, 39)


def test_the_table_for_people_has_a_line_a_batch(partition: Path) -> None:
    text = dump(partition / f"{SEGMENT}.log", "--records").stdout

    assert "39–39" in text
    assert "number=39" in text


@pytest.mark.parametrize("position", [100, 20_000])
def test_a_flipped_byte_is_found(partition: Path, position: int) -> None:
    log = partition / f"{SEGMENT}.log"
    data = bytearray(log.read_bytes())
    data[position] ^= 1
    log.write_bytes(data)

    result = dump(log)

    assert result.exit_code == 1
    assert "CRC mismatch" in result.stderr
    assert "damaged" in result.stdout


def test_a_torn_tail_is_found_and_the_rest_is_shown(partition: Path) -> None:
    log = partition / f"{SEGMENT}.log"
    log.write_bytes(log.read_bytes()[:-10])

    described = dump_json(log)[".log"]

    assert described["batch_count"] == 39
    assert len(described["problems"]) == 1


def test_bytes_that_are_no_batch_are_found(partition: Path) -> None:
    log = partition / f"{SEGMENT}.log"
    log.write_bytes(log.read_bytes() + bytes(500))

    assert dump(log).exit_code == 1


def test_batches_out_of_order_are_found(partition: Path) -> None:
    log = partition / f"{SEGMENT}.log"
    log.write_bytes(log.read_bytes() * 2)

    result = dump(log)

    assert result.exit_code == 1
    assert "offset 0 where 40 or more was due" in result.stderr


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_points_elsewhere_is_found(partition: Path, suffix: str) -> None:
    index = partition / f"{SEGMENT}{suffix}"
    data = bytearray(index.read_bytes())
    data[7] ^= 1
    index.write_bytes(data)

    result = dump(index)

    assert result.exit_code == 1
    assert f"{SEGMENT}{suffix}" in result.stderr


def test_a_torn_index_and_a_damaged_snapshot_are_found(partition: Path) -> None:
    index = partition / f"{SEGMENT}.index"
    index.write_bytes(index.read_bytes() + b"\0")
    (snapshot,) = partition.glob("*.snapshot")
    snapshot.write_bytes(snapshot.read_bytes()[:-1])

    problems = [problem for entry in dump_json(partition).values() for problem in entry["problems"]]

    assert len(problems) == 2


def test_a_preallocated_index_of_kafka_is_sound(partition: Path) -> None:
    for suffix in (".index", ".timeindex"):
        index = partition / f"{SEGMENT}{suffix}"
        index.write_bytes(index.read_bytes() + bytes(1200))

    assert dump(partition).exit_code == 0


def test_dumping_changes_nothing(partition: Path) -> None:
    (partition / f"{SEGMENT}.txnindex").write_bytes(bytes(40))
    before = {file.name: file.read_bytes() for file in partition.iterdir()}

    dump(partition, "--records", "--indexes")

    assert {file.name: file.read_bytes() for file in partition.iterdir()} == before


@pytest.mark.parametrize("name", ["missing", "notes.txt", "empty"])
def test_what_is_no_log_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "empty").mkdir()

    result = dump(tmp_path / name)

    assert result.exit_code == 1
    assert name in result.stderr
