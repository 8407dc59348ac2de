"""What members and administrators of consumer groups (KIP-848) ask of this broker's group coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from catchment.broker.coordinators.shards import Shards, answer_now
from catchment.cluster.metadata import MetadataImage
from catchment.settings.broker import BrokerSettings
from catchment.settings.groups import GroupSettings

if TYPE_CHECKING:
    from catchment.coordination.groups.consumer.commands import ConsumerGroupLimits, HeartbeatAnswer, HeartbeatRequest
    from catchment.coordination.groups.shard import DescribedConsumerGroup, GroupShard
    from catchment.coordination.timers import Moment


class ConsumerGroupCoordinator:
    def __init__(self, shards: Shards[GroupShard]) -> None:
        self._shards = shards

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        def command(shard: GroupShard, now: Moment, reply: Callable[[HeartbeatAnswer], None]) -> None:
            shard.consumer.heartbeats.heartbeat(request, reply, now)

        runner = self._shards.runner_of(request.group_id)
        answer = await self._shards.ask(request.group_id, command)
        # It may rest on what an earlier request has written, which must not be lost either.
        await runner.settled()
        return answer

    async def describe(self, group_id: str) -> DescribedConsumerGroup:
        runner = self._shards.runner_of(group_id)
        described = answer_now(runner, lambda shard, _: shard.consumer.describe(group_id))
        await runner.settled()
        return described


def consumer_group_limits(settings: BrokerSettings, image: Callable[[], MetadataImage]) -> ConsumerGroupLimits:
    from catchment.coordination.groups.consumer.commands import ConsumerGroupLimits, GroupTiming, MigrationPolicy

    def timing_of(group_id: str) -> GroupTiming:
        group = GroupSettings(settings, image().group_settings.get(group_id, {}))
        return GroupTiming(
            group.integer("consumer.session.timeout.ms"), group.integer("consumer.heartbeat.interval.ms")
        )

    assignors = settings["group.consumer.assignors"]
    return ConsumerGroupLimits(
        timing_of,
        settings.integer("group.consumer.max.size"),
        assignors if isinstance(assignors, tuple) else (),
        MigrationPolicy((settings.text("group.consumer.migration.policy") or "").lower()),
    )
