"""The order in which files of tests are handed to the processes that run them, which is half of how long a run takes.

Files that start clients, brokers and Spark take minutes, the rest seconds: a process that gets a long one last keeps all others
waiting. So those come first, and files that keep the processors busy have files that mostly wait spread evenly among them. Within this
the order stays random. Processes take files in this order with `--no-loadscope-reorder`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import settings
from tests.shared_fixtures import catchment_logs, kafka_logs, logs, peer_jars, session_config, spark, spark_with_peer

__all__ = ["catchment_logs", "kafka_logs", "logs", "peer_jars", "session_config", "spark", "spark_with_peer"]

pytest_plugins = ["tests.worker_connection"]

_BUSY = frozenset({"applications", "docs", "pipelines", "spark"})
_WAITING = frozenset({"broker", "cli", "compat", "compat/outside", "examples"})
_HERE = Path(__file__).parent
Files = dict[Path, list[pytest.Item]]

# A JVM of a test ends before its second compiler has paid for itself: with the first alone, and the plain collector, Spark takes half
# of the processor's time, and Kafka two thirds. Their launchers take these from here, also in the processes that tests start.
for _variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS"):
    os.environ.setdefault(_variable, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


# How long an example takes says more of what else the machine does than of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pipelines that run in tests are noted here, and not where those of the user are."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def _start_up_cache() -> None:
    """Spark starts from the cache of classes that `make test` has made; without one, no test leaves a run behind that makes it."""
    if find_spec("pyspark") is None:
        return
    from catchment.spark.launch.class_cache import SWITCH, cache_path
    from catchment.spark.launch.java import JavaMissing, find_java

    with suppress(JavaMissing):
        path = cache_path(find_java())
        if path is None or not path.exists():
            os.environ[SWITCH] = "off"


def pytest_xdist_auto_num_workers() -> int:
    """More processes than cores: much time goes by waiting, such as for members of groups to be given up."""
    return (os.cpu_count() or 1) * 2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    busy: Files = {}
    waiting: Files = {}
    quick: Files = {}
    for item in items:
        place = item.path.relative_to(_HERE) if item.path.is_relative_to(_HERE) else item.path
        files = busy if place.parts[0] in _BUSY else waiting if place.parent.as_posix() in _WAITING else quick
        files.setdefault(item.path, []).append(item)
    turns = sorted([*_spread(busy), *_spread(waiting)])
    heavy = busy | waiting
    items[:] = chain(*(heavy[path] for _, path in turns), *quick.values())


def _spread(files: Files) -> list[tuple[float, Path]]:
    """Each file with its place on the way from the first to the last of them."""
    return [((number + 0.5) / len(files), path) for number, path in enumerate(files)]
