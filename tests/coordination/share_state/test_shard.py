"""The shard of the share coordinator: fencing of writes and reads, and pruning of the log."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.share_state.share_state_shards import KEY, NO_TOPIC, OTHER_TOPIC, TOPIC, LoggedShard

from catchment.coordination.share_state.batches import ACKNOWLEDGED, ARCHIVED, AVAILABLE, NO_START, StateBatch
from catchment.coordination.share_state.records import NO_COUNT, ShareKey, ShareState, decode_record
from catchment.protocol.errors import ApiError

OK = [ErrorCode.none]
DONE = StateBatch(0, 9, ACKNOWLEDGED, 1)


@pytest.fixture
def shard() -> LoggedShard:
    return LoggedShard()


def test_a_new_state_begins_at_the_given_offset(shard: LoggedShard) -> None:
    assert shard.initialize(state_epoch=4, start_offset=7) == OK
    now_ms = shard.now.wall_ms
    assert shard.state() == ShareState(0, 4, 0, 7, now_ms, now_ms, (), 0)


def test_a_state_without_a_start_offset_has_no_delivery_complete_count(shard: LoggedShard) -> None:
    shard.initialize(start_offset=NO_START)
    state = shard.read()
    assert (state.start_offset, state.delivery_complete_count) == (NO_START, NO_COUNT)


def test_initializing_again_drops_the_batches_but_fences_the_same_leaders(shard: LoggedShard) -> None:
    shard.initialize(state_epoch=1)
    shard.read(leader_epoch=5)
    shard.write(DONE, leader_epoch=5)
    assert shard.initialize(state_epoch=2, start_offset=3) == OK
    state = shard.read()
    assert (state.state_epoch, state.start_offset, state.batches, state.snapshot_epoch) == (2, 3, (), 1)
    shard.prune()
    shard.crash()
    assert shard.write(DONE, leader_epoch=4) == [ErrorCode.fenced_leader_epoch]


def test_an_older_state_epoch_is_fenced(shard: LoggedShard) -> None:
    shard.initialize(state_epoch=3)
    assert shard.initialize(state_epoch=2) == [ErrorCode.fenced_state_epoch]
    assert shard.write(DONE, state_epoch=2) == [ErrorCode.fenced_state_epoch]
    assert shard.write(DONE, state_epoch=3) == OK
    assert shard.write(DONE, state_epoch=-1) == OK


def test_a_read_of_a_newer_leader_fences_the_older_one_also_after_a_crash(shard: LoggedShard) -> None:
    shard.initialize()
    shard.write(DONE, leader_epoch=1)
    assert shard.read(leader_epoch=2).batches == (DONE,)
    shard.crash()
    assert shard.write(DONE, leader_epoch=1) == [ErrorCode.fenced_leader_epoch]
    with pytest.raises(ApiError) as fenced:
        shard.read(leader_epoch=1)
    assert fenced.value.code is ErrorCode.fenced_leader_epoch
    assert shard.read(leader_epoch=2).batches == (DONE,)


def test_a_read_with_the_same_leader_epoch_or_without_one_writes_nothing(shard: LoggedShard) -> None:
    shard.initialize()
    shard.read(leader_epoch=2)
    length = len(shard.log)
    shard.read(leader_epoch=2)
    shard.read(leader_epoch=-1)
    assert len(shard.log) == length


def test_a_write_moves_the_start_offset_and_merges_batches(shard: LoggedShard) -> None:
    shard.initialize()
    shard.write(StateBatch(0, 9, AVAILABLE, 1), delivery_complete_count=0)
    shard.write(StateBatch(3, 5, ACKNOWLEDGED, 1), start_offset=2, delivery_complete_count=3)
    state = shard.read()
    assert (state.start_offset, state.delivery_complete_count) == (2, 3)
    assert state.batches == (
        StateBatch(2, 2, AVAILABLE, 1),
        StateBatch(3, 5, ACKNOWLEDGED, 1),
        StateBatch(6, 9, AVAILABLE, 1),
    )


def test_an_uninitialized_state_can_be_neither_read_nor_written(shard: LoggedShard) -> None:
    assert shard.write(DONE) == [ErrorCode.invalid_request]
    with pytest.raises(ApiError) as unknown:
        shard.read()
    assert unknown.value.code is ErrorCode.invalid_request
    assert shard.call(lambda one, _: one.summary(KEY)).start_offset == NO_START


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (ShareKey("g", NO_TOPIC, 0), ErrorCode.unknown_topic_or_partition),
        (ShareKey("g", TOPIC, 3), ErrorCode.unknown_topic_or_partition),
        (ShareKey("g", TOPIC, -1), ErrorCode.invalid_request),
    ],
)
def test_a_partition_that_does_not_exist_has_no_state(shard: LoggedShard, key: ShareKey, error: ErrorCode) -> None:
    assert shard.initialize(key) == [error]
    assert shard.delete(key) == [error]
    with pytest.raises(ApiError) as refused:
        shard.call(lambda one, _: one.summary(key))
    assert refused.value.code is error
    assert shard.write(DONE, key=key) == [ErrorCode.invalid_request]
    assert shard.log == []


@pytest.mark.parametrize(
    "batch",
    [
        StateBatch(-1, 3, AVAILABLE, 1),
        StateBatch(4, 3, AVAILABLE, 1),
        StateBatch(0, 3, 1, 1),
        StateBatch(0, 3, ARCHIVED, -1),
    ],
)
def test_an_invalid_batch_is_rejected(shard: LoggedShard, batch: StateBatch) -> None:
    shard.initialize()
    assert shard.write(batch) == [ErrorCode.invalid_request]
    assert shard.write(start_offset=-2) == [ErrorCode.invalid_request]
    assert shard.initialize(start_offset=-2) == [ErrorCode.invalid_request]


def test_a_state_is_deleted_and_a_missing_state_may_be_deleted(shard: LoggedShard) -> None:
    shard.initialize()
    assert shard.delete() == OK
    assert shard.state() is None
    length = len(shard.log)
    assert shard.delete() == OK
    assert len(shard.log) == length


def test_deleting_a_topic_deletes_its_states(shard: LoggedShard) -> None:
    other = ShareKey("g", OTHER_TOPIC, 0)
    for key in (KEY, ShareKey("h", TOPIC, 1), other):
        shard.initialize(key)
    shard.call(lambda one, _: one.delete_topics({TOPIC}))
    assert list(shard.states()) == [other]


def test_states_of_a_topic_that_was_deleted_meanwhile_are_deleted_at_the_next_load(shard: LoggedShard) -> None:
    shard.initialize()
    shard.topics.remove(TOPIC)
    shard.crash()
    assert shard.states() == {}
    shard.topics.add(TOPIC)
    shard.crash()
    assert shard.states() == {}


@pytest.mark.parametrize("updates_per_snapshot", [0, 1, 3])
def test_a_snapshot_is_written_after_some_updates(updates_per_snapshot: int) -> None:
    shard = LoggedShard(updates_per_snapshot)
    shard.initialize()
    for offset in range(8):
        shard.write(StateBatch(offset, offset, ACKNOWLEDGED, 1))
    decoded = [decode_record(*record) for record in shard.log]
    snapshots = [number for number, one in enumerate(decoded) if one is not None and isinstance(one[1], ShareState)]
    assert snapshots == list(range(0, 9, updates_per_snapshot + 1))
    state = shard.read()
    assert state.batches == (StateBatch(0, 7, ACKNOWLEDGED, 1),)
    assert state.snapshot_epoch == len(snapshots) - 1


def test_only_records_before_all_last_snapshots_can_be_pruned(shard: LoggedShard) -> None:
    other = ShareKey("other", TOPIC, 0)
    shard.initialize()
    shard.initialize(other)
    for offset in range(10):
        shard.write(StateBatch(offset, offset, ACKNOWLEDGED, 1))
    # The snapshot of the other state is the second record.
    assert shard.prune() == 1
    states = shard.states()
    shard.crash()
    assert shard.states() == states


def test_a_new_snapshot_of_a_cold_state_is_written_only_while_it_blocks_pruning(shard: LoggedShard) -> None:
    other = ShareKey("other", TOPIC, 0)
    shard.initialize(other)
    shard.initialize()
    for offset in range(4):
        shard.write(StateBatch(offset, offset, ACKNOWLEDGED, 1))
    shard.call(lambda one, now: one.snapshot_cold(1000, now))
    assert shard.prune() == 0
    shard.pass_time(1000)
    before = shard.states()
    shard.call(lambda one, now: one.snapshot_cold(1000, now))
    assert shard.prune() == 6
    shard.pass_time(1000)
    length = len(shard.log)
    shard.call(lambda one, now: one.snapshot_cold(1000, now))
    assert len(shard.log) == length
    shard.crash()
    assert {key: state.batches for key, state in shard.states().items()} == {
        key: state.batches for key, state in before.items()
    }


def test_a_log_of_deleted_states_is_not_needed_at_all(shard: LoggedShard) -> None:
    shard.initialize()
    shard.delete()
    assert shard.prune() == 2
    assert shard.log == []
