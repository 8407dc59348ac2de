"""The quarantine of a pipeline: records that could not be used, unchanged, and the replay of those that were repaired.

A record goes back to its own topic with its own key and headers. In the same transaction a note of where it came from, and of where it
is in the quarantine, is written to `<pipeline>.quarantine.replayed`, so that a replay that is killed and repeated sends nothing twice, and
neither does one that finds the record in the quarantine again: several stages may have quarantined it, or a later version of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow

from catchment.client.arrow_api import scan_arrow
from catchment.client.cluster import Cluster
from catchment.client.columns.schema import HEADER_TYPE
from catchment.client.offsets import EARLIEST
from catchment.client.producer import Producer
from catchment.pipelines.naming import LATE_SUFFIX, QUARANTINE_SUFFIX, REPLAYED_SUFFIX

_OURS: Final = "catchment."
_COLUMNS: Final = ("key", "value", "headers", "partition", "offset", "timestamp")
_AT_ONCE: Final = 1000
_AT_ONCE_BYTES: Final = 16 * 1024 * 1024
"""No more records and bytes than these are in one transaction of a replay, unless a single record is larger."""
_LARGEST_RECORD_BYTES: Final = 1 << 30
"""The topic that a record came from has let it in before."""

Repair = Callable[["Quarantined"], bytes | None]
"""The repaired value of a record; None to leave it where it is."""


@dataclass(frozen=True)
class Quarantined:
    """One quarantined record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    """The headers that the record had."""
    facts: Mapping[str, str]
    """Ours: error, stage, and topic, partition, offset, timestamp, or sink."""

    @property
    def place(self) -> str:
        """Its position in the quarantine."""
        return f"{self.partition}:{self.offset}"

    @property
    def origin(self) -> str | None:
        """The position that it came from; None for a record that no pipeline quarantined, and for a row that a store could not take."""
        where = [self.facts.get(name) for name in ("topic", "partition", "offset")]
        return None if None in where else "{}-{}@{}".format(*where)

    @property
    def error(self) -> str:
        return self.facts.get("error", "unknown")


class Replayed(NamedTuple):
    """How many records were sent back now, how many before, and the positions of those without an origin to send them to."""

    sent: int
    sent_before: int
    without_origin: list[str]


def pipelines_with_quarantine(cluster: Cluster) -> list[str]:
    """The pipelines of a cluster that have a quarantine."""
    return sorted(name.removesuffix(QUARANTINE_SUFFIX) for name in cluster.topics() if name.endswith(QUARANTINE_SUFFIX))


def read_quarantine(pipeline: str, servers: str, settings: Mapping[str, str] | None = None) -> Iterator[Quarantined]:
    """All records of the quarantine, partition by partition."""
    for batch in scan_arrow(f"{pipeline}{QUARANTINE_SUFFIX}", servers, columns=_COLUMNS, settings=settings):
        yield from (_quarantined(row) for row in batch.to_pylist())


def expired(cluster: Cluster, pipeline: str, servers: str, settings: Mapping[str, str] | None = None) -> int:
    """How many records at most are gone from the quarantine, by the topic's retention or by hand, that were never sent back."""
    replayed = f"{pipeline}{REPLAYED_SUFFIX}"
    starts = _starts(cluster, f"{pipeline}{QUARANTINE_SUFFIX}")
    if not any(starts.values()) or replayed not in cluster.topics():
        return sum(starts.values())
    notes = scan_arrow(replayed, servers, columns=["value"], settings=settings)
    sent = {
        (value or b"").decode().partition(":")[::2] for batch in notes for value in batch.column("value").to_pylist()
    }
    return sum(starts.values()) - sum(int(offset) < starts.get(partition, 0) for partition, offset in sent if offset)


def expired_late(cluster: Cluster, pipeline: str) -> int:
    """How many late records at most are gone, by the topic's retention or by hand."""
    topic = f"{pipeline}{LATE_SUFFIX}"
    return sum(_starts(cluster, topic).values()) if topic in cluster.topics() else 0


def _starts(cluster: Cluster, topic: str) -> dict[str, int]:
    """The start of each partition: records before it are gone."""
    places = [(topic, partition) for partition in cluster.partitions(topic)]
    return {f"{place[1]}": one.offset for place, one in cluster.list_offsets(places, EARLIEST).items()}


