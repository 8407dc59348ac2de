"""The balance of a running application, kept up to date from its ledger, its topics and the group of its pipeline.

The order of a round matters, because everything changes meanwhile. The offsets of the pipeline are read first, then its output,
then the log, then the ledger; and they are entered in the opposite order. So each entry finds its origin.

The records of a transaction become visible in each partition with its marker, and the markers are written one after the other, after
the response to the commit. So the offsets of the pipeline are entered only when all transactions up to then have ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow

from catchment.applications.running.balance import Aside, Balance, Totals
from catchment.applications.running.events import ID_HEADER
from catchment.applications.running.layout import Layout
from catchment.applications.running.ledger import Ledger
from catchment.client.cluster import Cluster
from catchment.client.offsets import EARLIEST, LATEST
from catchment.client.reader import Reader, Span
from catchment.client.topic_metadata import TopicPartition

_PARTITION: Final = "catchment.partition"
_OFFSET: Final = "catchment.offset"
_ROUND_TIMEOUT_S: Final = 5.0
_READ_TIMEOUT_S = 5.0


@dataclass
class Command:
    """An alert to an actuator, and the acknowledgement."""

    name: str = ""
    message: str = ""
    acted: str | None = None
    acted_at_s: float | None = None
    alerts: int = 0
    acknowledgements: int = 0


class _Claim(NamedTuple):
    """The offsets that the pipeline has committed, and the ends of its output topics after that."""

    read_to: dict[int, int]
    written_to: dict[str, dict[int, int]]


@dataclass
class Account:
    """What has become of the events of an application."""

    layout: Layout
    servers: str
    balance: Balance = field(default_factory=Balance)
    commands: dict[str, Command] = field(default_factory=dict)
    """By id, in the order in which they came."""
    foreign: int = 0
    """Records in the log that the generator did not send."""
    foreign_stored: int = 0
    """How many of those were stored."""
    lag: int = 0

    def __post_init__(self) -> None:
        layout = self.layout
        self._ledger_length = 0
        self._cluster: Cluster | None = None
        self._arrived = TopicTail(layout.source, ["offset", "headers"])
        self._late = TopicTail(layout.late, ["headers"])
        self._rejected = TopicTail(layout.quarantine, ["headers"])
        self._stored = TopicTail(layout.clean, ["value"])
        self._outcomes = (self._late, self._rejected, self._stored)
        self._claim: _Claim | None = None
        commands = (layout.commands, layout.acted) if layout.commands else ()
        self._commands = [TopicTail(topic, ["value"]) for topic in commands]

    @property
    def totals(self) -> Totals:
        return self.balance.totals

    def refresh(self) -> None:
        """Read everything once. Raises `ClientError` if the broker is down; the next call continues where this one stopped."""
        cluster = self._connected()
        try:
            self._round(cluster)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self.servers, timeout_s=_ROUND_TIMEOUT_S)
        return self._cluster

    def _round(self, cluster: Cluster) -> None:
        read_to = self._committed(cluster) if self.layout.source in cluster.topics() else {}
        # The pipeline creates most of the topics, once Spark has started.
        topics = set(cluster.topics())
        if self._claim is None:
            written = {tail.topic: tail.written_to(cluster) for tail in self._outcomes if tail.topic in topics}
            self._claim = _Claim(read_to, written)
        for tail in (*self._outcomes, *self._commands, self._arrived):
            if tail.topic in topics:
                tail.look(cluster)
        self._enter_ledger()
        self._enter_arrived()
        self._enter_aside(self._late, "late")
        self._enter_aside(self._rejected, "rejected")
        self._enter_stored()
        self._enter_commands()
        if all(tail.has_reached(self._claim.written_to.get(tail.topic, {})) for tail in self._outcomes):
            self.balance.read_to(self._claim.read_to)
            self._claim = None
        self.lag = sum(self._arrived.ends.values()) - sum(read_to.values())

    def _committed(self, cluster: Cluster) -> dict[int, int]:
        """The offset in each partition of the events up to which the pipeline is done."""
        topic_partitions = [(self.layout.source, number) for number in cluster.partitions(self.layout.source)]
        return {number: at.offset for (_, number), at in cluster.committed(self.layout.group, topic_partitions).items()}

    def _enter_ledger(self) -> None:
        with Ledger(self.layout.ledger) as ledger:
            entries = ledger.read_from(self._ledger_length)
        self.balance.add_ledger(entries)
        self._ledger_length += len(entries)

    def _enter_arrived(self) -> None:
        for partition, batch in self._arrived.take():
            headers = batch.column("headers").to_pylist()
            for offset, one in zip(batch.column("offset").to_pylist(), headers, strict=True):
                number = self._number(_texts(one).get(ID_HEADER))
                if number is None:
                    self.foreign += 1
                else:
                    self.balance.add_arrived(partition, offset, number)

    def _enter_aside(self, tail: TopicTail, where: Aside) -> None:
        for _, batch in tail.take():
            for headers in batch.column("headers").to_pylist():
                texts = _texts(headers)
                number = self._number(texts.get(ID_HEADER))
                if number is not None:
                    self.balance.add_aside(int(texts[_PARTITION]), int(texts[_OFFSET]), number, where)

    def _enter_stored(self) -> None:
        for _, batch in self._stored.take():
            for value in batch.column("value").to_pylist():
                number = self._number(json.loads(value).get(ID_HEADER))
                if number is None:
                    self.foreign_stored += 1
                else:
                    self.balance.add_stored(number)

    def _enter_commands(self) -> None:
        for is_answer, tail in enumerate(self._commands):
            for _, batch in tail.take():
                for value in map(json.loads, batch.column("value").to_pylist()):
                    command = self.commands.setdefault(str(value["id"]), Command())
                    if is_answer:
                        command.acknowledgements += 1
                        command.acted, command.acted_at_s = str(value["acted"]), float(value["at"])
                    else:
                        command.alerts += 1
                        command.name, command.message = str(value["alert"]), str(value["message"])

    def _number(self, text: str | None) -> int | None:
        """The generator's number; None for what others have sent."""
        return int(text) if text is not None and text.isdecimal() and int(text) < self._ledger_length else None


