"""Compare the outputs with what the input and Spark's own log of its batches say they must hold."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tests.broker.ledger import content
from tests.checkers.history import Poll, Transaction
from tests.checkers.log_checker import Anomaly
from tests.spark.soak.plan import BUCKETS, SOURCE

Places = Mapping[int, tuple[int, int]]
"""Partition and offset of every input record, by its number."""


def values_by_partition(polls: Sequence[Transaction]) -> dict[int, list[str]]:
    found: defaultdict[int, list[str]] = defaultdict(list)
    for poll in polls:
        for event in poll.events:
            if isinstance(event, Poll):
                found[int(str(event.partition))] += [str(value) for _, value in event.records]
    return dict(found)


def mapped_values(places: Places) -> dict[int, list[str]]:
    """For each partition the mapped records, in the order of their sources."""
    found: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for number, (partition, offset) in places.items():
        digest = hashlib.md5(content(number), usedforsecurity=False).hexdigest()
        found[partition].append((offset, f"{partition}:{offset}:{number}:{digest}"))
    return {partition: [text for _, text in sorted(rows)] for partition, rows in found.items()}


def counted_values(places: Places, checkpoint: Path) -> Counter[str]:
    """Every count that some batch had to write: that of each bucket that the batch touched."""
    bucket_at = {place: number % BUCKETS for number, place in places.items()}
    counts: Counter[int] = Counter()
    expected: Counter[str] = Counter()
    for start, end in pairwise([{}, *batch_ends(checkpoint)]):
        touched: Counter[int] = Counter()
        for partition, stop in end.items():
            touched.update(bucket_at[partition, offset] for offset in range(start.get(partition, 0), stop))
        counts += touched
        expected.update(f"{bucket}:{counts[bucket]}" for bucket in touched)
    return expected


def batch_ends(checkpoint: Path) -> list[dict[int, int]]:
    """Where each batch of a query ends, by partition: Spark notes it before the batch begins, and never changes it."""
    names = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    assert names == list(range(len(names))), "Spark's log of its batches has gaps"
    ends = []
    for name in names:
        # The version, what else Spark wants to know, and a line for each source of the query.
        source = json.loads((checkpoint / "offsets" / str(name)).read_text().splitlines()[2])
        ends.append({int(partition): offset for partition, offset in source[SOURCE].items()})
    return ends


def reconcile(expected: Counter[str], found: Counter[str]) -> list[Anomaly]:
    """By the names that the checker of logs gives them."""
    anomalies = [Anomaly("lost write", f"{value} is not there") for value in (expected - found)]
    for value, surplus in (found - expected).items():
        if value in expected:
            anomalies.append(Anomaly("duplicate", f"{value} is there {surplus + 1} times"))
        else:
            anomalies.append(Anomaly("aborted read (G1a)", f"{value} is there, and no finished batch wrote it"))
    return anomalies


def misplaced(expected: Mapping[int, list[str]], found: Mapping[int, list[str]]) -> list[Anomaly]:
    """Where a partition holds the right values in the wrong order."""
    return [
        Anomaly("non-monotonic send", f"partition {partition} is out of order")
        for partition, values in found.items()
        if values != expected.get(partition) and Counter(values) == Counter(expected.get(partition))
    ]
