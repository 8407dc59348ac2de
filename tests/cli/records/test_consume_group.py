"""`catchment consume` as a member of a group: what it prints, what it commits, and how it goes."""

import signal
import subprocess

import pytest
from confluent_kafka import Producer
from tests.cli.broker.test_broker import STOP_S
from tests.cli.conftest import Run, Start
from tests.cli.group.group_members import member_of, new_group
from tests.cli.group.test_group import json_of
from tests.waiting import wait_until

from catchment import Broker

KINDS = ["classic", "consumer", "share"]
# A member that was killed does not say so: its group waits for it until then.
_SOON_FORGOTTEN = {
    "group.min.session.timeout.ms": 1000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": 1000,
    "group.share.min.session.timeout.ms": 1000,
    "group.share.session.timeout.ms": 1000,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
}


def as_member(kind: str, group: str) -> list[str]:
    return ["--share-group", group] if kind == "share" else ["--group", group, "--group-protocol", kind]


def make_group(run: Run, kind: str, topic: str) -> str:
    """A group that starts at the beginning, which is a setting of a share group."""
    group = new_group()
    if kind == "share":
        assert run("group", "reset", group, "--share", "-t", topic, "--to-earliest", "--execute").exit_code == 0
    return group


def total_lag(run: Run, group: str) -> int:
    return sum(row["lag"] for row in json_of(run, "group", "lag", group))


def rest(run: Run, topic: str, kind: str, group: str) -> list[str]:
    """What the group has not done yet."""
    end = ["--idle-timeout", "2"] if kind == "share" else ["--until-end"]
    result = run("consume", topic, *as_member(kind, group), *end)
    assert result.exit_code == 0, result.stderr
    return sorted(result.stdout.splitlines(), key=int)


def first_line(child: subprocess.Popen[bytes]) -> bytes:
    assert child.stdout is not None
    return child.stdout.readline()


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_continues_at_its_position(run: Run, topic: str, kind: str) -> None:
    group = make_group(run, kind, topic)
    run("produce", topic, "-p", 0, stdin=b"1\n2\n3\n4\n5\n")
    assert run("consume", topic, *as_member(kind, group), "-n", 2).stdout == "1\n2\n"
    run("produce", topic, "-p", 0, stdin=b"6\n")
    assert rest(run, topic, kind, group) == ["3", "4", "5", "6"]
    assert total_lag(run, group) == 0


