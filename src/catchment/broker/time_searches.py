"""Searches for a timestamp in a partition's log: batches are read and opened elsewhere, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.storage.time_search import BatchToOpen, TimeSearch, TimestampedOffset

if TYPE_CHECKING:
    from catchment.broker.services import Services


async def find_timestamp(services: Services, partition: Partition, timestamp_ms: int) -> TimestampedOffset | None:
    """The first record that is at least as late; ApiError if the log cannot be read, or has gone meanwhile."""
    while True:
        found = await _drive(services, partition, partition.log.search_timestamp(timestamp_ms))
        if found is None or found.offset >= partition.log.log_start_offset:
            return found


async def find_max_timestamp(services: Services, partition: Partition) -> TimestampedOffset | None:
    """The first record with the largest timestamp."""
    return await _drive(services, partition, partition.log.search_max_timestamp())


async def _drive(services: Services, partition: Partition, steps: TimeSearch) -> TimestampedOffset | None:
    try:
        found = await _run(services, steps)
    except ApiError:
        # A log cannot be read once its topic is deleted: that says more than an error of the disk.
        _check_presence(services, partition)
        raise
    _check_presence(services, partition)
    return found


def _check_presence(services: Services, partition: Partition) -> None:
    if services.replicas.find(partition.topic, partition.number) is not partition:
        raise ApiError(ErrorCode.not_leader_or_follower)


async def _run(services: Services, steps: TimeSearch) -> TimestampedOffset | None:
    try:
        step = next(steps)
        while True:
            if step is None:
                await asyncio.sleep(0)
                step = steps.send(None)
                continue
            try:
                answer = await _open(services, step)
            except Exception as error:
                # The search knows what it means to the client.
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        found: TimestampedOffset | None = end.value
        return found


async def _open(services: Services, batch: BatchToOpen) -> TimestampedOffset | None:
    file, position, size = batch.file, batch.position, batch.header.size
    if file.would_block(position, size):
        data = await services.disk.read_later(file, position, size)
    else:
        data = file.read(position, size)
    return await services.workers.run(partial(batch.find, data))
