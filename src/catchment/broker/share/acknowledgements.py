"""Acknowledgements as requests carry them: checked, handed to their share partitions, and waited for together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from catchment.broker.share.in_flight import Acknowledgement, AcknowledgeType
from catchment.broker.share.manager import SharePartitionManager
from catchment.broker.share.sessions import SessionKey, TopicPartition
from catchment.protocol.errors import ApiError

LONGEST_MEMBER_ID: Final = 36
_LARGEST_TYPE: Final = max(AcknowledgeType)

Outcome = ApiError | None
"""Why an acknowledgement was refused, or None if it was not."""


class AcknowledgementBatch(Protocol):
    """What ShareFetch and ShareAcknowledge both carry."""

    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def acknowledge_types(self) -> Sequence[int]: ...


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Whose session it is. As in Kafka, nobody asks whether the group has such a member."""
    if not group_id:
        raise ApiError(ErrorCode.invalid_request, "A share group needs an id.")
    if not member_id or len(member_id) > LONGEST_MEMBER_ID:
        raise ApiError(ErrorCode.invalid_request, f"A member needs an id of at most {LONGEST_MEMBER_ID} characters.")
    return SessionKey(group_id, member_id)


async def acknowledge_all(
    shares: SharePartitionManager,
    key: SessionKey,
    batches: Mapping[TopicPartition, Sequence[AcknowledgementBatch]],
    *,
    has_renewals: bool,
) -> dict[TopicPartition, Outcome]:
    """What became of each partition's acknowledgements; those of one partition are taken all or not at all."""
    if not batches:
        return {}
    acknowledged = asyncio.gather(
        *[_acknowledge(shares, key, partition, given, has_renewals) for partition, given in batches.items()]
    )
    # They count whether or not the member stays for the answer.
    outcomes = await asyncio.shield(acknowledged)
    return dict(zip(batches, outcomes, strict=True))


async def _acknowledge(
    shares: SharePartitionManager,
    key: SessionKey,
    partition: TopicPartition,
    batches: Sequence[AcknowledgementBatch],
    has_renewals: bool,
) -> Outcome:
    try:
        acknowledgements = [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches
        ]
        _check(acknowledgements, has_renewals=has_renewals)
        leader = shares.loaded(key.group_id, partition)
        if leader is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        await leader.acknowledge(key.member_id, acknowledgements)
    except ApiError as error:
        return error
    return None


def _check(acknowledgements: Sequence[Acknowledgement], *, has_renewals: bool) -> None:
    """Refuse what makes no sense whatever the state is."""
    previous_offset = 0
    for first_offset, last_offset, types in acknowledgements:
        if first_offset > last_offset or first_offset < previous_offset:
            raise ApiError(ErrorCode.invalid_request, "The batches of an acknowledgement are not in order.")
        if not types or (len(types) > 1 and len(types) != last_offset - first_offset + 1):
            raise ApiError(ErrorCode.invalid_request, "An acknowledgement needs one type, or one for each offset.")
        if any(not 0 <= kind <= _LARGEST_TYPE for kind in types):
            raise ApiError(ErrorCode.invalid_request, f"Invalid acknowledge type: {list(types)}")
        if AcknowledgeType.RENEW in types and not has_renewals:
            raise ApiError(ErrorCode.invalid_request, "The request does not say that it renews locks.")
        previous_offset = last_offset
