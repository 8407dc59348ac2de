"""The mean size of the records of a partition, measured on a few of them, to plan reads.

The records are unpacked but not decoded, because decoding would load Numba.
"""

from __future__ import annotations

from typing import Final

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError
from catchment.client.fetch.broker_fetcher import BrokerFetcher
from catchment.client.fetch.session import FetchLimits, Wanted
from catchment.client.topic_metadata import TopicPartition
from catchment.protocol.batch import HEADER_SIZE, MAGIC, CorruptBatch, read_header
from catchment.protocol.compression import decompress

_LOOK_BYTES: Final = 64 * 1024
_LOOK: Final = FetchLimits(max_bytes=_LOOK_BYTES, partition_max_bytes=_LOOK_BYTES, max_wait_ms=100)
_LARGEST_BATCH_BYTES: Final = 1 << 28


def mean_record_bytes(cluster: Cluster, topic_partition: TopicPartition, offset: int) -> float | None:
    """The mean size of a few records from an offset on; None if there are none."""
    try:
        leader = cluster.leader(*topic_partition)
        connection = cluster.connection(leader.broker_id)
        fetcher = BrokerFetcher(connection, _LOOK, read_committed=False, keeps_session=False)
        fetcher.session.want(topic_partition, Wanted(offset, leader.epoch, cluster.topic_id(topic_partition[0])))
        try:
            fetcher.send()
            # A broker returns the first batch whole, even if it is larger than requested, if there is no other partition (KIP-74).
            responses = fetcher.receive()
        except BaseException:
            connection.close()
            raise
        cluster.release(leader.broker_id, connection)
        return next((_mean_bytes(memoryview(response.records)) for _, response in responses), None)
    except (ClientError, CorruptBatch):
        # Not worth an error: the reader of these records will get one.
        return None


def _mean_bytes(records: memoryview) -> float | None:
    count = size_bytes = position = 0
    while len(records) - position >= HEADER_SIZE:
        header = read_header(records, position)
        if header.magic != MAGIC or not HEADER_SIZE <= header.size <= len(records) - position:
            break
        if not header.is_control:
            packed = records[position + HEADER_SIZE : position + header.size]
            count += header.record_count
            size_bytes += len(decompress(header.compression, packed, _LARGEST_BATCH_BYTES))
        position += header.size
    return size_bytes / count if count > 0 else None
