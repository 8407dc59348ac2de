"""The records of a share group while its offsets are altered or deleted: a change that a crash interrupts stays recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.modern import MemberMetadata
from catchment.coordination.groups.share.group import StatePartitions, StateTopic
from catchment.coordination.groups.share.records import Draft, ShareGroups
from catchment.coordination.groups.share.state_partitions import Reply, ShareGroupOffsets
from catchment.coordination.groups.state import GroupLimits, ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

TOPIC, OTHER = UUID(int=1), UUID(int=2)
NOW = Moment(0, 0)
Result = TypeVar("Result")


def topic(*numbers: int, name: str = "a") -> StateTopic:
    return StateTopic(name, frozenset(numbers))


class CoordinatorShard:
    """The share groups of a shard, whose writes are replayed and committed at once."""

    def __init__(self, log: list[EncodedRecord] | None = None) -> None:
        self.state = ShardState(GroupLimits())
        self.groups = ShareGroups(self.state)
        self.offsets = ShareGroupOffsets(self.state, self.groups)
        self.log: list[EncodedRecord] = []
        for record in log or []:
            self._append(record)

    def ask(self, command: Callable[[ShareGroupOffsets, Reply], Result]) -> Result:
        outcomes: list[ErrorCode] = []
        result = command(self.offsets, outcomes.append)
        self.drain()
        assert outcomes == [ErrorCode.none]
        return result

    def join(self, member_id: str) -> None:
        draft = Draft(self.groups.find_or_draft("g"))
        draft.put_epoch(draft.group.epoch + 1, 0)
        draft.put_member(member_id, MemberMetadata())
        self.state.write(draft.records)
        self.drain()

    def leave(self, member_id: str) -> None:
        draft = Draft(self.groups.find("g"))
        draft.remove_member(member_id)
        self.state.write(draft.records)
        self.drain()

    def drain(self) -> None:
        for write in self.state.take_writes():
            for record in write.records:
                self._append(record)
            write.committed(NOW)

    def partitions(self) -> StatePartitions:
        return self.groups.find("g").partitions

    def _append(self, record: EncodedRecord) -> None:
        self.log.append(record)
        self.state.replay(*record)


@pytest.fixture
def shard() -> CoordinatorShard:
    return CoordinatorShard()


def test_setting_offsets_creates_the_group(shard: CoordinatorShard) -> None:
    assert shard.ask(lambda offsets, reply: offsets.begin_alter("g", {TOPIC: topic(0, 1)}, reply)) == 0
    assert shard.partitions() == StatePartitions(initializing={TOPIC: topic(0, 1)})
    shard.ask(lambda offsets, reply: offsets.finish_alter("g", {TOPIC: topic(0)}, reply))
    assert shard.partitions() == StatePartitions({TOPIC: topic(1)}, {TOPIC: topic(0)})
    shard.ask(lambda offsets, reply: offsets.finish_alter("g", {TOPIC: topic(1)}, reply))
    assert shard.partitions() == StatePartitions(initialized={TOPIC: topic(0, 1)})
    assert CoordinatorShard(shard.log).offsets.initialized("g") == {TOPIC: topic(0, 1)}


def test_setting_no_offsets_creates_no_group(shard: CoordinatorShard) -> None:
    shard.ask(lambda offsets, reply: offsets.begin_alter("g", {}, reply))
    assert shard.log == []
    assert shard.offsets.initialized("g") == {}


def test_offsets_are_set_in_the_epoch_of_the_group(shard: CoordinatorShard) -> None:
    shard.join("m")
    shard.leave("m")
    assert shard.ask(lambda offsets, reply: offsets.begin_alter("g", {TOPIC: topic(0)}, reply)) == 2


def test_the_offsets_of_a_group_with_members_cannot_be_changed(shard: CoordinatorShard) -> None:
    shard.join("m")
    for refuse in (
        lambda: shard.offsets.begin_alter("g", {TOPIC: topic(0)}, lambda _: None),
        lambda: shard.offsets.begin_delete("g", {TOPIC: topic(0)}, lambda _: None),
    ):
        with pytest.raises(ApiError) as refused:
            refuse()
        assert refused.value.code is ErrorCode.non_empty_group


def test_offsets_that_do_not_exist_cannot_be_deleted(shard: CoordinatorShard) -> None:
    with pytest.raises(ApiError) as refused:
        shard.offsets.begin_delete("g", {TOPIC: topic(0)}, lambda _: None)
    assert refused.value.code is ErrorCode.group_id_not_found


def test_a_topic_is_recorded_as_deleting_until_its_state_is_deleted(shard: CoordinatorShard) -> None:
    known = {TOPIC: topic(0, 1), OTHER: topic(0, name="b")}
    shard.ask(lambda offsets, reply: offsets.begin_alter("g", known, reply))
    shard.ask(lambda offsets, reply: offsets.finish_alter("g", known, reply))
    asked = {TOPIC: topic(0, 1, 2), UUID(int=9): topic(0, name="never read")}
    begun = shard.ask(lambda offsets, reply: offsets.begin_delete("g", asked, reply))
    assert begun == {TOPIC: frozenset((0, 1))}
    assert shard.partitions() == StatePartitions(initialized={OTHER: topic(0, name="b")}, deleting={TOPIC: "a"})
    # It was interrupted there. It is unknown what is left, so all of the topic is deleted.
    again = shard.ask(lambda offsets, reply: offsets.begin_delete("g", asked, reply))
    assert again == {TOPIC: frozenset((0, 1, 2))}
    shard.ask(lambda offsets, reply: offsets.finish_delete("g", {TOPIC}, reply))
    assert shard.partitions() == StatePartitions(initialized={OTHER: topic(0, name="b")})


def test_a_topic_that_is_initialized_again_is_not_deleted(shard: CoordinatorShard) -> None:
    shard.ask(lambda offsets, reply: offsets.begin_alter("g", {TOPIC: topic(0)}, reply))
    shard.ask(lambda offsets, reply: offsets.finish_alter("g", {TOPIC: topic(0)}, reply))
    shard.ask(lambda offsets, reply: offsets.begin_delete("g", {TOPIC: topic(0)}, reply))
    shard.ask(lambda offsets, reply: offsets.begin_alter("g", {TOPIC: topic(0)}, reply))
    assert shard.partitions() == StatePartitions(initializing={TOPIC: topic(0)})
