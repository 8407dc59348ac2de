"""A shard with share groups, and with topics and share state that tests create and delete."""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LoggedShard

from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.coordination.groups.modern import PartitionsByTopic
from catchment.coordination.groups.shard import GroupShard
from catchment.coordination.groups.share.group import ShareGroup, ShareGroupLimits
from catchment.coordination.groups.share.heartbeat import HeartbeatRequest, HeartbeatResponse

SESSION_MS = 45_000
RETRY_MS = 30_000
TERMS = ShareGroupLimits(max_size=3)


class ShareShard(LoggedShard):
    def __init__(self, terms: ShareGroupLimits = TERMS) -> None:
        self.terms = terms
        self.image = MetadataImage()
        self._ids = 0
        super().__init__()

    def new_shard(self) -> GroupShard:
        return GroupShard(self.limits, lambda: self.image, share_group_limits=self.terms)

    def make_topic(self, name: str, count: int = 1) -> UUID:
        """Create the topic, or add partitions to it."""
        known = self.image.topics.get(name)
        self._ids += known is None
        topic_id = UUID(int=self._ids) if known is None else known.id
        partitions = tuple(PartitionImage(number, 1, 0, (1,), (1,)) for number in range(count))
        self.image = self.image.with_topics([TopicImage(name, topic_id, partitions)])
        return topic_id

    def delete_topic(self, name: str) -> None:
        topic_id = self.image.topics[name].id
        self.image = self.image.without_topic(name)
        self.call(lambda shard, _: shard.share_groups.initialization.remove_topics(frozenset({topic_id})))

    def beat_later(
        self,
        member_id: str,
        epoch: int,
        topics: tuple[str, ...] | None = None,
        group_id: str = "g",
        rack_id: str | None = None,
    ) -> list[HeartbeatResponse]:
        """Send a heartbeat, and return the responses so far."""
        answers: list[HeartbeatResponse] = []
        request = HeartbeatRequest(group_id, member_id, epoch, rack_id, topics, "client", "/host")
        self.call(lambda shard, now: shard.share_groups.membership.heartbeat(request, answers.append, now))
        return answers

    def beat(
        self, member_id: str, epoch: int, topics: tuple[str, ...] | None = None, group_id: str = "g"
    ) -> HeartbeatResponse:
        (answer,) = self.beat_later(member_id, epoch, topics, group_id)
        return answer

    def finish(self, partitions: PartitionsByTopic, *, has_failed: bool = False, group_id: str = "g") -> ErrorCode:
        """Report that the share state of the partitions is initialized, or that this failed."""
        outcomes: list[ErrorCode] = []
        self.call(
            lambda shard, _: shard.share_groups.initialization.finish(
                group_id, partitions, outcomes.append, has_failed=has_failed
            )
        )
        (outcome,) = outcomes
        return outcome

    def join_share(self, member_id: str, *topics: str, group_id: str = "g") -> HeartbeatResponse:
        """Join and get an assignment: new partitions are initialized at once, as the broker does."""
        answer = self.beat(member_id, 0, topics, group_id)
        assert answer.error is ErrorCode.none
        if answer.to_initialize:
            self.finish(answer.to_initialize, group_id=group_id)
            again = self.beat(member_id, answer.member_epoch, None, group_id)
            answer = again._replace(assignment=answer.assignment if again.assignment is None else again.assignment)
        return answer

    def group(self, group_id: str = "g") -> ShareGroup:
        return self.shard.share_groups.groups.find(group_id)
