"""Static members (KIP-345) are identified by their instance id, whatever their current member id."""

from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LIMITS, LoggedShard

from catchment.coordination.groups.classic.commands import LeavingMember
from catchment.coordination.groups.classic.group import GroupState

DELAYED = LIMITS._replace(initial_rebalance_delay_ms=3000)


def test_a_static_member_needs_no_second_join() -> None:
    (answer,) = LoggedShard().join(instance_id="one", requires_known_member_id=True)
    assert answer.error is ErrorCode.none
    assert answer.member_id.startswith("one-")


def test_a_static_member_rejoins_without_a_rebalance_and_its_old_member_id_is_fenced() -> None:
    shard = LoggedShard()
    (old,) = shard.stable_group(instance_id="one")
    (new,) = shard.join(instance_id="one")
    assert (new.error, new.generation, new.skip_assignment) == (ErrorCode.none, old.generation, True)
    assert (new.leader_id, len(new.members)) == (new.member_id, 1)
    assert new.member_id != old.member_id
    assert shard.state() is GroupState.STABLE
    assert shard.sync(new.member_id, 1, instance_id="one")[0].assignment == b"mine"
    assert shard.heartbeat(old.member_id, 1, instance_id="one") is ErrorCode.fenced_instance_id
    assert shard.sync(old.member_id, 1, instance_id="one")[0].error is ErrorCode.fenced_instance_id
    assert shard.join(old.member_id, instance_id="one")[0].error is ErrorCode.fenced_instance_id
    fenced = shard.commit(1, generation=1, member_id=old.member_id, instance_id="one")
    assert fenced == [ErrorCode.fenced_instance_id]
    shard.crash()
    assert shard.heartbeat(new.member_id, 1, instance_id="one") is ErrorCode.none


def test_an_older_client_does_not_become_leader_so_that_it_does_not_assign() -> None:
    shard = LoggedShard()
    (old,) = shard.stable_group(instance_id="one")
    (new,) = shard.join(instance_id="one", supports_skipping_assignment=False)
    assert (new.leader_id, new.members, new.skip_assignment) == (old.member_id, (), False)


def test_a_static_member_that_rejoins_with_another_protocol_begins_a_rebalance() -> None:
    shard = LoggedShard(DELAYED)
    shard.stable_group(instance_id="one", protocols=(("a", b""), ("b", b"")))
    (new,) = shard.join(instance_id="one", protocols=(("b", b""), ("a", b"")))
    assert (new.generation, new.protocol_name) == (2, "b")


def test_a_replaced_static_member_gets_its_response_once_the_record_is_committed() -> None:
    shard = LoggedShard()
    shard.stable_group(instance_id="one")
    shard.holds_commits = True
    answers = shard.join(instance_id="one")
    assert answers == []
    shard.commit_all()
    assert answers[0].error is ErrorCode.none


def test_a_waiting_join_is_fenced_by_its_replacement() -> None:
    shard = LoggedShard(DELAYED)
    first = shard.join(instance_id="one")
    second = shard.join(instance_id="one")
    assert first[0].error is ErrorCode.fenced_instance_id
    shard.advance(6000)
    assert second[0].error is ErrorCode.none


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_expires() -> None:
    shard = LoggedShard(DELAYED)
    joins = [shard.join(instance_id=name, session_timeout_ms=30_000, rebalance_timeout_ms=5000) for name in "ab"]
    shard.advance(6000)
    ((leader,), (other,)) = joins
    shard.sync(leader.member_id, 1, {leader.member_id: b"x", other.member_id: b"y"}, instance_id="a")
    shard.sync(other.member_id, 1, instance_id="b")
    rejoined = shard.join(leader.member_id, instance_id="a", rebalance_timeout_ms=5000, session_timeout_ms=30_000)
    shard.advance(5000)
    assert len(rejoined[0].members) == 2


def test_an_administrator_removes_a_static_member_by_its_instance_id_alone() -> None:
    shard = LoggedShard()
    shard.stable_group(instance_id="one")
    assert shard.leave(LeavingMember("", "other"), LeavingMember("")) == [ErrorCode.unknown_member_id] * 2
    assert shard.leave(LeavingMember("", "one")) == [ErrorCode.none]
    assert shard.state() is GroupState.EMPTY


def test_a_leave_with_a_former_member_id_is_fenced() -> None:
    shard = LoggedShard()
    (old,) = shard.stable_group(instance_id="one")
    shard.join(instance_id="one")
    assert shard.leave(LeavingMember(old.member_id, "one")) == [ErrorCode.fenced_instance_id]