def _texts(headers: list[dict[str, Any]] | None) -> dict[str, str]:
    """Headers by name; of several, the first."""
    texts: dict[str, str] = {}
    for one in headers or ():
        if one["value"] is not None:
            texts.setdefault(one["key"], one["value"].decode(errors="replace"))
    return texts


class TopicTail:
    """One topic, read committed and from its beginning. The client may differ between reads: the broker may have been killed."""

    def __init__(self, topic: str, columns: Sequence[str]) -> None:
        self.topic = topic
        self.ends: dict[int, int] = {}
        """Up to where each partition has been read."""
        self._columns = tuple(columns)
        self._read: list[tuple[int, pyarrow.RecordBatch]] = []

    def look(self, cluster: Cluster) -> None:
        """Read to the current end. If a read fails, what it has read so far is kept for `take`, and not read again."""
        partitions: list[TopicPartition] = [(self.topic, number) for number in cluster.partitions(self.topic)]
        starts = self._starts(cluster, partitions)
        ends = {
            partition: at.offset
            for partition, at in cluster.list_offsets(partitions, LATEST, read_committed=True).items()
        }
        spans = [
            Span(*partition, starts[partition], ends[partition])
            for partition in partitions
            if starts[partition] < ends[partition]
        ]
        if spans:
            with Reader(cluster, spans, columns=self._columns, timeout_s=_READ_TIMEOUT_S) as reader:
                for read in reader:
                    self._read.append((read.partition, read.batch))
                    self.ends[read.partition] = read.next_offset
        # Transaction markers before the end are in no batch.
        self.ends |= {number: ends[topic, number] for topic, number in partitions}

    def written_to(self, cluster: Cluster) -> dict[int, int]:
        """The current end of each partition, with records of open transactions."""
        partitions: list[TopicPartition] = [(self.topic, number) for number in cluster.partitions(self.topic)]
        return {number: at.offset for (_, number), at in cluster.list_offsets(partitions, LATEST).items()}

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether all transactions up to there have ended, and their committed records have been read."""
        return all(self.ends.get(number, 0) >= end for number, end in ends.items())

    def take(self) -> list[tuple[int, pyarrow.RecordBatch]]:
        """All that was read since the last time, by partition."""
        taken, self._read = self._read, []
        return taken

    def _starts(self, cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        new = [partition for partition in partitions if partition[1] not in self.ends]
        found = cluster.list_offsets(new, EARLIEST) if new else {}
        return {
            partition: self.ends[partition[1]] if partition[1] in self.ends else found[partition].offset
            for partition in partitions
        }
