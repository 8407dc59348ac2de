"""The temperature of rooms; whenever one reaches 30 degrees or falls below, its air conditioning is switched."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from typing_extensions import override

from catchment.pipelines import Pipeline, check, lake, store, topic

_HOT = 30.0
_ROOM = "room string, at timestamp, celsius double, is_hot boolean"

building = Pipeline("sensors", parallelism=2)

readings = building.source(
    topic("readings", schema="id string, room string, celsius double, at timestamp"),
    event_time="at",
    lateness="10 seconds",
    on_error="quarantine",
)
clean = building.stage(
    "clean",
    readings,
    dedupe="id",
    checks=check("celsius BETWEEN -50 AND 100", otherwise="quarantine"),
    to=topic("readings.clean", key="room", format="json"),
)


class Crossing(StatefulProcessor):
    """Keeps the last reading of a room, and emits a row when the next one is on the other side of the limit."""

    @override
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._last = handle.getValueState("last", "at timestamp, is_hot boolean")

    @override
    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        last = self._last.get() if self._last.exists() else None
        for row in sorted(rows, key=lambda one: one.at):
            is_hot = row.celsius >= _HOT
            if last is not None and row.at <= last[0]:
                continue
            if last is None or is_hot != last[1]:
                yield Row(room=key[0], at=row.at, celsius=row.celsius, is_hot=is_hot)
            last = (row.at, is_hot)
        if last is not None:
            self._last.update(last)


@building.stage(clean, mode="update", key=["room"], event_time="at")
def rooms(clean: DataFrame) -> DataFrame:
    """Rooms that have become hot, or are so no more."""
    return clean.groupBy("room").transformWithState(
        statefulProcessor=Crossing(), outputStructType=_ROOM, outputMode="Update", timeMode="None"
    )


building.sink(rooms, store("sqlite:///building.db", table="rooms"))
building.sink(clean, lake("lake/readings", partition_by="date(at)"))
to_climate = topic("climate")
building.alert(rooms, "hot", when="is_hot", key=["room"], message="{room}: {celsius:.1f} degrees", to=to_climate)
building.alert(rooms, "cool", when="NOT is_hot", key=["room"], message="{room}: {celsius:.1f} degrees", to=to_climate)

if __name__ == "__main__":
    building.main()