def test_a_group_without_a_position_starts_where_the_option_says(run: Run, topic: str) -> None:
    run("produce", topic, stdin=b"1\n2\n")
    assert run("consume", topic, "-g", new_group(), "-e", "--from", "end").stdout == ""
    assert len(run("consume", topic, "-g", new_group(), "-e").stdout.splitlines()) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_a_commit_of_all_printed_records(
    start: Start, run: Run, topic: str, bootstrap_servers: str, kind: str, number: signal.Signals
) -> None:
    group = make_group(run, kind, topic)
    run("produce", topic, "-p", 0, stdin=b"1\n2\n3\n")
    child = start("consume", topic, *as_member(kind, group), "--commit-interval", 600, "-b", bootstrap_servers)
    first_line(child)
    child.send_signal(number)
    _, errors = child.communicate(timeout=STOP_S)
    assert (child.returncode, errors) == (0, b"")
    assert total_lag(run, group) == 0
    assert json_of(run, "group", "describe", group)[0]["members"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_when_the_reader_closes_the_pipe(
    start: Start, run: Run, topic: str, bootstrap_servers: str, kind: str
) -> None:
    group = make_group(run, kind, topic)
    count = 100_000
    run("produce", topic, "-p", 0, stdin=b"".join(b"%d\n" % number for number in range(count)))
    child = start("consume", topic, *as_member(kind, group), "--commit-interval", 0, "-b", bootstrap_servers)
    assert child.stdout is not None
    seen = [int(child.stdout.readline()) for _ in range(2000)]
    child.stdout.close()
    assert child.wait(STOP_S) == 1
    assert child.stderr is not None
    assert child.stderr.read() == b""
    left = [int(line) for line in rest(run, topic, kind, group)]
    # Records in the pipe count as printed, though they were not read: 64 KiB of short lines at most.
    assert left == list(range(left[0], count))
    assert seen[-1] < left[0] + 1000 < seen[-1] + 20_000


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_lost_when_it_is_killed(start: Start, kind: str) -> None:
    with Broker(settings=_SOON_FORGOTTEN) as broker:
        broker.create_topic("t", 2)
        options = ["-b", broker.bootstrap_servers]
        if kind == "share":
            moved = start("group", "reset", "g", "--share", "-t", "t", "--to-earliest", "--execute", *options)
            assert moved.wait(STOP_S) == 0
        count = 20_000
        start("produce", "t", *options).communicate(b"".join(b"%d\n" % one for one in range(count)), timeout=STOP_S)
        options += as_member(kind, "g")
        if kind == "classic":
            options += ["-X", "session.timeout.ms=1000", "-X", "heartbeat.interval.ms=200"]
        first = start("consume", "t", *options, "--commit-interval", 0)
        assert first.stdout is not None
        taken = [first.stdout.readline() for _ in range(1500)]
        first.kill()
        # A line that was cut off is not one that was printed.
        lines = [line for line in [*taken, *first.stdout.read().splitlines(keepends=True)] if line.endswith(b"\n")]
        second = start("consume", "t", *options, "--idle-timeout", 6)
        more, errors = second.communicate(timeout=2 * STOP_S)
        assert second.returncode == 0, errors
        assert {int(line) for line in [*lines, *more.splitlines()]} == set(range(count))


def test_a_silent_topic_does_not_keep_the_position_from_being_committed(
    start: Start, run: Run, topic: str, bootstrap_servers: str
) -> None:
    group = new_group()
    run("produce", topic, "-p", 0, stdin=b"1\n")
    child = start("consume", topic, "--group", group, "--commit-interval", 0.2, "-b", bootstrap_servers)
    first_line(child)
    wait_until(lambda: [row["position"] for row in json_of(run, "group", "lag", group)] == [1], "nothing is committed")
    assert child.poll() is None


def test_a_revoked_partition_continues_at_the_committed_position(
    start: Start, run: Run, topic: str, bootstrap_servers: str
) -> None:
    group = new_group()
    run("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(300)))
    child = start("consume", topic, "--group", group, "--commit-interval", 600, "-b", bootstrap_servers)
    assert child.stdout is not None
    seen = [child.stdout.readline() for _ in range(300)]
    with member_of(group, topic, bootstrap_servers) as other:
        assert other.poll(1.0) is None
    child.terminate()
    assert child.stdout.read() == b""
    assert sorted(int(line) for line in seen) == list(range(300))


def test_two_members_of_a_share_group_share_the_work(
    run: Run, topic: str, start: Start, bootstrap_servers: str
) -> None:
    group = make_group(run, "share", topic)
    options = ["--share-group", group, "-b", bootstrap_servers, "--idle-timeout", 6]
    children = [start("consume", topic, *options) for _ in range(2)]
    wait_until(lambda: len(json_of(run, "group", "describe", group)[0]["members"]) == 2, "they are not two members")
    for number in range(20):
        run("produce", topic, "-p", 0, stdin=b"%d\n" % number)
    shares = [child.communicate(timeout=STOP_S)[0].split() for child in children]
    assert sorted(int(line) for share in shares for line in share) == list(range(20))
    assert total_lag(run, group) == 0


def test_only_committed_records_are_printed_by_default(run: Run, topic: str, bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(STOP_S)
    for text, is_commit in [(b"kept", True), (b"undone", False)]:
        producer.begin_transaction()
        producer.produce(topic, text, partition=0)
        # What has not been sent when a transaction is aborted never is.
        assert producer.flush(STOP_S) == 0
        producer.commit_transaction(STOP_S) if is_commit else producer.abort_transaction(STOP_S)
    assert run("consume", topic, "-e").stdout == "kept\n"
    assert run("consume", topic, "-e", "-g", new_group(), "--isolation", "committed").stdout == "kept\n"
    assert sorted(run("consume", topic, "-e", "--isolation", "uncommitted").stdout.split()) == ["kept", "undone"]


@pytest.mark.parametrize("kind", ["--group", "--share-group"])
def test_a_topic_or_a_broker_that_does_not_exist_is_named(run: Run, topic: str, kind: str) -> None:
    nowhere = run("consume", "nowhere", kind, "g")
    assert (nowhere.exit_code, "topic nowhere does not exist" in nowhere.stderr) == (1, True)
    gone = run("consume", topic, kind, "g", "-b", "127.0.0.1:1")
    assert (gone.exit_code, "cannot reach 127.0.0.1:1" in gone.stderr) == (1, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_that_goes_away_ends_it_with_its_address(start: Start, kind: str) -> None:
    with Broker() as broker:
        broker.create_topic("lost")
        address = broker.bootstrap_servers
        if kind == "share":
            moved = start("group", "reset", "g", "--share", "-t", "lost", "--to-earliest", "--execute", "-b", address)
            assert moved.wait(STOP_S) == 0
        start("produce", "lost", "-b", address).communicate(b"last words\n", timeout=STOP_S)
        child = start("consume", "lost", *as_member(kind, "g"), "-b", address, "--timeout", 1)
        assert first_line(child) == b"last words\n"
    _, errors = child.communicate(timeout=STOP_S)
    assert child.returncode == 1
    assert f"cannot reach {address}" in errors.decode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group", "g", "--share-group", "h"], "give one of the two"),
        (["--group", ""], "the name of a group is not empty"),
        (["--group", "g", "-p", "1"], "a group assigns the partitions"),
        (["--group", "g", "--from", "7"], "`catchment group reset` moves it"),
        (["--share-group", "g", "--until-end"], "use --idle-timeout"),
        (["--share-group", "g", "--from", "end"], "share.auto.offset.reset=earliest"),
        (["--share-group", "g", "--isolation", "committed"], "share.isolation.level=read_committed"),
        (["--share-group", "g", "--group-protocol", "classic"], "a share group has a protocol of its own"),
    ],
)
def test_options_that_contradict_a_group_are_rejected(run: Run, topic: str, options: list[str], message: str) -> None:
    result = run("consume", topic, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())
