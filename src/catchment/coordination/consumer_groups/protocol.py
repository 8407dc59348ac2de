"""All that a shard knows of consumer groups, in one place: the groups, and what can be asked of them."""

from __future__ import annotations

from typing import NamedTuple

from catchment.coordination.consumer_groups.classic_members import ClassicMembers
from catchment.coordination.consumer_groups.commands import ConsumerGroupLimits
from catchment.coordination.consumer_groups.conversion import Conversion
from catchment.coordination.consumer_groups.departures import Departures
from catchment.coordination.consumer_groups.heartbeat import Heartbeats
from catchment.coordination.consumer_groups.members import CurrentAssignment, Subscription, Target
from catchment.coordination.consumer_groups.progress import Progress
from catchment.coordination.consumer_groups.store import ConsumerGroups
from catchment.coordination.join import Join
from catchment.coordination.rebalance import Rebalance
from catchment.coordination.shard_state import ShardState
from catchment.coordination.timers import Moment


class DescribedConsumer(NamedTuple):
    member_id: str
    subscription: Subscription
    current: CurrentAssignment
    target: Target


class DescribedConsumerGroup(NamedTuple):
    state_name: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]


class ConsumerProtocol:
    __slots__ = ("_progress", "classic_members", "departures", "groups", "heartbeats")

    def __init__(
        self,
        state: ShardState,
        groups: ConsumerGroups,
        rebalance: Rebalance,
        joining: Join,
        limits: ConsumerGroupLimits,
    ) -> None:
        self.groups = groups
        self._progress = progress = Progress(state, limits)
        conversion = Conversion(state, rebalance, limits)
        self.departures = Departures(state, groups, limits, progress, conversion)
        self.heartbeats = Heartbeats(state, groups, limits, progress, self.departures, conversion)
        self.classic_members = ClassicMembers(state, groups, limits, progress, self.departures, conversion, joining)

    def loaded(self, now: Moment) -> None:
        self.departures.start_all(now)

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        """The group as it stands; ApiError if there is none of this kind."""
        group = self.groups.find(group_id)
        return DescribedConsumerGroup(
            group.state_name,
            group.epoch,
            group.assignment_epoch,
            self._progress.assignor_of(group),
            tuple(
                DescribedConsumer(member_id, member, group.current(member_id), group.target(member_id))
                for member_id, member in group.members.items()
            ),
        )
