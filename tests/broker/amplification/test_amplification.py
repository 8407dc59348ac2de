"""What a request may cost the broker: processor time, memory and event-loop stalls in proportion to its size.

Every part of a request of every API is made as large as its frame allows (see `frames`), and the broker's own measurements are
held against a budget. By default a sample runs: every part of each API's newest version, and the parts of the oldest in turn. It
shares its machine with other tests, so times may be a few times above their bars: work out of proportion is far beyond that. Set
CATCHMENT_AMPLIFICATION=exact to hold the sample against the bars themselves on a quiet machine, and CATCHMENT_AMPLIFICATION=all for
every version, part, kind of element and pair of parts, in frames of several sizes: that takes hours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.broker.amplification.expensive import EXPENSIVE, Expensive
from tests.broker.amplification.frames import HEADER, Case, Elements, World, frame, pairs, parts
from tests.broker.amplification.measured_broker import Cost, MeasuredBroker
from tests.broker.amplification.world import SETTINGS, make_world

from catchment.broker.handlers import CLAIMS
from catchment.protocol.apis import APIS

FORM: Final = os.environ.get("CATCHMENT_AMPLIFICATION", "")
IS_COMPLETE: Final = FORM == "all"
SLOWER: Final = 1 if FORM in ("exact", "all") else 3
"""How much longer anything may take on a machine that is shared: processor time grows too when caches are."""
KB: Final = 1024
MB: Final = 1024 * 1024
SIZES: Final = (64 * KB, 1 * MB, 16 * MB) if IS_COMPLETE else (128 * KB,)
PAIRED_BYTES: Final = 256 * KB

CPU_S_A_KB: Final = 20e-6
CPU_ALLOWANCE_S: Final = 0.05
"""For any request: a connection, an import of a version's message classes, the looks of the test itself."""
CPU_S_AN_ELEMENT: Final = 60e-6
"""Python takes 10 to 30 µs to decode an array element, look it up, and encode its part of the answer, and more on a busy machine. The guard
bounds the elements of a request (see `protocol.budget`), so this part of the allowance is fixed too."""
PEAK_BYTES_A_BYTE: Final = 4
PEAK_ALLOWANCE_BYTES: Final = 16 * MB
"""Receive buffers come in steps of 2 MB, a thread that decodes has an arena of its own, and what the guard allows to any request."""


PEAK_BYTES_AN_ELEMENT: Final = 800
"""An element, its copy in the newest class, and its part of the answer, as objects."""
STALL_S: Final = 0.05
SILENCE_S: Final = 0.3
"""A request that waits for something that will not come is not waited for."""
ATTEMPTS: Final = 5
"""The best counts: a busy machine can make any of them slower, none faster."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredBroker]:
    directory: Path = tmp_path_factory.mktemp("amplification")
    with MeasuredBroker(directory, SETTINGS) as running:
        yield running
        assert running.is_alive, running.log_tail()
        assert "Traceback" not in running.log_path.read_text(), running.log_tail()


@pytest.fixture(scope="module")
def world(broker: MeasuredBroker) -> World:
    return make_world(broker.bootstrap_servers)


def cases(key: int) -> Iterator[Case]:
    claim = CLAIMS[key]
    kinds = list(Elements)
    if not IS_COMPLETE:
        for version in {claim.oldest, claim.newest}:
            for number, part in enumerate(parts(key, version)):
                # All APIs share the header.
                if (part[0] != HEADER or key == min(CLAIMS)) and (version == claim.newest or number % 4 == key % 4):
                    yield Case(key, version, (part,), kinds[(number + key) % len(kinds)], SIZES[0])
        return
    for version in range(claim.oldest, claim.newest + 1):
        for part in parts(key, version):
            yield from (Case(key, version, (part,), kind, size) for kind in kinds for size in SIZES)
    for version in {claim.oldest, claim.newest}:
        yield from (Case(key, version, pair, Elements.REAL, PAIRED_BYTES) for pair in pairs(key, version))


def breaches(cost: Cost, size: int, elements: int) -> list[str]:
    """Which bars the cost of a request is above."""
    cpu_s = SLOWER * (CPU_ALLOWANCE_S + CPU_S_A_KB * size / KB + CPU_S_AN_ELEMENT * elements)
    stall_s = SLOWER * STALL_S
    peak_bytes = PEAK_ALLOWANCE_BYTES + PEAK_BYTES_A_BYTE * size + PEAK_BYTES_AN_ELEMENT * elements
    found = []
    if cost.cpu_s > cpu_s:
        found.append(f"{cost.cpu_s * 1000:.0f} ms of processor time, {cpu_s * 1000:.0f} allowed")
    if cost.peak_bytes > peak_bytes:
        found.append(f"{cost.peak_bytes / MB:.1f} MB of memory, {peak_bytes / MB:.1f} allowed")
    if cost.stall_s > stall_s:
        found.append(f"a stall of {cost.stall_s * 1000:.0f} ms, {stall_s * 1000:.0f} allowed")
    return found


def breaches_of(broker: MeasuredBroker, data: bytes, elements: int) -> list[str]:
    """What every attempt to send the frame breaks."""
    found: list[str] = []
    for _ in range(ATTEMPTS):
        cost = broker.cost(lambda: broker.send(data, SILENCE_S))
        found = breaches(cost, len(data), elements)
        if not found:
            break
    return found


@pytest.mark.timeout(48 * 3600 if IS_COMPLETE else 1500)
@pytest.mark.parametrize("key", CLAIMS, ids=lambda key: APIS[key].name)
def test_no_request_costs_more_than_its_size_allows(broker: MeasuredBroker, world: World, key: int) -> None:
    above = {}
    for case in cases(key):
        made = frame(case, world)
        if found := breaches_of(broker, made.data, made.elements):
            above[str(case)] = found
    assert not above


@pytest.mark.parametrize("expensive", EXPENSIVE, ids=lambda expensive: expensive.name)
def test_a_valid_request_that_asks_for_much_work_costs_no_more(
    broker: MeasuredBroker, world: World, expensive: Expensive
) -> None:
    data, elements = expensive.frame(world)
    assert broker.send(data, SILENCE_S).size > 0, "it is not valid"
    assert not breaches_of(broker, data, elements)


def test_the_bars_can_be_missed() -> None:
    """One past each bar is a breach, so that the tests above can fail."""
    cpu_s, stall_s = SLOWER * CPU_ALLOWANCE_S, SLOWER * STALL_S
    assert not breaches(Cost(cpu_s, stall_s, PEAK_ALLOWANCE_BYTES, 0), 0, 0)
    assert len(breaches(Cost(cpu_s * 1.01, 0, 0, 0), 0, 0)) == 1
    assert len(breaches(Cost(0, stall_s * 1.01, 0, 0), 0, 0)) == 1
    assert len(breaches(Cost(0, 0, PEAK_ALLOWANCE_BYTES + 1, 0), 0, 0)) == 1
