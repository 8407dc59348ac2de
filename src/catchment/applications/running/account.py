"""The balance of a running application, kept up to date from its ledger, its topics and the group of its pipeline.

The order of a round matters. How far the pipeline has read is asked first, then what became of it, then the log, then the ledger;
and it is entered the other way round. So whatever is entered finds what it came from, while everything goes on changing.

What a transaction wrote shows in each partition when its mark is there, and the marks come one after the other, after the answer that
it is committed. So what the pipeline says that it has read is entered only when all that was written by then has been decided.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from catchment.applications.running.balance import Aside, Balance, Totals
from catchment.applications.running.events import ID_HEADER
from catchment.applications.running.layout import Layout
from catchment.applications.running.ledger import Ledger
from catchment.applications.running.tailing import TopicTail
from catchment.client.cluster import Cluster

_PARTITION: Final = "catchment.partition"
_OFFSET: Final = "catchment.offset"
_ROUND_TIMEOUT_S: Final = 5.0


@dataclass
class Command:
    """An alert to an actuator, and what that did."""

    name: str = ""
    message: str = ""
    acted: str | None = None
    acted_at_s: float | None = None
    alerts: int = 0
    acknowledgements: int = 0


class _Claim(NamedTuple):
    """How far the pipeline says that it has read, and where the topics that it writes ended when it had said so."""

    read_to: dict[int, int]
    written_to: dict[str, dict[int, int]]


@dataclass
class Account:
    """All that is known of what has happened to the events of an application."""

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
        """One look at everything. Raises `ClientError` where the broker is away; the next look goes on where this one ended."""
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
        # The pipeline makes most of the topics, once Spark has started.
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
        """Where the pipeline is done with each partition of the events."""
        places = [(self.layout.source, number) for number in cluster.partitions(self.layout.source)]
        return {number: at.offset for (_, number), at in cluster.committed(self.layout.group, places).items()}

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
