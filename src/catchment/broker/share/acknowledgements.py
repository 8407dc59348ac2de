"""The acknowledgements of ShareFetch and ShareAcknowledge requests: validated, applied, and awaited together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from catchment.broker.share.in_flight import Acknowledgement, AcknowledgeType
from catchment.broker.share.manager import SharePartitionManager
from catchment.broker.share.sessions import SessionKey, TopicPartition
from catchment.protocol.errors import ApiError

MAX_MEMBER_ID_LENGTH: Final = 36
_LARGEST_TYPE: Final = max(AcknowledgeType)

Outcome = ApiError | None
"""The error of a rejected acknowledgement, or None."""


class AcknowledgementBatch(Protocol):
    """The acknowledgement batch of ShareFetch and of ShareAcknowledge."""

    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def acknowledge_types(self) -> Sequence[int]: ...


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """The key of the session. As in Kafka, the group need not have such a member."""
    if not group_id:
        raise ApiError(ErrorCode.invalid_request, "The group id is missing.")
    if not member_id or len(member_id) > MAX_MEMBER_ID_LENGTH:
        raise ApiError(
            ErrorCode.invalid_request, f"The member id is missing or longer than {MAX_MEMBER_ID_LENGTH} characters."
        )
    return SessionKey(group_id, member_id)


async def acknowledge_all(
    shares: SharePartitionManager,
    key: SessionKey,
    batches: Mapping[TopicPartition, Sequence[AcknowledgementBatch]],
    *,
    has_renewals: bool,
) -> dict[TopicPartition, Outcome]:
    """The outcome for each partition. The acknowledgements of one partition are accepted all or not at all."""
    if not batches:
        return {}
    acknowledged = asyncio.gather(
        *[_acknowledge(shares, key, partition, given, has_renewals) for partition, given in batches.items()]
    )
    # They take effect even if the member disconnects before the response.
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
    """ApiError for acknowledgements that are invalid in any state."""
    previous_offset = 0
    for first_offset, last_offset, types in acknowledgements:
        if first_offset > last_offset or first_offset < previous_offset:
            raise ApiError(ErrorCode.invalid_request, "The batches of an acknowledgement are not in order.")
        if not types or (len(types) > 1 and len(types) != last_offset - first_offset + 1):
            raise ApiError(ErrorCode.invalid_request, "An acknowledgement needs one type, or one for each offset.")
        if any(not 0 <= kind <= _LARGEST_TYPE for kind in types):
            raise ApiError(ErrorCode.invalid_request, f"Invalid acknowledge type: {list(types)}")
        if AcknowledgeType.RENEW in types and not has_renewals:
            raise ApiError(ErrorCode.invalid_request, "The request contains RENEW, but does not set is_renew_ack.")
        previous_offset = last_offset
