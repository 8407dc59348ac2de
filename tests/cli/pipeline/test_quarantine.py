"""Quarantined records are listed by reason, shown with their bytes, and replayed at most once."""

from __future__ import annotations

import itertools
import json

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.cli.conftest import Run
from tests.client.settled import read_settled

from catchment.client.arrow_api import read_arrow

_numbers = itertools.count()


@pytest.fixture
def pipeline(bootstrap_servers: str, run: Run) -> str:
    """A pipeline with three records in its quarantine: two that do not decode, one that fails a check."""
    name = f"city{next(_numbers)}"
    for topic in (f"{name}.quarantine", f"{name}.quarantine.replayed", f"{name}-reports"):
        assert run("topic", "create", topic, "--partitions", 2, "--set", "retention.ms=-1").exit_code == 0
    for offset, (value, error) in enumerate(
        [(b"{bad", "does not decode: no JSON"), (b"{worse", "does not decode: cut off"), (b"{}", "failed check: kind")]
    ):
        quarantine(bootstrap_servers, name, offset, value, error)
    return name


def quarantine(servers: str, pipeline: str, offset: int, value: bytes, error: str, stage: str = "clean") -> None:
    """Put a record into the quarantine, as a stage does."""
    facts = {"error": error, "stage": stage, "topic": f"{pipeline}-reports", "partition": "1", "offset": str(offset)}
    headers: list[tuple[str, str | bytes | None]] = [
        ("origin", b"phone"),
        *((f"catchment.{key}", fact.encode()) for key, fact in facts.items()),
    ]
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(f"{pipeline}.quarantine", value, key=b"k%d" % offset, headers=headers, partition=0)
    assert producer.flush(30) == 0


def test_records_are_counted_by_the_kind_of_their_error(run: Run, pipeline: str) -> None:
    listed = json.loads(run("quarantine", "list", "--json").stdout)
    ours = {row["error"]: row["records"] for row in listed if row["pipeline"] == pipeline}
    assert ours == {"does not decode": 2, "failed check": 1}


def test_a_record_is_shown_with_its_origin_its_bytes_and_its_own_headers(run: Run, pipeline: str) -> None:
    shown = json.loads(run("quarantine", "show", pipeline, "--error", "no JSON", "--json").stdout)
    assert shown == [
        {
            "at": "0:0",
            "from": f"{pipeline}-reports-1@0",
            "stage": "clean",
            "error": "does not decode: no JSON",
            "key": "k0",
            "value": "{bad",
            "headers": {"origin": "phone"},
        }
    ]


def test_nothing_is_sent_back_without_execute(run: Run, pipeline: str, bootstrap_servers: str) -> None:
    said = json.loads(run("quarantine", "replay", pipeline, "--json").stdout)
    assert said == {"would_be_sent": 3, "left": [], "sent_before": 0, "without_origin": []}
    assert read_arrow(f"{pipeline}-reports", bootstrap_servers).num_rows == 0


def test_a_record_goes_back_once_with_its_key_and_headers(run: Run, pipeline: str, bootstrap_servers: str) -> None:
    first = json.loads(run("quarantine", "replay", pipeline, "--at", "0:2", "--execute", "--json").stdout)
    again = json.loads(run("quarantine", "replay", pipeline, "--at", "0:2", "--execute", "--json").stdout)
    assert (first["sent"], again["sent"], again["sent_before"]) == (1, 0, 1)
    (row,) = read_settled(f"{pipeline}-reports", bootstrap_servers, ["key", "value", "headers"]).to_pylist()
    headers = {header["key"]: header["value"] for header in row["headers"]}
    assert (row["key"], row["value"]) == (b"k2", b"{}")
    assert headers == {"origin": b"phone", "catchment.replayed": b"0:2"}


def test_a_record_that_two_stages_quarantined_is_replayed_once(run: Run, pipeline: str, bootstrap_servers: str) -> None:
    quarantine(bootstrap_servers, pipeline, 0, b"{bad", "does not decode: no JSON", stage="other")
    looked = json.loads(run("quarantine", "replay", pipeline, "--json").stdout)
    said = json.loads(run("quarantine", "replay", pipeline, "--execute", "--json").stdout)
    assert (looked["would_be_sent"], said["sent"]) == (3, 3)
    values = read_settled(f"{pipeline}-reports", bootstrap_servers, ["value"]).column("value").to_pylist()
    assert sorted(values) == [b"{bad", b"{worse", b"{}"]


def test_a_replayed_record_is_not_replayed_again_after_a_later_version_quarantined_it_too(
    run: Run, pipeline: str, bootstrap_servers: str
) -> None:
    run("quarantine", "replay", pipeline, "--execute")
    quarantine(bootstrap_servers, pipeline, 1, b"{worse", "does not decode: cut off")
    quarantine(bootstrap_servers, pipeline, 7, b"{worse", "does not decode: cut off")
    said = json.loads(run("quarantine", "replay", pipeline, "--execute", "--json").stdout)
    assert said == {"sent": 1, "left": [], "sent_before": 3, "without_origin": []}


