"""A member of a share group on the wire: it fetches, acknowledges, and keeps count of its session's epoch."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.initialize_share_group_state.v0.request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from kio.schema.read_share_group_state_summary.v1 import request as summary
from kio.schema.share_acknowledge.v2 import request as share_acknowledge
from kio.schema.share_fetch.v2 import request as share_fetch
from kio.schema.types import GroupId
from kio.static.primitive import i8, i32, i64
from tests.broker.handlers.log_requests import milliseconds, values_in
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
RECORD_LIMIT = 1
GROUP = "group"

Batch = tuple[int, int, Sequence[int]]
"""First offset, last offset, acknowledgement types."""

_GROUP_RESOURCE = 32
_SET = 0


class Fetched(NamedTuple):
    error: ErrorCode
    partitions: dict[int, Any]
    lock_timeout_ms: int

    def values(self, number: int = 0) -> list[bytes | None]:
        return values_in(self.partitions[number].records or b"") if number in self.partitions else []

    def acquired(self, number: int = 0) -> list[tuple[int, int, int]]:
        found = self.partitions[number].acquired_records if number in self.partitions else ()
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in found]


class Member:
    def __init__(
        self, wire: Wire, topic: UUID, name: str = "member", *, partitions: Sequence[int] = (0,), version: int = 2
    ) -> None:
        self.wire = wire
        self.topic = topic
        self.name = name
        self.epoch = 0
        self.version = version
        self._partitions = partitions

    def fetch(self, **fields: Any) -> Fetched:
        """Fetch what there is at once, or wait with `max_wait_ms`; `acknowledge` maps partitions to batches."""
        self.wire.send(self.fetch_request(**fields), self.version)
        return self.receive()

    def receive(self) -> Fetched:
        answer = self.wire.receive()
        found = {each.partition_index: each for topic in answer.responses for each in topic.partitions}
        return Fetched(answer.error_code, found, round(answer.acquisition_lock_timeout.total_seconds() * 1000))

    def fetch_request(
        self,
        *,
        epoch: int | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        max_records: int = 500,
        batch_size: int = 500,
        mode: int = 0,
        is_renewal: bool = False,
        acknowledge: dict[int, Sequence[Batch]] | None = None,
        forgotten: Sequence[int] = (),
    ) -> share_fetch.ShareFetchRequest:
        epoch = self._next_epoch(epoch)
        acknowledged = acknowledge or {}
        numbers = dict.fromkeys([*(self._partitions if epoch == 0 else ()), *acknowledged])
        partitions = tuple(
            share_fetch.FetchPartition(
                partition_index=i32(number),
                acknowledgement_batches=tuple(
                    share_fetch.AcknowledgementBatch(
                        first_offset=i64(first), last_offset=i64(last), acknowledge_types=tuple(map(i8, types))
                    )
                    for first, last, types in acknowledged.get(number, ())
                ),
            )
            for number in numbers
        )
        gone = share_fetch.ForgottenTopic(topic_id=self.topic, partitions=tuple(map(i32, forgotten)))
        return share_fetch.ShareFetchRequest(
            group_id=GroupId(GROUP),
            member_id=self.name,
            share_session_epoch=i32(epoch),
            max_wait=milliseconds(max_wait_ms),
            min_bytes=i32(min_bytes),
            max_bytes=i32(max_bytes),
            max_records=i32(max_records),
            batch_size=i32(batch_size),
            share_acquire_mode=i8(mode),
            is_renew_ack=is_renewal,
            topics=(share_fetch.FetchTopic(topic_id=self.topic, partitions=partitions),) if partitions else (),
            forgotten_topics_data=(gone,) if forgotten else (),
        )

    def acknowledge(
        self, *batches: Batch, number: int = 0, epoch: int | None = None, is_renewal: bool = False
    ) -> tuple[ErrorCode, ErrorCode | None]:
        """The errors of the answer and of the one partition, if it says anything of it."""
        partition = share_acknowledge.AcknowledgePartition(
            partition_index=i32(number),
            acknowledgement_batches=tuple(
                share_acknowledge.AcknowledgementBatch(
                    first_offset=i64(first), last_offset=i64(last), acknowledge_types=tuple(map(i8, types))
                )
                for first, last, types in batches
            ),
        )
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=GroupId(GROUP),
            member_id=self.name,
            share_session_epoch=i32(self._next_epoch(epoch)),
            is_renew_ack=is_renewal,
            topics=(share_acknowledge.AcknowledgeTopic(topic_id=self.topic, partitions=(partition,)),)
            if batches
            else (),
        )
        answer = self.wire.ask(request, self.version)
        errors = [each.error_code for topic in answer.responses for each in topic.partitions]
        return answer.error_code, errors[0] if errors else None

    def _next_epoch(self, epoch: int | None) -> int:
        if epoch is None:
            epoch = self.epoch
            self.epoch += 1
        return epoch


def start_state(wire: Wire, topic: UUID, *numbers: int, start_offset: int = 0) -> None:
    """Set up the state of a group's partitions, as its coordinator does."""
    partitions = tuple(
        PartitionData(partition=i32(number), state_epoch=i32(1), start_offset=i64(start_offset))
        for number in numbers or (0,)
    )
    request = InitializeShareGroupStateRequest(
        group_id=GROUP, topics=(InitializeStateData(topic_id=topic, partitions=partitions),)
    )
    for result in wire.ask(request, 0).results:
        assert [each.error_code for each in result.partitions] == [ErrorCode.none] * len(partitions)


def persisted_start(wire: Wire, topic: UUID, number: int = 0) -> tuple[int, int]:
    """Where the group begins in a partition, and how many records behind that need no further delivery."""
    partition = summary.PartitionData(partition=i32(number), leader_epoch=i32(-1))
    request = summary.ReadShareGroupStateSummaryRequest(
        group_id=GROUP, topics=(summary.ReadStateSummaryData(topic_id=topic, partitions=(partition,)),)
    )
    found = wire.ask(request, 1).results[0].partitions[0]
    assert found.error_code is ErrorCode.none
    return found.start_offset, found.delivery_complete_count


def begin(member: Member, number: int = 0) -> None:
    """Let a member fetch until it is decided where its group begins."""
    wait_until(
        lambda: (
            member.fetch(max_wait_ms=100, max_records=0).error is ErrorCode.none
            and persisted_start(member.wire, member.topic, number)[0] >= 0
        )
    )


def set_group(wire: Wire, **settings: object) -> None:
    """Change settings of the group; underscores stand for dots."""
    configs = tuple(
        AlterableConfig(name=name.replace("_", "."), config_operation=i8(_SET), value=str(value))
        for name, value in settings.items()
    )
    resource = AlterConfigsResource(resource_type=i8(_GROUP_RESOURCE), resource_name=GROUP, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    assert [each.error_code for each in wire.ask(request, 1).responses] == [ErrorCode.none]
