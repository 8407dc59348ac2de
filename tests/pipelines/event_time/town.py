"""A town where calls and visits come in, and a pipeline that is asked questions of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.pipelines.city import City, at
from tests.pipelines.event_time.questions import Question
from tests.pipelines.event_time.stories import SECOND_US, Event
from typing_extensions import override

from catchment.pipelines import Pipeline, store, topic
from catchment.pipelines.declaration.parts import Node
from catchment.pipelines.stores.store_opening import open_store

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from catchment.pipelines.execution.run import Run

SCHEMA: Final = "serial int, id string, district string, moment timestamp"
STREAMS: Final = {"calls": 3, "visits": 2}
"""Each with how many partitions it has."""
_TIMEOUT_S: Final = 150.0
_AT_ONCE: Final = 2
"""Each query starts processes, and Spark does not wait for them long on a machine that is busy."""


class Town(City):
    """Two streams and a table, with what was sent to them."""

    def __init__(self, spark: SparkSession, servers: str, folder: Any) -> None:
        super().__init__(spark, servers, folder)
        self.sent: dict[str, list[Event]] = {name: [] for name in STREAMS}
        self._events = Producer({"bootstrap.servers": servers, "log_level": 0})
        for name, partitions in STREAMS.items():
            # Its records are of a time long past.
            self.make_topic(self.topic(name), partitions, {"retention.ms": "-1"})

    def make_topic(self, name: str, partitions: int, config: dict[str, str]) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        [made] = admin.create_topics([NewTopic(name, partitions, config=config)]).values()
        made.result(_TIMEOUT_S)

    def topic(self, stream: str) -> str:
        return f"{self.name}-{stream}"

    def tell(self, stream: str, events: Iterable[Event]) -> None:
        """Send events, each with its own time as that of its record."""
        for event in events:
            moment_ms = int(at(event.sent_us / SECOND_US).timestamp() * 1000)
            self._events.produce(self.topic(stream), event.value(), partition=event.partition, timestamp=moment_ms)
            self.sent[stream].append(event)
        assert self._events.flush(_TIMEOUT_S) == 0

    def asking(self, questions: Sequence[Question], lateness: Mapping[str, str]) -> Pipeline:
        """A pipeline that keeps the answer to each question in a table; streams that none is about are left out."""
        made = Pipeline(self.name, parallelism=2)
        nodes: dict[str, Node] = {}
        wanted = {name for question in questions for name in question.reads}
        for name in STREAMS:
            if name in wanted:
                source = topic(self.topic(name), schema=SCHEMA, on_error="quarantine")
                events = made.source(source, name=f"{name}_sent", event_time="moment", lateness=lateness[name])
                nodes[name] = made.stage(name, events, dedupe="id", to=topic(self.boundary(name), key="district"))
        if "crews" in wanted:
            crews = topic(self.crews, schema="district string, crew int")
            nodes["crews"] = made.table(crews, name="crews", key="district")
        for question in questions:
            nodes[question.name] = self._ask(made, question, [nodes[name] for name in question.reads])
        return made

    @override
    def drain(
        self, pipeline: Pipeline, versions: Mapping[str, int] | None = None, only: Collection[str] | None = None
    ) -> Run:
        """Process all that is there, by all queries or some; of which Spark drops no row as late."""
        from catchment.pipelines.execution.run import Run

        run = Run(self.context(pipeline, versions))
        run.build(only)
        for every in run.context.graph.order:
            level = [name for name in every if only is None or name in only]
            for first in range(0, len(level), _AT_ONCE):
                started = [run.start_query(name, available_now=True) for name in level[first : first + _AT_ONCE]]
                for query in started:
                    query.awaitTermination()
        run.context.at_end.close()
        dropped = {name: dropped_rows(query) for name, query in run.queries.items()}
        assert not any(dropped.values()), dropped
        return run

    def boundary(self, stream: str) -> str:
        """The topic of the events of a stream that count."""
        return f"{self.name}.{stream}.counted"

    def answer(self, question: Question) -> pyarrow.Table:
        with open_store(self._database, question.name, None) as database:
            return database.read()

    def counted(self, stream: str) -> list[int]:
        """The serial numbers of events that came through."""
        return [row["serial"] for row in self.values(self.boundary(stream))]

    def late(self, stream: str) -> list[int]:
        """The serial numbers of late events."""
        rows = self.rows(f"{self.name}.late")
        ours = [row for row in rows if row["headers"]["catchment.topic"] == self.topic(stream).encode()]
        return [json.loads(row["value"])["serial"] for row in ours]

    def broken(self) -> int:
        return len(self.rows(f"{self.name}.quarantine"))

    def _ask(self, made: Pipeline, question: Question, inputs: list[Node]) -> Node:
        options: dict[str, Any] = {"sql" if isinstance(question.stage, str) else "function": question.stage}
        if question.key:
            options |= {"mode": "update", "key": question.key}
        if question.event_time is not None:
            options |= {"event_time": question.event_time, "to": topic(f"{self.name}.{question.name}")}
        node = made.stage(question.name, *inputs, **options)
        made.sink(node, store(self._database, table=question.name), name=question.name)
        return node

    @property
    def _database(self) -> str:
        return f"sqlite:///{self.folder}/answers.db"


def bound_batches(
    monkeypatch: pytest.MonkeyPatch, *, source_stages: int | None = None, others: int | None = None
) -> None:
    """Have queries take no more rows than that at once, as they do when rows take them long."""
    from catchment.pipelines.execution import source_stage
    from catchment.pipelines.execution.rows import boundaries

    free = boundaries.stream_options
    for module, rows in ((source_stage, source_stages), (boundaries, others)):
        if rows is not None:
            bound = {"maxOffsetsPerTrigger": str(rows)}
            monkeypatch.setattr(module, "stream_options", lambda *given, bound=bound: free(*given) | bound)


def dropped_rows(query: StreamingQuery) -> int:
    """Rows that Spark's operators have dropped as late."""
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )
