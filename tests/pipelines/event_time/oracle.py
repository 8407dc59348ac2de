"""What is true of the events that were sent: which may be called late, and the answers of a batch computation by DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any

import duckdb
import pyarrow
from tests.pipelines.city import NOON
from tests.pipelines.event_time.questions import Question
from tests.pipelines.event_time.stories import END, SECOND_US, Event

from catchment.spark.checkpoint.progress import SparkCheckpoint

_NOON_US = int(NOON.timestamp()) * SECOND_US
Crews = Mapping[str, int]


def check_each_once(events: Sequence[Event], counted: Sequence[int], late: Sequence[int]) -> None:
    """Every event that could be read counts once, or was late each time that it came."""
    assert max(Counter([*counted, *late]).values()) == 1, "an event counts twice, or is late and counts"
    known = {one.serial: one for one in events if not one.is_broken}
    assert known.keys() >= {*counted, *late}
    ids = Counter(known[serial].id for serial in counted)
    assert max(ids.values()) == 1, "one that was sent again counts again"
    is_late = {known[serial].id for serial in late}
    assert {one.id for one in known.values()} == ids.keys() | is_late, "one is nowhere"
    missing = known.keys() - {*counted, *late}
    assert all(known[serial].id in ids for serial in missing), (
        "what was left out as a duplicate has no other that counts"
    )


def check_lateness(events: Sequence[Event], late: Sequence[int], lateness_us: int, checkpoint: str, topic: str) -> None:
    """Late is what is not after the watermark, by what earlier batches have read; and nothing that would not be late if every
    event were processed as soon as it is sent."""
    expected, watermark_ms = [], 0
    newest_us = -(2**62)
    for planned_ms, batch in _batches(events, checkpoint, topic):
        watermark_ms = max(watermark_ms, (_NOON_US + newest_us) // 1000 - lateness_us // 1000)
        assert planned_ms == watermark_ms
        read = [one for one in batch if not one.is_broken]
        expected += [one.serial for one in read if _NOON_US + one.at_us <= watermark_ms * 1000]
        newest_us = max([newest_us, *(one.at_us for one in read)])
    assert sorted(late) == sorted(expected)
    for one in events:
        if one.serial in set(late):
            before = [two.at_us for two in events if (two.drain, two.sent_us) < (one.drain, one.sent_us)]
            assert one.at_us <= max(before) - lateness_us, f"{one} is within the lateness of all that came before it"


def _batches(events: Sequence[Event], checkpoint: str, topic: str) -> list[tuple[int, list[Event]]]:
    """The events of each batch of a source stage, and the watermark that Spark has planned it with."""
    partitions: dict[int, list[Event]] = {}
    for one in events:
        partitions.setdefault(one.partition, []).append(one)
    spark = SparkCheckpoint.at(checkpoint)
    newest = spark.newest_finished()
    assert newest is not None
    found, read_to = [], dict.fromkeys(partitions, 0)
    for batch_id in range(newest + 1):
        plan = spark.plan(batch_id)
        ends = {int(partition): offset for partition, offset in plan.ends[0][topic].items()}
        batch = [one for number, rows in partitions.items() for one in rows[read_to[number] : ends[number]]]
        found.append((plan.watermark_ms, batch))
        read_to = {number: ends[number] for number in partitions}
    assert read_to == {number: len(rows) for number, rows in partitions.items()}, "not all was read"
    return found


class Oracle:
    """DuckDB with the events that count."""

    def __init__(self, streams: Mapping[str, Sequence[Event]], crews: Sequence[Crews] = ()) -> None:
        """`crews` are those of each drain."""
        self._database = duckdb.connect()
        for name, events in streams.items():
            self._database.register(name, _table([one for one in events if one.district != END]))
        rows = [(drain, district, crew) for drain, named in enumerate(crews) for district, crew in named.items()]
        self._database.execute("CREATE TABLE crews (drain INT, district TEXT, crew INT)")
        if rows:
            self._database.executemany("INSERT INTO crews VALUES (?, ?, ?)", rows)

    def check(self, question: Question, answer: pyarrow.Table) -> None:
        """Both answers have the same rows, as often; columns that DuckDB is not asked for may be there too."""
        self._database.register("answer", _without_zone(answer))
        expected = question.oracle
        columns = ", ".join(f'"{name}"' for name in self._database.sql(expected).columns)
        given = f"SELECT {columns} FROM answer WHERE district <> '{END}'"
        assert self._rows(f"SELECT count(*) FROM ({expected})") != [(0,)], f"nothing is asked by {question.name}"
        missing = self._rows(f"({expected}) EXCEPT ALL ({given}) ORDER BY ALL")
        wrong = self._rows(f"({given}) EXCEPT ALL ({expected}) ORDER BY ALL")
        assert (missing, wrong) == ([], []), f"{question.name}: missing, and wrong"

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._database.sql(query).fetchall()


def _table(events: Sequence[Event]) -> pyarrow.Table:
    return pyarrow.table(
        {
            "serial": pyarrow.array([one.serial for one in events], pyarrow.int64()),
            "id": pyarrow.array([one.id for one in events], pyarrow.string()),
            "district": pyarrow.array([one.district for one in events], pyarrow.string()),
            "moment": pyarrow.array(
                [(NOON + timedelta(microseconds=one.at_us)).astimezone(UTC).replace(tzinfo=None) for one in events],
                pyarrow.timestamp("us"),
            ),
            "drain": pyarrow.array([one.drain for one in events], pyarrow.int32()),
        }
    )


def _without_zone(table: pyarrow.Table) -> pyarrow.Table:
    """Moments as DuckDB's oracle has them: in UTC, without saying so."""
    columns = [
        column.cast(pyarrow.timestamp("us")) if pyarrow.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return pyarrow.table(columns, names=table.column_names)
