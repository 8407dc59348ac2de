"""Rolling upgrades and downgrades: members of both protocols in one group, and conversions of the group."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode
from tests.coordination.groups.consumer.classic_clients import ClassicClient, subscription
from tests.coordination.groups.consumer.consumer_shards import ConsumerClient, ConsumerShard

from catchment.coordination.groups.classic.commands import JoinResponse, LeavingMember
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.consumer.commands import DEFAULT_LIMITS, MigrationPolicy
from catchment.coordination.groups.state import GroupKind


def run(*clients: ClassicClient | ConsumerClient, rounds: int = 12) -> None:
    for _ in range(rounds):
        for client in clients:
            if isinstance(client, ClassicClient):
                client.step()
            else:
                client.beat()


def kind(shard: ConsumerShard) -> GroupKind | None:
    return shard.shard.state.kind_of("g")


def reads(client: ClassicClient | ConsumerClient) -> dict[str, list[int]]:
    return client.owned if isinstance(client, ClassicClient) else client.reads


def total(*clients: ClassicClient | ConsumerClient) -> list[int]:
    return sorted(number for client in clients for number in reads(client).get("t", []))


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_a_rolling_upgrade_ends_with_a_consumer_group(is_cooperative: bool) -> None:
    shard = ConsumerShard(t=4)
    old = [ClassicClient(shard, name, "t", is_cooperative=is_cooperative) for name in "ab"]
    run(*old)
    assert (kind(shard), total(*old)) == (GroupKind.CLASSIC, [0, 1, 2, 3])
    first = ConsumerClient(shard, "c", "t")
    run(*old, first)
    assert kind(shard) is GroupKind.CONSUMER
    assert all(reads(client) for client in old)
    assert reads(first)
    assert total(*old, first) == [0, 1, 2, 3]
    old[0].leave()
    second = ConsumerClient(shard, "d", "t")
    run(old[1], first, second)
    assert total(old[1], first, second) == [0, 1, 2, 3]
    old[1].leave()
    run(first, second)
    assert (kind(shard), total(first, second)) == (GroupKind.CONSUMER, [0, 1, 2, 3])


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_a_rolling_downgrade_ends_with_a_classic_group(is_cooperative: bool) -> None:
    shard = ConsumerShard(t=4)
    new = [ConsumerClient(shard, name, "t") for name in "ab"]
    run(*new)
    first = ClassicClient(shard, "c", "t", is_cooperative=is_cooperative)
    run(*new, first)
    assert (kind(shard), total(*new, first)) == (GroupKind.CONSUMER, [0, 1, 2, 3])
    new[0].leave()
    second = ClassicClient(shard, "d", "t", is_cooperative=is_cooperative)
    run(new[1], first, second)
    assert (kind(shard), total(new[1], first, second)) == (GroupKind.CONSUMER, [0, 1, 2, 3])
    new[1].leave()
    run(first, second)
    assert (kind(shard), shard.state()) == (GroupKind.CLASSIC, GroupState.STABLE)
    assert total(first, second) == [0, 1, 2, 3]
    shard.crash()
    assert (kind(shard), shard.state()) == (GroupKind.CLASSIC, GroupState.STABLE)


def test_classic_members_of_a_consumer_group_survive_a_failover() -> None:
    shard = ConsumerShard(t=2)
    old, new = ClassicClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    run(old)
    run(old, new)
    before = reads(old), reads(new)
    shard.crash()
    run(old, new)
    assert (reads(old), reads(new)) == before
    shard.advance(10_000)
    assert list(shard.group().members) == ["b"], "its own session is shorter"


def test_offsets_stay_through_every_conversion() -> None:
    shard = ConsumerShard(t=2)
    old = ClassicClient(shard, "a", "t")
    run(old)
    assert shard.commit(7, member_id=old.member_id, generation=old.generation) == [ErrorCode.none]
    new = ConsumerClient(shard, "b", "t")
    run(old, new)
    assert shard.commit(8, member_id=old.member_id, generation=old.generation) == [ErrorCode.none]
    assert shard.commit(9, member_id=old.member_id, generation=99) == [ErrorCode.illegal_generation]
    new.leave()
    run(old)
    assert (kind(shard), [one.offset for one in shard.offsets().values()]) == (GroupKind.CLASSIC, [8])


def test_an_empty_group_of_one_kind_is_replaced_by_the_other() -> None:
    shard = ConsumerShard(t=1)
    old = ClassicClient(shard, "a", "t")
    run(old)
    shard.commit(5, member_id=old.member_id, generation=old.generation)
    old.leave()
    new = ConsumerClient(shard, "b", "t")
    new.beat()
    assert (kind(shard), new.reads) == (GroupKind.CONSUMER, {"t": [0]})
    new.leave()
    assert kind(shard) is GroupKind.CONSUMER
    again = ClassicClient(shard, "c", "t")
    run(again)
    assert (kind(shard), total(again)) == (GroupKind.CLASSIC, [0])
    shard.crash()
    assert (kind(shard), [one.offset for one in shard.offsets().values()]) == (GroupKind.CLASSIC, [5])


def test_a_group_that_only_has_offsets_becomes_a_consumer_group() -> None:
    shard = ConsumerShard(t=1)
    shard.commit(5)
    shard.join_consumer("a", "t")
    shard.crash()
    assert (kind(shard), len(shard.offsets())) == (GroupKind.CONSUMER, 1)


@pytest.mark.parametrize("policy", [MigrationPolicy.DOWNGRADE, MigrationPolicy.DISABLED])
def test_a_classic_group_is_not_converted_where_the_policy_forbids_it(policy: MigrationPolicy) -> None:
    shard = ConsumerShard(DEFAULT_LIMITS._replace(migration_policy=policy), t=1)
    run(ClassicClient(shard, "a", "t"))
    assert shard.join_consumer("b", "t").error is ErrorCode.group_id_not_found
    assert kind(shard) is GroupKind.CLASSIC


def test_a_consumer_group_is_not_downgraded_where_the_policy_forbids_it() -> None:
    shard = ConsumerShard(DEFAULT_LIMITS._replace(migration_policy=MigrationPolicy.UPGRADE), t=1)
    new, old = ConsumerClient(shard, "a", "t"), ClassicClient(shard, "b", "t")
    run(new)
    run(old, new)
    new.leave()
    run(old)
    assert (kind(shard), total(old)) == (GroupKind.CONSUMER, [0])


def test_classic_members_cannot_join_where_migration_is_disabled() -> None:
    shard = ConsumerShard(DEFAULT_LIMITS._replace(migration_policy=MigrationPolicy.DISABLED), t=1)
    shard.join_consumer("a", "t")
    old = ClassicClient(shard, "b", "t")
    old.step()
    assert old.error is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize(
    ("protocol_type", "metadata"), [("connect", subscription(["t"], {})), ("consumer", b"something else")]
)
def test_groups_of_another_kind_of_member_are_not_converted(protocol_type: str, metadata: bytes) -> None:
    shard = ConsumerShard(t=1)
    shard.stable_group(protocol_type=protocol_type, protocols=(("range", metadata),))
    assert shard.join_consumer("b", "t").error is ErrorCode.group_id_not_found
    shard.advance(0)
    assert shard.state() is GroupState.STABLE


def test_classic_members_of_a_consumer_group_need_a_common_protocol() -> None:
    shard = ConsumerShard(t=1)
    shard.join_consumer("a", "t")
    run(ClassicClient(shard, "b", "t"))
    assert shard.join(protocol_type="connect")[0].error is ErrorCode.inconsistent_group_protocol
    assert shard.join(protocols=(("range", b"?"),))[0].error is ErrorCode.inconsistent_group_protocol
    other = ClassicClient(shard, "c", "t", is_cooperative=True)
    other.step()
    assert other.error is ErrorCode.inconsistent_group_protocol


def test_members_that_wait_in_a_rebalance_have_to_rejoin_when_the_group_is_converted() -> None:
    shard = ConsumerShard(t=2)
    old = ClassicClient(shard, "a", "t")
    run(old)
    late = shard.join(protocols=((old.protocol, subscription(["t"], {})),))
    assert late == []
    new = ConsumerClient(shard, "b", "t")
    new.beat()
    assert [answer.error for answer in late] == [ErrorCode.rebalance_in_progress]
    run(old, new)
    assert kind(shard) is GroupKind.CONSUMER


def test_a_static_member_changes_its_protocol_in_both_directions() -> None:
    shard = ConsumerShard(t=2)
    old = ClassicClient(shard, "a", "t", instance_id="one")
    run(old)
    new = ConsumerClient(shard, "b", "t", instance_id="one")
    run(new)
    assert (kind(shard), list(shard.group().members), total(new)) == (GroupKind.CONSUMER, ["b"], [0, 1])
    again = ClassicClient(shard, "c", "t", instance_id="one")
    run(again)
    assert (kind(shard), total(again)) == (GroupKind.CLASSIC, [0, 1])
    assert shard.beat("b", new.epoch, instance_id="one").error is ErrorCode.group_id_not_found


def test_a_classic_member_that_does_not_rejoin_in_time_is_removed() -> None:
    shard = ConsumerShard(t=2)
    old, new = ClassicClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    run(new)
    run(old, new)
    shard.set_topic("t", 4)
    new.beat()
    for _ in range(12):
        error = shard.heartbeat(old.member_id, old.generation)
        assert error in (ErrorCode.rebalance_in_progress, ErrorCode.unknown_member_id)
        shard.advance(5_001)
        new.beat()
    assert list(shard.group().members) == ["b"]
    assert shard.heartbeat(old.member_id, old.generation) is ErrorCode.unknown_member_id


def test_a_removed_classic_member_must_revoke_everything_before_it_rejoins() -> None:
    shard = ConsumerShard(t=2)
    old, new = ClassicClient(shard, "a", "t", is_cooperative=True), ConsumerClient(shard, "b", "t")
    run(new)
    run(old, new)
    shard.advance(10_000)
    run(new, rounds=1)
    zombie = shard.join(old.member_id, protocols=((old.protocol, subscription(["t"], old.owned)),))
    assert zombie == [JoinResponse(ErrorCode.unknown_member_id, old.member_id)]
    run(old, new)
    assert total(old, new) == [0, 1]


def test_a_classic_member_that_never_syncs_is_removed() -> None:
    shard = ConsumerShard(t=2)
    new = ConsumerClient(shard, "b", "t")
    run(new)
    protocols = (("range", subscription(["t"], {})),)
    (joined,) = shard.join(protocols=protocols)
    for _ in range(12):
        shard.heartbeat(joined.member_id, joined.generation)
        shard.advance(5_000)
        new.beat()
    assert list(shard.group().members) == ["b"]


def test_classic_requests_are_checked_in_a_consumer_group() -> None:
    shard = ConsumerShard(t=2)
    old, new = ClassicClient(shard, "a", "t"), ConsumerClient(shard, "b", "t")
    run(new)
    run(old, new)
    assert shard.heartbeat("b", new.epoch) is ErrorCode.unknown_member_id
    assert shard.heartbeat("unknown", 1) is ErrorCode.unknown_member_id
    assert shard.heartbeat(old.member_id, 99) is ErrorCode.illegal_generation
    assert shard.sync(old.member_id, 99)[0].error is ErrorCode.illegal_generation
    mismatch = shard.sync(old.member_id, old.generation, protocol_name="sticky")
    assert mismatch[0].error is ErrorCode.inconsistent_group_protocol
    assert shard.leave(LeavingMember("b"), LeavingMember("unknown"), LeavingMember(old.member_id)) == [
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
        ErrorCode.none,
    ]
    assert list(shard.group().members) == ["b"]


def test_an_administrator_removes_a_static_member_of_any_protocol() -> None:
    shard = ConsumerShard(t=2)
    shard.join_consumer("a", "t", instance_id="one")
    assert shard.leave(LeavingMember("", "one"), LeavingMember("", "two")) == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    ]
    assert shard.group().is_empty


def test_a_full_consumer_group_rejects_classic_members() -> None:
    shard = ConsumerShard(DEFAULT_LIMITS._replace(max_size=1), t=1)
    shard.join_consumer("a", "t")
    assert shard.join() == [JoinResponse(ErrorCode.group_max_size_reached)]
