"""The order in which files of tests are handed to the processes that run them, which is half of how long a run takes.

Files that start clients, brokers and Spark take minutes, the rest seconds: whoever gets a long one last keeps all others
waiting. So those come first, and files that keep the processors busy take turns with files that mostly wait. Within this
the order stays random. Processes take files in this order with `--no-loadscope-reorder`.
"""

from __future__ import annotations

import os
from itertools import chain, zip_longest
from pathlib import Path

import pytest

_BUSY = frozenset({"applications", "docs", "pipelines", "spark"})
_WAITING = frozenset({"broker", "cli", "compat", "examples"})
_HERE = Path(__file__).parent

# A JVM of a test ends before its second compiler has paid for itself: with the first alone, and the plain collector, Spark takes half
# of the processor's time. Spark's launcher takes these from here, also in the processes that tests start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    busy: dict[Path, list[pytest.Item]] = {}
    waiting: dict[Path, list[pytest.Item]] = {}
    quick: dict[Path, list[pytest.Item]] = {}
    for item in items:
        place = item.path.relative_to(_HERE) if item.path.is_relative_to(_HERE) else item.path
        files = busy if place.parts[0] in _BUSY else waiting if place.parent.as_posix() in _WAITING else quick
        files.setdefault(item.path, []).append(item)
    taking_turns = chain.from_iterable(zip_longest(busy.values(), waiting.values(), fillvalue=()))
    items[:] = [item for file in (*taking_turns, *quick.values()) for item in file]
