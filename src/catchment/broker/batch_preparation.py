"""Batches of a Produce request that their topics want looked into or changed: that is done in a worker.

Meanwhile nothing else is served on the same connection, so that later requests do not overtake, while other connections go on.
The records are copied, since the receive buffer is used again. What is prepared is appended by the usual way, which looks
at topic, leader and configuration again.
"""

from functools import partial

from catchment.broker.context import RequestContext
from catchment.broker.turns import Turns
from catchment.ports.workers import Pause
from catchment.protocol.errors import ApiError
from catchment.protocol.produce import PartitionData, ProduceRequest, TopicData
from catchment.storage.config import LogConfig
from catchment.storage.validation import PreparedBatch, prepare


class OpenedData(PartitionData):
    """A partition's data that a worker has prepared."""

    prepared: PreparedBatch | ApiError | None = None

    def batch(self) -> PreparedBatch | memoryview:
        """What to append; ApiError if it may not be."""
        if isinstance(self.prepared, ApiError):
            raise self.prepared
        assert self.records is not None
        return self.records if self.prepared is None else self.prepared


_Job = tuple[OpenedData, LogConfig]


def must_open(context: RequestContext, request: ProduceRequest) -> bool:
    """Whether it may take long to make of the batches what their topics want."""
    get = context.services.replicas.get
    for topic, partitions in request.topics:
        for number, records in partitions:
            partition = get(topic, number)
            if partition is not None and records is not None and partition.log.is_costly(records):
                return True
    return False


async def open_batches(context: RequestContext, request: ProduceRequest) -> ProduceRequest:
    """The request with its batches prepared. It is appended even if the client goes meanwhile."""
    connection = context.connection
    if connection is not None:
        connection.hold_up()
    try:
        topics, jobs = await _copy(context, request)
        work = partial(_prepare_all, jobs, context.services.clock.now_ms())
        await context.services.workers.run(work, to_the_end=True)
    finally:
        if connection is not None:
            connection.go_on()
    return request._replace(topics=topics)


def owned(request: ProduceRequest, data: PartitionData) -> PartitionData:
    """The data of a partition, for use after the receive buffer is used again."""
    return data if request.is_copy or data.records is None else data._replace(records=memoryview(bytes(data.records)))


async def _copy(context: RequestContext, request: ProduceRequest) -> tuple[list[TopicData], list[_Job]]:
    topics: list[TopicData] = []
    jobs: list[_Job] = []
    turns = Turns()
    async for topic, partitions in turns(request.topics):
        row: list[PartitionData] = []
        async for data in turns(partitions):
            number, records = owned(request, data)
            copied = OpenedData(number, records)
            partition = context.services.replicas.get(topic, number)
            if partition is not None and copied.records is not None and partition.log.is_costly(copied.records):
                jobs.append((copied, partition.log.config))
            row.append(copied)
        topics.append(TopicData(topic, row))
    return topics, jobs


def _prepare_all(jobs: list[_Job], now_ms: int, pause: Pause) -> None:
    for data, config in jobs:
        assert data.records is not None
        try:
            data.prepared = prepare(data.records, config, now_ms, pause)
        except ApiError as error:
            data.prepared = error
