"""A source stage without Spark: reads the events, and writes each of them where a pipeline's source stage would, in transactions."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pyarrow

from catchment.applications.running.events import ID_HEADER
from catchment.applications.running.layout import Layout
from catchment.client.cluster import Cluster
from catchment.client.columns.schema import HEADER_TYPE
from catchment.client.errors import ClientError
from catchment.client.offsets import EARLIEST, LATEST
from catchment.client.producer import Producer
from catchment.client.reader import Reader, Span

_LATENESS_S = 20.0
_AHEAD_S = 3_600.0
_KINDS = ("fire", "flood", "quake", "crash", "calm")
_HEADERS = pyarrow.list_(HEADER_TYPE)


class PlainIntake:
    """One batch at a time. A batch that fails is done again: what it had written is aborted with its transaction."""

    def __init__(self, layout: Layout, servers: str, *, loses: int | None = None) -> None:
        self._layout = layout
        self._servers = servers
        self._loses = loses
        self._stored: set[str] = set()
        self._newest_s = 0.0
        self._positions: dict[int, int] = {}

    def batch(self, most: int) -> None:
        """Process up to so many records of each partition."""
        try:
            with ExitStack() as stack:
                cluster = stack.enter_context(Cluster(self._servers, timeout_s=10))
                producer = stack.enter_context(Producer(cluster, transactional_id=f"{self._layout.name}-intake"))
                self._process(cluster, producer, most)
        except ClientError:
            # The broker was killed: what is known of this batch is forgotten, and read again from what was committed.
            self._recover()

    def _process(self, cluster: Cluster, producer: Producer, most: int) -> None:
        layout = self._layout
        partitions = [(layout.source, number) for number in cluster.partitions(layout.source)]
        starts = {partition: self._positions.get(partition[1], 0) for partition in partitions}
        ends = {partition: at.offset for partition, at in cluster.list_offsets(partitions, LATEST).items()}
        spans = [
            Span(*partition, starts[partition], min(ends[partition], starts[partition] + most))
            for partition in partitions
        ]
        positions, stored, newest_s = dict(self._positions), set(self._stored), self._newest_s
        written: dict[str, list[dict[str, Any]]] = {}
        with Reader(cluster, spans, columns=["offset", "key", "value", "headers"], timeout_s=10) as reader:
            for read in reader:
                for record in read.batch.to_pylist():
                    topic, time_s = self._fate(record, stored)
                    newest_s = max(newest_s, time_s)
                    if topic is not None:
                        written.setdefault(topic, []).append(self._outgoing(topic, read.partition, record))
                positions[read.partition] = read.next_offset
        # The last records may all be duplicates: then the offsets alone are committed.
        if positions == self._positions:
            return
        producer.begin()
        for topic, rows in written.items():
            columns = {name: [row[name] for row in rows] for name in ("key", "value")}
            headers = pyarrow.array([row["headers"] for row in rows], _HEADERS)
            producer.write(topic, pyarrow.table({**columns, "headers": headers}))
        producer.send_offsets(layout.group, {(layout.source, number): at for number, at in positions.items()})
        producer.commit()
        self._positions, self._stored, self._newest_s = positions, stored, newest_s

    def _fate(self, record: dict[str, Any], stored: set[str]) -> tuple[str | None, float]:
        """The topic where a record belongs; none if it is a duplicate. And the time of its event, if it has one."""
        layout = self._layout
        number = record["headers"][0]["value"].decode()
        if number == str(self._loses):
            return None, 0.0
        try:
            event = json.loads(record["value"])
            time_s = datetime.fromisoformat(event["at"]).timestamp()
            is_sound = event["kind"] in _KINDS and event["district"] is not None
        except (ValueError, TypeError, KeyError):
            return layout.quarantine, 0.0
        if not is_sound or (self._newest_s and time_s > self._newest_s + _AHEAD_S):
            return layout.quarantine, 0.0
        if time_s > datetime.now().astimezone().timestamp() + _AHEAD_S:
            return layout.quarantine, 0.0
        if time_s <= self._newest_s - _LATENESS_S:
            return layout.late, time_s
        if event[ID_HEADER] in stored:
            return None, time_s
        stored.add(event[ID_HEADER])
        return layout.clean, time_s

    def _outgoing(self, topic: str, partition: int, record: dict[str, Any]) -> dict[str, Any]:
        if topic == self._layout.clean:
            return {"key": record["key"], "value": record["value"], "headers": []}
        origin = {"catchment.partition": str(partition), "catchment.offset": str(record["offset"])}
        ours = [{"key": name, "value": text.encode()} for name, text in origin.items()]
        return {"key": record["key"], "value": record["value"], "headers": [*record["headers"], *ours]}

    def _recover(self) -> None:
        """Restore what was committed from the log: the response to the last commit may have been lost."""
        layout = self._layout
        try:
            # The next producer with the transactional id aborts what was left open.
            with Cluster(self._servers, timeout_s=10) as cluster:
                with Producer(cluster, transactional_id=f"{layout.name}-intake"):
                    pass
                partitions = [(layout.source, number) for number in cluster.partitions(layout.source)]
                committed = cluster.committed(layout.group, partitions)
                self._positions = {number: at.offset for (_, number), at in committed.items()}
                clean = [(layout.clean, number) for number in cluster.partitions(layout.clean)]
                starts = cluster.list_offsets(clean, EARLIEST)
                ends = cluster.list_offsets(clean, LATEST, read_committed=True)
                spans = [Span(*place, starts[place].offset, ends[place].offset) for place in clean]
                self._stored = set()
                with Reader(cluster, spans, columns=["value"], timeout_s=10) as reader:
                    for read in reader:
                        self._stored |= {json.loads(one)["id"] for one in read.batch.column("value").to_pylist()}
        except ClientError:
            return
