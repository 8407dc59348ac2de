"""Share groups on this broker: the operations that need both the group coordinator and the share coordinator.

A partition is assigned after its share state is initialized. That takes a few milliseconds, so the heartbeat that adds a
partition waits for it and returns the partition. Kafka responds without it, and a member gets its first partitions a whole
heartbeat interval later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.runtime import CoordinatorRuntime, answer_now
from catchment.broker.coordinators.share_state import ShareStateCoordinator
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import MetadataImage
from catchment.protocol.errors import ApiError
from catchment.settings.broker import BrokerSettings
from catchment.settings.groups import GroupSettings

if TYPE_CHECKING:
    from catchment.coordination.groups.modern import GroupDescription, PartitionsByTopic
    from catchment.coordination.groups.shard import GroupShard
    from catchment.coordination.groups.share.group import ShareAssignment, ShareGroupLimits
    from catchment.coordination.groups.share.heartbeat import HeartbeatRequest, HeartbeatResponse
    from catchment.coordination.timers import Moment

_logger = logging.getLogger(__name__)

_MAX_WAIT_S: Final = 2.0
"""How long a heartbeat waits for the state of new partitions. After that, the next heartbeat returns them."""
_UNKNOWN_OFFSET: Final = -1
"""The start offset of a share partition that has not been read yet."""


class ShareGroupCoordinator:
    def __init__(
        self, shards: CoordinatorRuntime[GroupShard], share_state: ShareStateCoordinator, controller: Controller
    ) -> None:
        self._runtime = shards
        self._share_state = share_state
        self._controller = controller
        self._initializing: set[asyncio.Task[bool]] = set()

    def start(self) -> None:
        self._controller.subscribe(self._remove_deleted_topics)

    async def close(self) -> None:
        for task in self._initializing:
            task.cancel()

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        answer = await self._heartbeat(request)
        if answer.error is not ErrorCode.none or not answer.to_initialize:
            return answer
        initializing = asyncio.get_running_loop().create_task(self._initialize(request.group_id, answer))
        self._initializing.add(initializing)
        initializing.add_done_callback(self._initialized)
        await asyncio.wait({initializing}, timeout=_MAX_WAIT_S)
        if (
            not initializing.done()
            or initializing.cancelled()
            or initializing.exception() is not None
            or not initializing.result()
        ):
            return answer
        again = await self._heartbeat(request._replace(member_epoch=answer.member_epoch, rack_id=None, topics=None))
        if again.error is not ErrorCode.none:
            return answer
        return again._replace(assignment=answer.assignment if again.assignment is None else again.assignment)

    async def describe(self, group_id: str) -> GroupDescription[ShareAssignment]:
        return await self._runtime.read(group_id, lambda shard, _: shard.share_groups.describe(group_id))

    def exists(self, group_id: str) -> bool:
        """Whether this broker coordinates such a share group."""
        return answer_now(
            self._runtime.runner_of(group_id), lambda shard, _: group_id in shard.share_groups.groups.by_id
        )

    async def delete(self, group_id: str) -> ErrorCode:
        """Delete an empty group with all its state. If that fails part-way, the group stays."""
        partitions: PartitionsByTopic | ApiError = await self._runtime.ask(
            group_id, lambda shard, _, reply: shard.share_groups.initialization.begin_deleting(group_id, reply)
        )
        if isinstance(partitions, ApiError):
            return partitions.code
        error = await self._for_each(partitions, partial(self._share_state.delete, group_id))
        if error is ErrorCode.none:
            error = await self._runtime.ask(
                group_id, lambda shard, _, reply: shard.share_groups.initialization.delete_group(group_id, reply)
            )
        if error is not ErrorCode.none:
            with contextlib.suppress(ApiError):
                self._runtime.runner_of(group_id).run(
                    lambda shard, _: shard.share_groups.initialization.stop_deleting(group_id)
                )
        return error

    async def _heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        def command(shard: GroupShard, now: Moment, reply: Callable[[HeartbeatResponse], None]) -> None:
            shard.share_groups.membership.heartbeat(request, reply, now)

        answer = await self._runtime.ask(request.group_id, command)
        # A response without records of its own may depend on earlier records.
        await self._runtime.runner_of(request.group_id).wait_committed()
        return answer

    async def _initialize(self, group_id: str, answer: HeartbeatResponse) -> bool:
        """Initialize the state of new partitions, and record the result in the group; whether that succeeded."""

        async def one(topic_id: UUID, number: int) -> None:
            await self._share_state.initialize(group_id, topic_id, number, answer.state_epoch, _UNKNOWN_OFFSET)

        partitions = answer.to_initialize
        error = await self._for_each(partitions, one)
        has_failed = error is not ErrorCode.none
        if has_failed:
            _logger.warning(
                "the share state of new partitions of group %s cannot be initialized yet: %s", group_id, error.name
            )

        def record_result(shard: GroupShard, _: Moment, reply: Callable[[ErrorCode], None]) -> None:
            shard.share_groups.initialization.finish(group_id, partitions, reply, has_failed=has_failed)

        try:
            recorded = await self._runtime.ask(group_id, record_result)
        except ApiError as error:
            recorded = error.code
        return not has_failed and recorded is ErrorCode.none

    def _initialized(self, initializing: asyncio.Task[bool]) -> None:
        self._initializing.discard(initializing)
        if not initializing.cancelled() and (fault := initializing.exception()) is not None:
            _logger.error("the share state of new partitions could not be initialized", exc_info=fault)

    async def _for_each(self, partitions: PartitionsByTopic, work: Callable[[UUID, int], Awaitable[None]]) -> ErrorCode:
        """Do the work for all partitions at once, so that they share a sync; the first error code, or none."""
        outcomes = await asyncio.gather(
            *(work(topic_id, number) for topic_id, numbers in partitions.items() for number in sorted(numbers)),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, ApiError):
                return outcome.code
            if isinstance(outcome, BaseException):
                raise outcome
        return ErrorCode.none

    def _remove_deleted_topics(self, old: MetadataImage, new: MetadataImage) -> None:
        gone = frozenset(old.topics_by_id.keys() - new.topics_by_id.keys())
        for runner in self._runtime if gone else ():
            with contextlib.suppress(ApiError):
                runner.run(lambda shard, _: shard.share_groups.initialization.remove_topics(gone))


def share_group_limits(settings: BrokerSettings, controller: Controller) -> ShareGroupLimits:
    from catchment.coordination.groups.share.group import ShareGroupLimits

    def of_group(group_id: str, name: str) -> int:
        return GroupSettings(settings, controller.image.group_settings.get(group_id, {})).integer(name)

    return ShareGroupLimits(
        settings.integer("group.share.max.size"),
        settings.integer("group.share.initialize.retry.interval.ms"),
        session_timeout_ms=lambda group_id: of_group(group_id, "share.session.timeout.ms"),
        heartbeat_interval_ms=lambda group_id: of_group(group_id, "share.heartbeat.interval.ms"),
    )
