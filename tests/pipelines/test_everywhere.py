"""One pipeline file on a local master, on a cluster that loses a worker, and against Apache Kafka: the same result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from tests.client.logs import KafkaLogs
from tests.pipelines.city import City
from tests.pipelines.everywhere.commanded_run import commanded_run
from tests.pipelines.everywhere.pipeline_file import MODULES, NAME, write_pipeline
from tests.pipelines.everywhere.story import Story, outcome, write_story
from tests.seeds import seed_from
from tests.spark.standalone import SHORT_LIVED, SparkServer, start_master, start_worker

from catchment import Broker
from catchment.pipelines.declaration.loading import pipeline_in, run_file
from catchment.pipelines.execution.session import carry_modules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Three queries share a core, and then half of it; a worker has no more memory than it needs.
CLUSTER_SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


@pytest.fixture
def story() -> Story:
    return write_story(seed_from("CATCHMENT_PIPELINE_SEED"))


@pytest.fixture
def own_modules() -> Iterator[None]:
    """What the pipeline's files have put among the modules of this process is gone afterwards."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("own_modules")
@pytest.mark.parametrize("kind", ["catchment", "kafka"])
def test_the_file_gives_the_known_result_on_either_broker(
    kind: str, spark: SparkSession, story: Story, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with ExitStack() as servers:
        if kind == "kafka":
            logs: KafkaLogs = request.getfixturevalue("kafka_logs")
            address = logs.bootstrap_servers
        else:
            address = servers.enter_context(Broker()).bootstrap_servers
        city = City(spark, address, tmp_path, NAME)
        file = write_pipeline(tmp_path)
        pipeline = pipeline_in(run_file(file), file)
        carry_modules(tmp_path)
        for chapter in story.chapters:
            for district, crew in chapter.crews.items():
                city.send_crew(district, crew)
            for seconds, events in chapter.slices:
                city.send(events, seconds)
            city.drain(pipeline)
        assert outcome(city) == story.expected(), f"CATCHMENT_PIPELINE_SEED={story.seed}"


@pytest.mark.timeout(1500)
def test_the_file_gives_the_known_result_on_a_cluster_that_loses_a_worker(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    slices = story.chapters[0].slices
    with ExitStack() as servers:
        broker = servers.enter_context(Broker())
        master, address = start_master(tmp_path)
        servers.enter_context(master)
        workers = [servers.enter_context(start_worker(tmp_path, f"worker-{number}", address)) for number in (1, 2)]
        city = City(spark, broker.bootstrap_servers, tmp_path, NAME)
        run = servers.enter_context(commanded_run(write_pipeline(tmp_path), city, address, CLUSTER_SETTINGS))

        def disturb(number: int) -> None:
            if number == len(slices) // 2:
                run.wait_for("a batch is under way", lambda: run.is_in_a_batch)
                _kill(workers[0], tmp_path / "worker-1")

        run.tell(story, disturb)
        assert run.settled(story.expected()) == story.expected(), f"CATCHMENT_PIPELINE_SEED={story.seed}"
        status = run.status()
        assert (status["driver_starts"], status["faults"]) == (1, [])
        assert run.stop() == 0
        assert outcome(city) == story.expected(), f"CATCHMENT_PIPELINE_SEED={story.seed}"


def _kill(worker: SparkServer, folder: Path) -> None:
    assert list(folder.glob("app-*/*")), "the worker has nothing to do"
    worker.kill()
