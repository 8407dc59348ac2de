"""The response to ShareFetch (key 78) on the wire, versions 1 and 2, with its records as separate pieces.

kio would copy every record into one buffer. The response is still kio's class, as for every other API.
"""

import struct
from datetime import timedelta
from uuid import UUID

from kio.schema.share_fetch.v2.response import NodeEndpoint, PartitionData, ShareFetchResponse

from catchment.protocol.wire import NO_TAGS, Piece, array_length, nullable_string, string, unsigned_varint

API_KEY = 78

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_HEAD = struct.Struct(">ih")
_PARTITION = struct.Struct(">ih")
_LEADER = struct.Struct(">iib")
_ACQUIRED = struct.Struct(">qqhb")
_NO_TOPIC = UUID(int=0)


def encode_response(response: ShareFetchResponse, throttle_time_ms: int = 0) -> list[Piece]:
    """The body as pieces: small ones joined, each partition's records without a copy."""
    pieces: list[Piece] = []
    head = bytearray(_HEAD.pack(throttle_time_ms, response.error_code.value))
    head += nullable_string(response.error_message, flexible=True)
    head += _I32.pack(_milliseconds(response.acquisition_lock_timeout))
    head += array_length(len(response.responses), flexible=True)
    for topic in response.responses:
        head += (topic.topic_id or _NO_TOPIC).bytes
        head += array_length(len(topic.partitions), flexible=True)
        for partition in topic.partitions:
            head += _partition_head(partition)
            records: Piece | None = partition.records
            head += unsigned_varint(0 if records is None else len(records) + 1)
            if records:
                pieces += (head, records)
                head = bytearray()
            head += _acquired(partition)
        head += NO_TAGS
    head += array_length(len(response.node_endpoints), flexible=True)
    for endpoint in response.node_endpoints:
        head += _endpoint(endpoint)
    head += NO_TAGS
    pieces.append(head)
    return pieces


def _partition_head(partition: PartitionData) -> bytes:
    leader = partition.current_leader
    return b"".join(
        (
            _PARTITION.pack(partition.partition_index, partition.error_code.value),
            nullable_string(partition.error_message, flexible=True),
            _I16.pack(partition.acknowledge_error_code),
            nullable_string(partition.acknowledge_error_message, flexible=True),
            _LEADER.pack(leader.leader_id, leader.leader_epoch, 0),
        )
    )


def _acquired(partition: PartitionData) -> bytes:
    acquired = partition.acquired_records
    packed = [_ACQUIRED.pack(each.first_offset, each.last_offset, each.delivery_count, 0) for each in acquired]
    return array_length(len(acquired), flexible=True) + b"".join(packed) + NO_TAGS


def _endpoint(endpoint: NodeEndpoint) -> bytes:
    return b"".join(
        (
            _I32.pack(endpoint.node_id),
            string(endpoint.host, flexible=True),
            _I32.pack(endpoint.port),
            nullable_string(endpoint.rack, flexible=True),
            NO_TAGS,
        )
    )


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
