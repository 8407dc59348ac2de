"""TxnOffsetCommit (key 28): store a group's offsets as part of a transaction.

Behaviour
    The offsets are logged as part of the producer's transaction and take effect when it commits; until then OffsetFetch with
    `require_stable` reports UNSTABLE_OFFSET_COMMIT. The generation is checked as by OffsetCommit, except that a producer may leave
    it out. Before the first offsets of a transaction the transaction coordinator verifies that the group belongs to the
    transaction, as for a Produce (KIP-890). Partitions that do not exist fail alone.
Versions
    0-5. Generation, member and instance since 3. TRANSACTION_ABORTABLE since 4; older clients get INVALID_TXN_STATE.
    Since 5 (transactions v2) the group need not have been added with AddOffsetsToTxn.
Gaps
    None.
"""

import asyncio
from collections.abc import Iterator
from functools import partial

from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from catchment.broker.context import NO_THROTTLE, RequestContext, Services
from catchment.broker.network.routing import api
from catchment.broker.transactions.client_capabilities import ClientCapabilities
from catchment.broker.transactions.verification import VerificationRequest
from catchment.broker.turns import Turns
from catchment.cluster.metadata import MetadataImage
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.groups.offset_commands import CommitRequest
from catchment.coordination.groups.records import OffsetToCommit
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.replication.verification import Verification

_FIRST_WITH_TRANSACTION_ABORTABLE = 4
_FIRST_THAT_ADDS_PARTITIONS = 5
_MAX_OFFSETS = 5000
"""They are written as one batch in one step, so that no marker is written in between. Kafka's limit is the size of that batch,
about twice as many."""
_NO_SEQUENCE = 0
"""Offsets have no sequence numbers, so none can be out of order."""

Outcomes = list[ErrorCode]


@api(28, versions=(0, 5))
async def txn_offset_commit(context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    # Resolved against one image: topics may be created and deleted while the offsets are written.
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
    outcomes = iter(await _outcomes(context, request, offsets))
    return TxnOffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple([await _response_topic(image, topic, outcomes, turns) async for topic in turns(request.topics)]),
    )


async def _outcomes(
    context: RequestContext, request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit]
) -> Outcomes:
    if not offsets:
        return []
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        if len(offsets) > _MAX_OFFSETS:
            raise ApiError(ErrorCode.invalid_commit_offset_size)
        producer = Producer(request.producer_id, request.producer_epoch)
        commit = CommitRequest(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id, offsets, producer
        )
        return await _commit(context, request.transactional_id, commit, producer)
    except ApiError as error:
        return [error.code] * len(offsets)


async def _commit(
    context: RequestContext, transactional_id: str, commit: CommitRequest, producer: Producer
) -> Outcomes:
    """Write the offsets, after the transaction coordinator has verified the group if these are its first."""
    services, version = context.services, context.header.api_version
    capabilities = ClientCapabilities(
        version >= _FIRST_WITH_TRANSACTION_ABORTABLE, version >= _FIRST_THAT_ADDS_PARTITIONS
    )
    verifying = VerificationRequest(services, transactional_id, capabilities, ApiError)
    partition = services.groups.partition_of(commit.group_id)
    if not verifying.is_required(partition, producer):
        return await services.groups.commit(commit)
    verification = partition.verifications.of(*producer, _NO_SEQUENCE)
    started: asyncio.Future[asyncio.Future[Outcomes]] = asyncio.get_running_loop().create_future()
    verified = partial(_verified, services, commit, partition, verification, started)
    verifying.add(partition, verification, _NO_SEQUENCE, verified)
    await verifying.send()
    return await (await started)


def _verified(
    services: Services,
    commit: CommitRequest,
    partition: Partition,
    verification: Verification,
    started: "asyncio.Future[asyncio.Future[Outcomes]]",
    error: ApiError | None,
) -> None:
    """The coordinator has answered: write the offsets in the same step, so that no marker can be written in between."""
    if error is not None:
        started.set_exception(error)
        return
    try:
        started.set_result(services.groups.commit(commit))
    except ApiError as rejection:
        started.set_exception(rejection)
    partition.verifications.finish(verification)


async def _response_topic(
    image: MetadataImage, topic: TxnOffsetCommitRequestTopic, outcomes: Iterator[ErrorCode], turns: Turns
) -> TxnOffsetCommitResponseTopic:
    """Merge the errors of partitions that do not exist with the outcomes of the others, which follow in the same order."""
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=tuple(
            [
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=ErrorCode.unknown_topic_or_partition
                    if image.partition(topic.name, partition.partition_index) is None
                    else next(outcomes),
                )
                async for partition in turns(topic.partitions)
            ]
        ),
    )
