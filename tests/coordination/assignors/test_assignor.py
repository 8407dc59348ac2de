"""What holds for every assignor."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from tests.coordination.assignors.assignor_groups import group, partition_counts, subscriptions

from catchment.coordination.assignors import range as range_assignor
from catchment.coordination.assignors import simple, uniform
from catchment.coordination.assignors.assignor import Assignor

Subscriptions = Mapping[str, frozenset[UUID]]


@pytest.mark.parametrize("assignor", [range_assignor, uniform])
@given(subscriptions, partition_counts)
def test_nothing_moves_while_nothing_changes(
    assignor: Assignor, subscribed: Subscriptions, counts: dict[UUID, int]
) -> None:
    before = assignor.assign(group(subscribed), counts)
    assert assignor.assign(group(subscribed, before), counts) == before


@pytest.mark.parametrize("assignor", [range_assignor, simple, uniform])
@given(subscriptions, partition_counts)
def test_the_order_of_members_and_topics_makes_no_difference(
    assignor: Assignor, subscribed: Subscriptions, counts: dict[UUID, int]
) -> None:
    members = group(subscribed)
    backwards = dict(reversed(members.items()))
    assert assignor.assign(members, counts) == assignor.assign(backwards, dict(reversed(counts.items())))
