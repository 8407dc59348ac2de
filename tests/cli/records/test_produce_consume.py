"""`catchment produce` and `catchment consume` against a real broker."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run


def read_json(run: Run, topic: str, *arguments: object) -> list[dict[str, Any]]:
    result = run("consume", topic, "--until-end", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_lines_go_in_and_come_out(run: Run, topic: str) -> None:
    sent = run("produce", topic, "--json", stdin=b"one\ntwo\r\nthree")

    assert sent.exit_code == 0
    assert json.loads(sent.stdout)["records"] == 3
    assert sorted(run("consume", topic, "-e").stdout.splitlines()) == ["one", "three", "two"]


def test_a_lone_carriage_return_at_the_end_is_data(run: Run, topic: str) -> None:
    run("produce", topic, "-p", 0, stdin=b"tail\r")

    assert read_json(run, topic)[0]["value"] == "tail\r"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives(run: Run, topic: str, codec: str) -> None:
    line = b"x" * 1000
    assert run("produce", topic, "-z", codec, stdin=(line + b"\n") * 10).exit_code == 0

    assert run("consume", topic, "-e", "--format", "%S ").stdout == "1000 " * 10


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acknowledgement_works(run: Run, topic: str, acks: str) -> None:
    assert run("produce", topic, "--acks", acks, stdin=b"a\n").exit_code == 0

    assert run("consume", topic, "-n", 1).stdout == "a\n"


def test_keys_nulls_and_headers(run: Run, topic: str) -> None:
    run(
        "produce",
        topic,
        "-K",
        ":",
        "--null-marker",
        "NULL",
        "-H",
        "source=cli",
        "-p",
        2,
        stdin=b"k:v:w\nplain\nk:NULL\n",
    )

    records = read_json(run, topic)

    assert [(record["key"], record["value"]) for record in records] == [("k", "v:w"), (None, "plain"), ("k", None)]
    assert all(record["headers"] == [["source", "cli"]] for record in records)


def test_a_key_goes_to_the_partition_that_java_chooses(run: Run, topic: str) -> None:
    run("produce", topic, "-K", ":", stdin=b"21:a\n21:b\n")

    # Java's murmur2 of "21" is -973932308, and its absolute value by three leaves 2: the client's own test vector.
    assert {record["partition"] for record in read_json(run, topic)} == {(-973932308 & 0x7FFFFFFF) % 3}


def test_a_whole_file_is_one_record(run: Run, topic: str, tmp_path: Path) -> None:
    binary = bytes(range(256)) * 10
    (tmp_path / "picture").write_bytes(binary)

    assert run("produce", topic, tmp_path / "picture", "--input", "file", "-p", 0).exit_code == 0

    assert run("consume", topic, "-e", "--format", "%s").stdout_bytes == binary


def test_records_survive_the_trip_through_json(run: Run, topic: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\xff\x00\xfe")
    run("produce", topic, tmp_path / "data", "-i", "file", "-p", 1, "-H", "h=1")
    run("produce", topic, "-K", "=", "-p", 0, stdin="ключ=значение\n".encode())
    lines = run("consume", topic, "-e", "--json").stdout_bytes
    run("topic", "create", f"{topic}-copy", "-p", 3)

    assert run("produce", f"{topic}-copy", "--input", "json", stdin=lines).exit_code == 0

    def essence(name: str) -> list[tuple[Any, ...]]:
        fields = ("partition", "timestamp", "key", "value", "headers")
        return sorted((str([record[field] for field in fields]),) for record in read_json(run, name))

    assert essence(f"{topic}-copy") == essence(topic)


def test_a_line_that_is_no_record_is_named_by_its_number(run: Run, topic: str) -> None:
    result = run("produce", topic, "-i", "json", stdin=b'{"value": "fine"}\n{"value": 7}\n')

    assert result.exit_code == 1
    assert "-:2: value must be a string" in result.stderr


def test_the_rate_is_kept(run: Run, topic: str) -> None:
    started_at = time.monotonic()
    run("produce", topic, "--rate", 20, stdin=b"a\n" * 9)

    assert time.monotonic() - started_at >= 8 / 20


def test_a_file_that_does_not_exist_is_named(run: Run, topic: str) -> None:
    result = run("produce", topic, "/no/such/file")

    assert result.exit_code == 1
    assert "cannot read /no/such/file" in result.stderr


def test_sending_to_a_topic_that_does_not_exist_fails_soon(run: Run) -> None:
    result = run("produce", "nowhere", "--timeout", 3, stdin=b"a\n")

    assert result.exit_code == 1
    assert "topic nowhere does not exist, and the broker creates no topic by itself" in result.stderr
    assert "catchment topic create nowhere" in result.stderr


def test_a_record_above_the_topics_limit_is_refused_by_the_broker(run: Run, topic: str) -> None:
    run("topic", "alter", topic, "--set", "max.message.bytes=1000")

    result = run("produce", topic, stdin=b"x" * 5000)

    assert result.exit_code == 1
    assert "max.message.bytes" in result.stderr


@pytest.mark.parametrize(
    ("position", "expected"),
    [("beginning", "0123456789"), ("end", ""), ("7", "789"), ("-2", "89"), ("@0", "0123456789"), ("1h", "0123456789")],
)
def test_reading_starts_where_asked(run: Run, topic: str, position: str, expected: str) -> None:
    run("produce", topic, "-p", 0, stdin=b"\n".join(b"%d" % number for number in range(10)))

    assert run("consume", topic, "-p", 0, "-e", "--from", position, "--format", "%s").stdout == expected


def test_reading_starts_at_a_time(run: Run, topic: str) -> None:
    lines = [
        json.dumps({"value": str(year), "timestamp": (year - 1970) * 31_557_600_000}) for year in (2001, 2011, 2021)
    ]
    run("topic", "alter", topic, "--set", "message.timestamp.before.max.ms=9223372036854775807")
    run("produce", topic, "-p", 0, "-i", "json", stdin="\n".join(lines).encode())

    assert run("consume", topic, "-p", 0, "-e", "-f", "2005-06-07T08:09:10Z", "--format", "%s ").stdout == "2011 2021 "
    assert run("consume", topic, "-p", 0, "-e", "-f", "2030-01-01").stdout == ""


def test_an_offset_beyond_the_log_is_an_error(run: Run, topic: str) -> None:
    result = run("consume", topic, "-p", 0, "--from", 99)

    assert result.exit_code == 1
    assert f"topic {topic} partition 0" in result.stderr


def test_reading_stops_after_as_many_as_asked(run: Run, topic: str) -> None:
    run("produce", topic, stdin=b"a\n" * 50)

    assert run("consume", topic, "-n", 7).stdout == "a\n" * 7


def test_reading_stops_when_nothing_comes(run: Run, topic: str) -> None:
    assert run("consume", topic, "--idle-timeout", 0.3).exit_code == 0


def test_a_partition_that_does_not_exist_is_named(run: Run, topic: str) -> None:
    result = run("consume", topic, "-p", 3)

    assert result.exit_code == 1
    assert f"topic {topic} has no partition 3" in result.stderr


def test_a_position_or_format_that_means_nothing_is_a_usage_error(run: Run, topic: str) -> None:
    assert run("consume", topic, "--from", "yesterdayish").exit_code == 2
    assert run("consume", topic, "--format", "%y").exit_code == 2


def test_an_unknown_client_setting_is_named(run: Run, topic: str) -> None:
    result = run("consume", topic, "-X", "no.such.setting=1")

    assert result.exit_code == 2
    assert "no.such.setting" in result.stderr


@pytest.mark.parametrize(
    ("command", "stdin"),
    [
        (["consume", "{topic}", "--from", "9" * 30], b""),
        (["consume", "{topic}", "--from", "@" + "9" * 30], b""),
        (["produce", "{topic}", "--partition", "9" * 30], b"x\n"),
        (["topic", "create", "vast", "--partitions", "9" * 30], b""),
    ],
)
def test_a_number_beyond_all_bounds_is_a_usage_error(run: Run, topic: str, command: list[str], stdin: bytes) -> None:
    assert run(*(argument.format(topic=topic) for argument in command), stdin=stdin).exit_code == 2


@pytest.mark.parametrize("field", ["partition", "timestamp"])
@pytest.mark.parametrize("value", [10**30, -1, "1", True, 1.5])
def test_a_number_in_json_that_no_record_can_have_is_rejected(run: Run, topic: str, field: str, value: object) -> None:
    result = run("produce", topic, "-i", "json", stdin=json.dumps({"value": "x", field: value}).encode())

    assert result.exit_code == 1
    assert f"-:1: {field} must be a whole number" in result.stderr
