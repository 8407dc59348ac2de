"""Replica placement: even, over racks, and strict about manual assignments."""

from collections import Counter

import pytest
from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import BrokerImage
from catchment.cluster.placement import check_assignments, consecutive, place_replicas
from catchment.protocol.errors import ApiError


def brokers(*racks: str | None) -> dict[int, BrokerImage]:
    return {number: BrokerImage(number, {}, rack) for number, rack in enumerate(racks)}


@pytest.mark.parametrize("start", range(7))
def test_leaders_and_followers_are_spread_evenly(start: int) -> None:
    placed = place_replicas(brokers(*[None] * 5), 20, 3, start=start)
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {4}
    assert set(Counter(broker for replicas in placed for broker in replicas).values()) == {12}


def test_the_followers_of_one_leader_differ_from_round_to_round() -> None:
    placed = place_replicas(brokers(*[None] * 4), 12, 2, start=0)
    assert {replicas[1] for replicas in placed if replicas[0] == 0} == {1, 2, 3}


def test_no_rack_holds_two_replicas_while_another_has_none() -> None:
    racks = ["a", "a", "b", "b", "c", "c"]
    for replicas in place_replicas(brokers(*racks), 30, 3, start=2):
        assert {racks[broker] for broker in replicas} == {"a", "b", "c"}
    for replicas in place_replicas(brokers(*racks), 30, 4, start=2):
        assert len(set(replicas)) == 4
        assert {racks[broker] for broker in replicas} == {"a", "b", "c"}


def test_partitions_added_later_continue_the_round() -> None:
    some = brokers(None, None, None)
    whole = place_replicas(some, 6, 2, start=1)
    assert place_replicas(some, 2, 2, start=1) + place_replicas(some, 4, 2, start=1, first_partition=2) == whole


def test_more_replicas_than_brokers_are_rejected_with_both_numbers() -> None:
    with pytest.raises(ApiError, match=r"factor of 3 cannot be reached because only 2 broker\(s\)") as rejected:
        place_replicas(brokers(None, None), 1, 3, start=0)
    assert rejected.value.code is ErrorCode.invalid_replication_factor


@pytest.mark.parametrize(
    ("assignments", "reason"),
    [
        ([()], "empty replica list"),
        ([(0, 9)], "broker 9, but no such broker"),
        ([(1, 1)], "broker 1 more than once"),
        ([(0,), (0, 1)], "not consistent with previous partitions"),
    ],
)
def test_an_impossible_assignment_is_rejected_with_its_reason(assignments: list[tuple[int, ...]], reason: str) -> None:
    with pytest.raises(ApiError, match=reason) as rejected:
        check_assignments(assignments, brokers(None, None))
    assert rejected.value.code is ErrorCode.invalid_replica_assignment


def test_manual_assignments_come_in_order_and_without_a_gap() -> None:
    assert consecutive({1: (0,), 0: (1,)}) == [(1,), (0,)]
    with pytest.raises(ApiError, match="partition 1 has no assignment"):
        consecutive({0: (0,), 2: (0,)})
