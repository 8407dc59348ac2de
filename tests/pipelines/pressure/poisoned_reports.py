"""A topic of reports of which one in a hundred is broken, the pipeline that reads it, and what has to become of each of them."""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

import pyarrow
from tests.pipelines.city import City, at
from tests.pipelines.pressure.poison import ANCIENT, BROKEN, LARGE, ODD, REPAIRED, SCHEMA, Kind, Made, Report

from catchment.client.cluster import Cluster
from catchment.client.columns.schema import HEADER_TYPE
from catchment.client.producer import Producer
from catchment.pipelines import Pipeline, check, lake, store, topic

_PARTITIONS: Final = 2
_IN_A_HUNDRED: Final = 100
_OF_EACH: Final = 2
_A_SECOND: Final = 1000
_CHUNK: Final = 20_000
_TOPIC_LIMIT_BYTES: Final = 1_048_588
_SCHEMA: Final = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("headers", pyarrow.list_(HEADER_TYPE)),
        ("timestamp", pyarrow.timestamp("us", "UTC")),
        ("partition", pyarrow.int32()),
    ]
)


class Sent(NamedTuple):
    """A record that must be quarantined, and its position."""

    number: int
    name: str
    reason: str
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes | None]

    @property
    def facts(self) -> dict[str, bytes]:
        """What the pipeline knows of it, but for the topic."""
        moment_ms = int(at(self.number / _A_SECOND).timestamp() * 1000)
        place = {"partition": self.number % _PARTITIONS, "offset": self.number // _PARTITIONS, "timestamp": moment_ms}
        return {name: str(fact).encode() for name, fact in place.items()}


class PoisonedReports:
    """All that was sent to the topic of a city: partition and offset of each follow from its number."""

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._random = Random(seed)
        names = [*list(BROKEN) * (count // _IN_A_HUNDRED // len(BROKEN) + 1)][: count // _IN_A_HUNDRED]
        special = [*names, *[*LARGE, *ODD, "ancient"] * _OF_EACH]
        self._special = dict(zip(self._random.sample(range(count), len(special)), special, strict=True))
        self.right: list[str] = []
        self.late: list[str] = []
        self.broken: dict[tuple[int, int], Sent] = {}

    @property
    def repaired(self) -> list[str]:
        """The ids of those that have a repair."""
        return [str(one.number) for one in self.broken.values() if one.name in REPAIRED]

    def send(self, city: City) -> None:
        with Cluster(city.servers) as cluster, Producer(cluster, max_record_bytes=_TOPIC_LIMIT_BYTES) as producer:
            for first in range(0, self._count, _CHUNK):
                rows = [self._row(number) for number in range(first, min(first + _CHUNK, self._count))]
                producer.write(city.reports, pyarrow.Table.from_pylist(rows, _SCHEMA))

    def _row(self, number: int) -> dict[str, Any]:
        report = Report(str(number), at(number / _A_SECOND), self._random)
        key = None if number % 10 == 0 else report.id.encode()
        headers: dict[str, bytes | None] = {"origin": report.id.encode(), "empty": b"", "null": None}
        if number % 7 == 0:
            # One of those that we add ourselves; the record's own does not come back.
            headers["catchment.error"] = b"\xff"
        value, kind = self._value(report, self._special.get(number, ""))
        if kind is not None:
            sent = Sent(number, self._special[number], kind.reason, key, value, headers)
            self.broken[number % _PARTITIONS, number // _PARTITIONS] = sent
        return {
            "key": key,
            "value": value,
            "headers": [{"key": name, "value": one} for name, one in headers.items()],
            "timestamp": report.at,
            "partition": number % _PARTITIONS,
        }

    def _value(self, report: Report, name: str) -> tuple[bytes | None, Kind | None]:
        kind = BROKEN.get(name) or LARGE.get(name)
        if kind is not None:
            return kind.make(report), kind
        (self.late if name == "ancient" else self.right).append(report.id)
        make: Made = ANCIENT if name == "ancient" else ODD.get(name, Report.value)
        return make(report), None


def poisoned_pipeline(city: City) -> Pipeline:
    """Late is nothing that was sent in the course of the story: what is repaired comes back in time."""
    made = Pipeline(city.name, parallelism=_PARTITIONS)
    reports = made.source(
        topic(city.reports, format="json", schema=SCHEMA, on_error="quarantine"),
        name="reports",
        event_time="at",
        lateness="2 hours",
    )
    clean = made.stage(
        "clean",
        reports,
        dedupe="id",
        checks=[check("kind IN ('fire', 'flood')", stop_above=0.05), check("district IS NOT NULL")],
        to=topic(f"{city.name}.clean", key="district"),
    )
    made.sink(clean, store(f"sqlite:///{city.folder}/city.db", table="reports"), name="store")
    made.sink(clean, lake(f"{city.folder}/lake"), name="lake")
    return made