def reasons(records: Iterable[Quarantined]) -> Counter[tuple[str, str]]:
    """How many records there are of each (stage, kind of error): details of single records are left out of the error."""
    return Counter((one.facts.get("stage", ""), one.error.partition(": ")[0]) for one in records)


def replayed_origins(
    cluster: Cluster, pipeline: str, servers: str, settings: Mapping[str, str] | None = None
) -> set[str]:
    """The origins of the records that were sent back already."""
    cluster.partitions(f"{pipeline}{REPLAYED_SUFFIX}", create=True)
    batches = scan_arrow(f"{pipeline}{REPLAYED_SUFFIX}", servers, columns=["key"], settings=settings)
    return {key.decode() for batch in batches for key in batch.column("key").to_pylist()}


def unsent(
    records: Iterable[Quarantined], sent_before: Collection[str], without_origin: list[str]
) -> Iterator[Quarantined]:
    """One record for each origin that no record was sent back to yet; the positions of those without an origin are added to the list."""
    known = set(sent_before)
    for one in records:
        if one.origin is None:
            without_origin.append(one.place)
        # A note may hold the position in the quarantine instead.
        elif one.origin not in known and one.place not in known:
            known.add(one.origin)
            yield one


def replay(
    cluster: Cluster,
    pipeline: str,
    servers: str,
    records: Iterable[Quarantined],
    repair: Repair,
    settings: Mapping[str, str] | None = None,
) -> Replayed:
    """Send repaired records back to the topics that they came from, except those that were sent before."""
    sent = 0
    without_origin: list[str] = []
    transactional_id = f"{pipeline}{QUARANTINE_SUFFIX}-replay"
    with Producer(cluster, transactional_id=transactional_id, max_record_bytes=_LARGEST_RECORD_BYTES) as producer:
        # Now that the id is ours, the transactions of earlier replays have ended, and all their notes can be read.
        before = replayed_origins(cluster, pipeline, servers, settings)
        for some in _in_groups(unsent(records, before, without_origin)):
            repaired = [(one, value) for one in some if (value := repair(one)) is not None]
            if repaired:
                _send(producer, pipeline, repaired)
                sent += len(repaired)
    return Replayed(sent, len(before), without_origin)


def _send(producer: Producer, pipeline: str, repaired: Sequence[tuple[Quarantined, bytes]]) -> None:
    producer.begin()
    for topic in sorted({one.facts["topic"] for one, _ in repaired}):
        ours = [(one, value) for one, value in repaired if one.facts["topic"] == topic]
        producer.write(
            topic,
            pyarrow.table(
                {
                    "key": pyarrow.array([one.key for one, _ in ours], pyarrow.binary()),
                    "value": pyarrow.array([value for _, value in ours], pyarrow.binary()),
                    "headers": pyarrow.array([_headers(one) for one, _ in ours], pyarrow.list_(HEADER_TYPE)),
                }
            ),
        )
    notes = {
        "key": pyarrow.array([str(one.origin).encode() for one, _ in repaired], pyarrow.binary()),
        "value": pyarrow.array([one.place.encode() for one, _ in repaired], pyarrow.binary()),
    }
    producer.write(f"{pipeline}{REPLAYED_SUFFIX}", pyarrow.table(notes))
    producer.commit()


def _headers(one: Quarantined) -> list[dict[str, Any]]:
    replayed = (f"{_OURS}replayed", one.place.encode())
    return [{"key": name, "value": value} for name, value in (*one.headers, replayed)]


def _quarantined(row: Mapping[str, Any]) -> Quarantined:
    headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
    return Quarantined(
        row["partition"],
        row["offset"],
        row["key"],
        row["value"],
        headers=tuple((name, value) for name, value in headers if not name.startswith(_OURS)),
        # A record may have had headers of such names before it was quarantined: ours come after them.
        facts={
            name.removeprefix(_OURS): (value or b"").decode(errors="backslashreplace")
            for name, value in headers
            if name.startswith(_OURS)
        },
    )


def _in_groups(records: Iterable[Quarantined]) -> Iterator[list[Quarantined]]:
    group: list[Quarantined] = []
    size_bytes = 0
    for one in records:
        group.append(one)
        size_bytes += len(one.value or b"")
        if len(group) == _AT_ONCE or size_bytes >= _AT_ONCE_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group
