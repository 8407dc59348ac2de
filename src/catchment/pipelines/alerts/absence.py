"""Keys for which no rows come any more: a timer for each key that was ever seen, reset by every row.

Behaviour
    The row of a silent key holds the key, `last_seen` (its newest event time) and `absent_ms`. It takes the same path
    as any other candidate, with `last_seen` for its event time: one alert for each silence. Timers use
    Spark's own time of the batch, which the checkpoint keeps, so a repeated batch gives the same result.
    A key has state only while its timer runs: the state is bounded by the keys seen within the last `absent_for`.
    A timer that is long overdue means that the query was not running. Its key gets one more `absent_for`, because its rows
    may be waiting in the log.
    Timers need the state store of `execution.session`.
Gaps
    A key that was never seen is not missed. Timers are checked once a batch: give the query a trigger of a second or so,
    or Spark runs empty batches without a pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BooleanType, LongType, StructField, StructType
from typing_extensions import override

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

LAST_SEEN: Final = "last_seen"
ABSENT_MS: Final = "absent_ms"
_OVERDUE_MS: Final = 60_000
_SEEN_US: Final = "seen_us"
_STATE: Final = StructType(
    [
        StructField(_SEEN_US, LongType()),
        StructField("timer_ms", LongType()),
        StructField("is_extended", BooleanType()),
    ]
)


def absent_rows(rows: DataFrame, key: Sequence[str], event_time: str, absent_for_ms: int) -> DataFrame:
    """A row for each key once it has had no rows for `absent_for_ms`."""
    # Times pass through Python as numbers: time zones would only get in the way.
    heard = rows.select(*key, F.unix_micros(F.col(event_time).cast("timestamp")).alias(_SEEN_US))
    fields = [heard.schema[name] for name in key]
    output = StructType([*fields, StructField(_SEEN_US, LongType()), StructField(ABSENT_MS, LongType())])
    watch = SilenceWatch(output.fieldNames(), absent_for_ms)
    silent = heard.groupBy(*key).transformWithState(watch, output, "Append", "ProcessingTime")
    return silent.select(*key, F.timestamp_micros(F.col(_SEEN_US)).alias(LAST_SEEN), ABSENT_MS)


class SilenceWatch(StatefulProcessor):
    """One timer a key."""

    def __init__(self, columns: Sequence[str], absent_for_ms: int) -> None:
        """`columns` are those of the row of a silent key."""
        self._columns = tuple(columns)
        self._absent_for_ms = absent_for_ms

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._heard = handle.getValueState("heard", _STATE)

    @override
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        times_us = [row[_SEEN_US] for row in rows]
        if (known := self._heard.get()) is not None:
            known_us, timer_ms, _ = known
            self._handle.deleteTimer(timer_ms)
            times_us.append(known_us)
        seen_us = max((time_us for time_us in times_us if time_us is not None), default=None)
        self._set(seen_us, timerValues.getCurrentProcessingTimeInMs(), is_extended=False)
        return iter(())

    @override
    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        known = self._heard.get()
        assert known is not None, "state and timer are set together"
        seen_us, timer_ms, is_extended = known
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        if now_ms - timer_ms > _OVERDUE_MS and not is_extended:
            self._set(seen_us, now_ms, is_extended=True)
            return
        self._heard.clear()
        yield Row(*self._columns)(*key, seen_us, now_ms - timer_ms + self._absent_for_ms)

    def _set(self, seen_us: int | None, now_ms: int, *, is_extended: bool) -> None:
        timer_ms = now_ms + self._absent_for_ms
        self._heard.update((seen_us, timer_ms, is_extended))
        self._handle.registerTimer(timer_ms)
