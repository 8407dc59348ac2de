"""The workloads of a run: one factor at a time around the plain form, or every combination."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fnmatch import fnmatch

from catchment.bench.target import DEFAULTS, UNFLUSHED, FlushPolicy
from catchment.bench.workloads.groups import Groups
from catchment.bench.workloads.java_tools import JavaTools
from catchment.bench.workloads.requests import Latency, SingleRecords
from catchment.bench.workloads.small_batches import SmallBatches
from catchment.bench.workloads.startup import Startup
from catchment.bench.workloads.throughput import Throughput
from catchment.bench.workloads.workload import Workload

_RECORDS = {100: 2_000_000, 1_000: 500_000, 64_000: 10_000}
_QUICK_DIVISOR = 8
# A disk that is flushed for every batch is some ten times slower, so the volume is reduced to keep the time.
_FLUSHED_DIVISOR = 5

SMALL_BATCHES_BESIDE_UNSYNCED_BAR = 1.5
"""How much waiting for the disk may cost compared with a server that does not wait."""


def workloads(policy: FlushPolicy, *, quick: bool = False, full: bool = False) -> list[Workload]:
    """The workloads under a policy. Flushing changes only what is written with acks=all, so only that is repeated."""
    divisor = (_QUICK_DIVISOR if quick else 1) * (1 if policy is UNFLUSHED else _FLUSHED_DIVISOR)
    records = {size: count // divisor for size, count in _RECORDS.items()}
    if policy is DEFAULTS:
        return [SmallBatches(500_000 // (_QUICK_DIVISOR if quick else 1), SMALL_BATCHES_BESIDE_UNSYNCED_BAR)]
    found: list[Workload] = []
    if policy is UNFLUSHED:
        found.append(Startup())
        found.append(Groups(1_000 if quick else 10_000))
        found.extend(_every_combination(records) if full else _one_factor_at_a_time(records, quick=quick))
    else:
        found.extend(Throughput(size, records[size], reads_back=False) for size in records)
    found.append(SmallBatches(500_000 // divisor, 1.0))
    found.append(SingleRecords(pipelined_records=40_000 // divisor, sequential_records=8_000 // divisor))
    # Kafka flushes some 700 times a second here; a higher rate would measure a queue.
    rate = 1_000 if policy is UNFLUSHED else 200
    found.append(Latency(records=rate * (2 if quick else 10), rate=rate))
    if policy is UNFLUSHED and not quick:
        found.extend(JavaTools(size, records[size] // 2) for size in records)
    return found


def warm_up() -> list[Workload]:
    """Loads that do not count: enough requests of each kind for a just-in-time compiler."""
    return [Throughput(1_000, 200_000), Throughput(100, 200_000, partitions=4), SingleRecords(20_000, 4_000)]


def _one_factor_at_a_time(records: dict[int, int], *, quick: bool) -> list[Throughput]:
    plain = [Throughput(size, records[size], watches_costs=size == 1_000) for size in records]
    if quick:
        return plain
    return [
        *plain,
        *(Throughput(size, records[size], acks="1", reads_back=False) for size in records),
        *(Throughput(size, records[size], partitions=16) for size in records),
        *(Throughput(1_000, records[1_000], codec=codec) for codec in ("lz4", "zstd")),
    ]


def _every_combination(records: dict[int, int]) -> list[Throughput]:
    return [
        Throughput(
            size,
            records[size],
            acks=acks,
            partitions=partitions,
            codec=codec,
            # What is read back does not depend on how its writing was acknowledged.
            reads_back=acks == "all",
            watches_costs=(size, acks, partitions, codec) == (1_000, "all", 1, "none"),
        )
        for size, acks, partitions, codec in itertools.product(records, ("all", "1"), (1, 16), ("none", "lz4", "zstd"))
    ]


def selected(found: Sequence[Workload], patterns: Sequence[str]) -> list[Workload]:
    """Those whose name matches a pattern, or all without a pattern."""
    return [workload for workload in found if is_wanted(workload.name, patterns)]


def is_wanted(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches a pattern (a prefix or a shell pattern); without patterns, every name does."""
    return not patterns or any(fnmatch(name, f"{pattern}*") for pattern in patterns)
