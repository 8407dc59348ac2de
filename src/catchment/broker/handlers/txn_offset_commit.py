"""TxnOffsetCommit (key 28): remember how far a group has come, if a transaction commits.

Behaviour
    The offsets are logged as part of the producer's transaction and count once it commits; until then OffsetFetch tells
    those who want stable offsets to wait. A member's generation is checked as by OffsetCommit, except that a producer may
    leave it out. Before the first offsets of a transaction the transaction coordinator is asked whether the group belongs
    to it, as for a Produce (KIP-890). Partitions that do not exist fail alone.
Versions
    0-5. Generation, member and instance from 3 on. TRANSACTION_ABORTABLE from 4 on, where older clients get
    INVALID_TXN_STATE. With 5 (transactions v2) the group need not have been added with AddOffsetsToTxn.
Gaps
    None.
"""

import asyncio

from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.transactions.verification import Abilities, Questions
from catchment.broker.turns import Turns
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.groups.records import OffsetToCommit
from catchment.protocol.errors import ApiError

_FIRST_WITH_ABORTABLE = 4
_FIRST_THAT_ADDS = 5
_UNKNOWN = ErrorCode.unknown_topic_or_partition
_MOST_OFFSETS = 5000
"""They are one batch and one step, so that no marker comes between. Kafka's limit is the size of that batch, about twice as many."""
_NO_SEQUENCE = 0
"""Offsets have no sequence numbers, so none can be out of order."""

Outcomes = list[ErrorCode]


@api(28, versions=(0, 5))
async def txn_offset_commit(context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    # Judged by one image: topics may come and go while the offsets are written.
    image, turns = context.image, Turns()
    offsets = [
        OffsetToCommit(
            topic.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
        )
        async for topic in turns(request.topics)
        async for partition in turns(topic.partitions)
        if image.partition(topic.name, partition.partition_index) is not None
    ]
    try:
        outcomes = await _commit(context, request, offsets) if offsets else []
    except ApiError as error:
        outcomes = [error.code] * len(offsets)
    following = iter(outcomes)
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        [
                            TxnOffsetCommitResponsePartition(
                                partition_index=partition.partition_index,
                                error_code=_UNKNOWN
                                if image.partition(topic.name, partition.partition_index) is None
                                else next(following),
                            )
                            async for partition in turns(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns(request.topics)
            ]
        ),
    )


async def _commit(context: RequestContext, request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit]) -> Outcomes:
    if not request.group_id:
        raise ApiError(ErrorCode.invalid_group_id)
    if len(offsets) > _MOST_OFFSETS:
        raise ApiError(ErrorCode.invalid_commit_offset_size)
    version = context.header.api_version
    abilities = Abilities(version >= _FIRST_WITH_ABORTABLE, version >= _FIRST_THAT_ADDS)
    questions = Questions(context.services, request.transactional_id, abilities, ApiError)
    partition = context.services.groups.partition_of(request.group_id)
    producer = Producer(request.producer_id, request.producer_epoch)
    if not questions.concerns(partition, producer):
        return await _begin(context, request, offsets, producer)
    verification = partition.verifications.of(*producer, _NO_SEQUENCE)
    begun: asyncio.Future[asyncio.Future[Outcomes]] = asyncio.get_running_loop().create_future()

    def verified(refusal: ApiError | None) -> None:
        """Write the offsets in this very step, before any marker can come between."""
        if refusal is not None:
            begun.set_exception(refusal)
            return
        try:
            begun.set_result(_begin(context, request, offsets, producer))
        except ApiError as error:
            begun.set_exception(error)
        partition.verifications.finish(verification)

    questions.add(partition, verification, _NO_SEQUENCE, verified)
    await questions.ask()
    return await (await begun)


def _begin(
    context: RequestContext, request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], producer: Producer
) -> "asyncio.Future[Outcomes]":
    return context.services.groups.begin_transactional_commit(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        offsets,
        producer,
    )
