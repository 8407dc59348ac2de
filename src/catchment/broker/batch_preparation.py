"""Validate or rewrite the batches of a Produce request in a worker, where their topics require it.

In the meantime the connection serves no later request, so that none overtakes; other connections are not affected. The records
are copied, because the receive buffer is reused. Prepared batches are appended in the usual way, which checks topic, leader and
configuration again.
"""

from functools import partial

from catchment.broker.context import RequestContext
from catchment.broker.turns import Turns
from catchment.ports.workers import Pause
from catchment.protocol.errors import ApiError
from catchment.protocol.produce import PartitionData, ProduceRequest, TopicData
from catchment.storage.config import LogConfig
from catchment.storage.validation import PreparedBatch, prepare


class PreparedData(PartitionData):
    """A partition's data, prepared by a worker."""

    prepared: PreparedBatch | ApiError | None = None

    def batch(self) -> PreparedBatch | memoryview:
        """The batch to append; ApiError if it is invalid."""
        if isinstance(self.prepared, ApiError):
            raise self.prepared
        assert self.records is not None
        return self.records if self.prepared is None else self.prepared


_Job = tuple[PreparedData, LogConfig]


def needs_preparation(context: RequestContext, request: ProduceRequest) -> bool:
    """Whether validating or rewriting the batches may take too long for the event loop."""
    get = context.services.replicas.get
    for topic, partitions in request.topics:
        for number, records in partitions:
            partition = get(topic, number)
            if partition is not None and records is not None and partition.log.is_costly(records):
                return True
    return False


async def prepare_batches(context: RequestContext, request: ProduceRequest) -> ProduceRequest:
    """The request with its batches prepared. It is appended even if the client disconnects in the meantime."""
    connection = context.connection
    if connection is not None:
        connection.block()
    try:
        topics, jobs = await _copy(context, request)
        work = partial(_prepare_all, jobs, context.services.clock.now_ms())
        await context.services.workers.run(work, to_the_end=True)
    finally:
        if connection is not None:
            connection.unblock()
    return request._replace(topics=topics)


def copied_data(request: ProduceRequest, data: PartitionData) -> PartitionData:
    """The data of a partition, for use after the receive buffer is reused."""
    return data if request.is_copy or data.records is None else data._replace(records=memoryview(bytes(data.records)))


async def _copy(context: RequestContext, request: ProduceRequest) -> tuple[list[TopicData], list[_Job]]:
    topics: list[TopicData] = []
    jobs: list[_Job] = []
    turns = Turns()
    async for topic, partitions in turns(request.topics):
        row: list[PartitionData] = []
        async for data in turns(partitions):
            number, records = copied_data(request, data)
            copied = PreparedData(number, records)
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