def test_records_of_other_producers_in_the_quarantine_are_skipped_and_reported(
    run: Run, pipeline: str, bootstrap_servers: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    half: list[tuple[str, str | bytes | None]] = [("catchment.topic", f"{pipeline}-reports".encode())]
    producer.produce(f"{pipeline}.quarantine", b"whose?", partition=1)
    producer.produce(f"{pipeline}.quarantine", b"from where?", headers=half, partition=1)
    assert producer.flush(30) == 0
    looked = json.loads(run("quarantine", "replay", pipeline, "--json").stdout)
    assert (looked["would_be_sent"], looked["without_origin"]) == (3, ["1:0", "1:1"])
    said = run("quarantine", "replay", pipeline, "--execute")
    assert said.exit_code == 0
    assert "2 records have no topic to go back to, and stay where they are: 1:0, 1:1" in said.stderr
    assert read_settled(f"{pipeline}-reports", bootstrap_servers, ["value"]).num_rows == 3


def test_a_record_of_which_a_note_has_the_place_in_the_quarantine_does_not_go_again(
    run: Run, pipeline: str, bootstrap_servers: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(f"{pipeline}.quarantine.replayed", b"", key=b"0:1")
    assert producer.flush(30) == 0
    said = json.loads(run("quarantine", "replay", pipeline, "--execute", "--json").stdout)
    assert (said["sent"], said["sent_before"]) == (2, 1)


def test_a_program_repairs_values_and_what_it_refuses_stays(run: Run, pipeline: str, bootstrap_servers: str) -> None:
    repair = "sed -e /worse/q1 -e s/bad/}/"
    said = json.loads(run("quarantine", "replay", pipeline, "--with", repair, "--execute", "--json").stdout)
    assert said == {"sent": 2, "left": ["0:1"], "sent_before": 0, "without_origin": []}
    values = read_settled(f"{pipeline}-reports", bootstrap_servers, ["value"]).column("value").to_pylist()
    assert sorted(values) == [b"{}", b"{}"]


def test_a_program_that_prints_nothing_has_repaired_nothing(run: Run, pipeline: str) -> None:
    said = json.loads(run("quarantine", "replay", pipeline, "--with", "true", "--execute", "--json").stdout)
    assert said == {"sent": 0, "left": ["0:0", "0:1", "0:2"], "sent_before": 0, "without_origin": []}


def test_a_large_record_goes_back_too(run: Run, pipeline: str, bootstrap_servers: str) -> None:
    large = b"x" * 1_048_000
    facts: list[tuple[str, str | bytes | None]] = [("catchment.topic", f"{pipeline}-reports".encode())]
    facts += [("catchment.error", b"large"), ("catchment.stage", b"\xff")]
    facts += [("catchment.partition", b"0"), ("catchment.offset", b"3")]
    producer = Producer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": 2_000_000})
    producer.produce(f"{pipeline}.quarantine", large, headers=facts)
    assert producer.flush(30) == 0
    said = json.loads(run("quarantine", "replay", pipeline, "--error", "large", "--execute", "--json").stdout)
    assert said["sent"] == 1
    values = read_settled(f"{pipeline}-reports", bootstrap_servers, ["value"]).column("value").to_pylist()
    assert values == [large]


def test_a_program_that_does_not_exist_is_named(run: Run, pipeline: str) -> None:
    failed = run("quarantine", "replay", pipeline, "--with", "no-such-program")
    assert failed.exit_code == 1
    assert "no-such-program" in failed.stderr


def test_a_pipeline_without_a_quarantine_is_named(run: Run) -> None:
    failed = run("quarantine", "show", "missing")
    assert failed.exit_code == 1
    assert "missing.quarantine" in failed.stderr


def test_records_that_expired_before_they_were_sent_back_are_reported(
    run: Run, pipeline: str, bootstrap_servers: str
) -> None:
    def warning(*command: str) -> str:
        done = run("quarantine", *command, pipeline)
        assert done.exit_code == 0, done.stderr
        return next((line for line in done.stderr.splitlines() if line.startswith("warning: ")), "")

    assert warning("show") == ""
    assert run("quarantine", "replay", pipeline, "--at", "0:0", "--execute").exit_code == 0
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def delete_before(offset: int) -> None:
        place = TopicPartition(f"{pipeline}.quarantine", 0, offset)
        admin.delete_records([place])[place].result(30)

    delete_before(1)
    assert warning("show") == "", "the record that is gone was sent back"
    delete_before(2)
    told = warning("show")
    assert told.startswith(
        f"warning: up to 1 records that were never sent back are gone from topic {pipeline}.quarantine"
    )
    assert f"`catchment topic alter {pipeline}.quarantine --set retention.ms=-1`" in told
    assert warning("replay") == told
    assert told in run("quarantine", "list").stderr


def test_late_records_that_have_expired_or_will_expire_are_reported(
    run: Run, pipeline: str, bootstrap_servers: str
) -> None:
    def warnings() -> list[str]:
        done = run("quarantine", "show", pipeline)
        assert done.exit_code == 0, done.stderr
        return [line for line in done.stderr.splitlines() if line.startswith("warning: ")]

    late = f"{pipeline}.late"
    assert run("topic", "create", late, "--set", "retention.ms=-1").exit_code == 0
    assert warnings() == []
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(late, b"{}", partition=0)
    assert producer.flush(30) == 0
    place = TopicPartition(late, 0, 1)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_records([place])[place].result(30)
    (told,) = warnings()
    assert told.startswith(f"warning: up to 1 late records are gone from topic {late}")
    assert run("topic", "alter", f"{pipeline}.quarantine", "--set", "retention.ms=86400000").exit_code == 0
    assert warnings() == [
        f"warning: topic {pipeline}.quarantine has retention.ms=86400000: what is older is deleted. `catchment topic alter "
        f"{pipeline}.quarantine --set retention.ms=-1` keeps it for ever",
        told,
    ]
