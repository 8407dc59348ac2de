"""Finds anomalies of a transactional log, with the names that Jepsen uses.

The only input is the history: the checker derives from all sends and reads which value is at which offset, and compares every
transaction with that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.checkers.history import Outcome, Partition, Poll, Seek, Send, Transaction, Value


class Anomaly(NamedTuple):
    name: str
    detail: str


class _Log:
    """The log, as derived from the history: the value at each offset, and its writer."""

    def __init__(self, history: Sequence[Transaction]) -> None:
        self.values: defaultdict[Partition, defaultdict[int, set[Value]]] = defaultdict(lambda: defaultdict(set))
        self.offsets: defaultdict[Value, set[tuple[Partition, int]]] = defaultdict(set)
        self.polled: defaultdict[Partition, dict[int, Value]] = defaultdict(dict)
        self.writers: dict[Value, Transaction] = {}
        for transaction in history:
            for event in transaction.events:
                if isinstance(event, Send):
                    self.writers[event.value] = transaction
                    if event.offset is not None and transaction.outcome is not Outcome.ABORTED:
                        self._place(event.partition, event.offset, event.value)
                elif isinstance(event, Poll):
                    for offset, value in event.records:
                        self._place(event.partition, offset, value)
                        self.polled[event.partition][offset] = value
        self._in_order = {partition: sorted(offsets) for partition, offsets in self.polled.items()}

    def _place(self, partition: Partition, offset: int, value: Value) -> None:
        self.values[partition][offset].add(value)
        self.offsets[value].add((partition, offset))

    def visible_between(self, partition: Partition, after: int, before: int) -> list[int]:
        """Offsets strictly between two others that any process has read."""
        offsets = self._in_order[partition]
        return offsets[bisect_right(offsets, after) : bisect_left(offsets, before)]


def check(history: Sequence[Transaction]) -> list[Anomaly]:
    """Every anomaly in the history. At its end all of the log should have been read; values that were not are reported as unseen."""
    log = _Log(history)
    return [
        *_inconsistent_offsets(log),
        *_duplicates(log),
        *_reads_of_what_was_not_committed(history, log),
        *_lost_or_unseen(history, log),
        *_orders_within_processes(history, log),
        *_orders_within_transactions(history, log),
        *_cycles(history, log),
    ]


def _inconsistent_offsets(log: _Log) -> Iterator[Anomaly]:
    for partition, offsets in log.values.items():
        for offset, values in offsets.items():
            if len(values) > 1:
                yield Anomaly("inconsistent offsets", f"{partition}@{offset} holds {sorted(map(str, values))}")


def _duplicates(log: _Log) -> Iterator[Anomaly]:
    for value, places in log.offsets.items():
        if len(places) > 1:
            yield Anomaly("duplicate", f"{value} lies at {sorted(map(str, places))}")


def _reads_of_what_was_not_committed(history: Sequence[Transaction], log: _Log) -> Iterator[Anomaly]:
    for reader in history:
        for poll in (event for event in reader.events if isinstance(event, Poll)):
            for offset, value in poll.records:
                writer = log.writers.get(value)
                if writer is None or writer is reader:
                    continue
                if writer.outcome is Outcome.ABORTED:
                    yield Anomaly("aborted read (G1a)", f"{reader.process} read {value} at {poll.partition}@{offset}")
                elif writer.commit_begun is None or reader.ended < writer.commit_begun:
                    yield Anomaly("precommitted read", f"{reader.process} read {value} before its commit was asked for")


def _lost_or_unseen(history: Sequence[Transaction], log: _Log) -> Iterator[Anomaly]:
    seen = {value for values in log.polled.values() for value in values.values()}
    # A transaction with an unknown outcome has committed if any of it was read: then all of it must be there.
    for transaction in history:
        sends = [event for event in transaction.events if isinstance(event, Send)]
        has_happened = transaction.outcome is Outcome.COMMITTED or (
            transaction.outcome is Outcome.UNKNOWN and any(send.value in seen for send in sends)
        )
        for send in sends if has_happened else ():
            if send.value in seen:
                continue
            last_read = max(log.polled[send.partition], default=-1)
            if send.offset is not None and send.offset < last_read:
                yield Anomaly("lost write", f"{send.value} at {send.partition}@{send.offset}, read up to {last_read}")
            else:
                yield Anomaly("unseen", f"{send.value}, sent to {send.partition}, was never read")


def _orders_within_processes(history: Sequence[Transaction], log: _Log) -> Iterator[Anomaly]:
    """From one transaction of a process to its next, offsets increase without gaps."""
    last_sent: dict[tuple[object, Partition], int] = {}
    last_polled: dict[tuple[object, Partition], int] = {}
    for transaction in sorted(history, key=lambda one: one.begun):
        for event in transaction.events:
            key = (transaction.process, event.partition)
            if isinstance(event, Seek):
                last_polled.pop(key, None)
            elif isinstance(event, Poll) and event.records:
                first = event.records[0][0]
                before = last_polled.get(key)
                if before is not None and first <= before:
                    yield Anomaly("non-monotonic poll", f"{transaction.process}: {event.partition} {before} → {first}")
                elif before is not None and (skipped := log.visible_between(event.partition, before, first)):
                    yield Anomaly(
                        "poll skip", f"{transaction.process}: {event.partition} {before} → {first}, {skipped}"
                    )
                last_polled[key] = event.records[-1][0]
            elif isinstance(event, Send) and event.offset is not None and transaction.outcome is not Outcome.ABORTED:
                before = last_sent.get(key)
                if before is not None and event.offset <= before:
                    yield Anomaly(
                        "non-monotonic send", f"{transaction.process}: {event.partition} {before} → {event.offset}"
                    )
                last_sent[key] = event.offset


def _orders_within_transactions(history: Sequence[Transaction], log: _Log) -> Iterator[Anomaly]:
    """The same within one transaction. Writes of others between its sends are allowed: Kafka does not isolate writers."""
    for transaction in history:
        polled: dict[Partition, int] = {}
        sent: dict[Partition, int] = {}
        for event in transaction.events:
            if isinstance(event, Seek):
                polled.pop(event.partition, None)
            elif isinstance(event, Poll):
                for offset, _ in event.records:
                    before = polled.get(event.partition)
                    if before is not None and offset <= before:
                        yield Anomaly("internal non-monotonic poll", f"{event.partition} {before} → {offset}")
                    elif before is not None and (skipped := log.visible_between(event.partition, before, offset)):
                        yield Anomaly("internal poll skip", f"{event.partition} {before} → {offset}, {skipped}")
                    polled[event.partition] = offset
            elif event.offset is not None and transaction.outcome is not Outcome.ABORTED:
                before = sent.get(event.partition)
                if before is not None and event.offset <= before:
                    yield Anomaly("internal non-monotonic send", f"{event.partition} {before} → {event.offset}")
                sent[event.partition] = event.offset


def _cycles(history: Sequence[Transaction], log: _Log) -> Iterator[Anomaly]:
    """G1c: a cycle of transactions, each of which depends on a write of the next."""
    edges: defaultdict[int, set[int]] = defaultdict(set)
    by_identity = {id(transaction): transaction for transaction in history}
    for reader in history:
        for event in reader.events:
            if isinstance(event, Poll):
                for _, value in event.records:
                    writer = log.writers.get(value)
                    if writer is not None and writer is not reader:
                        edges[id(writer)].add(id(reader))
    # Writes of two transactions may interleave, so their order in the log is no dependency: Kafka does not isolate writes.
    for start in by_identity:
        if _reaches(edges, start):
            yield Anomaly("cycle (G1c)", f"{by_identity[start].process} reads what rests on its own writes")


def _reaches(edges: defaultdict[int, set[int]], start: int) -> bool:
    stack, met = list(edges.get(start, ())), set[int]()
    while stack:
        node = stack.pop()
        if node == start:
            return True
        if node not in met:
            met.add(node)
            stack.extend(edges.get(node, ()))
    return False
