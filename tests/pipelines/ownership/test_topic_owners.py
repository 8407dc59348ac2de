"""A topic has one owner at a time, though all owners of a cluster are in one topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.pipelines.ownership.claims import RUNNERS, only_first, owner, winners

from catchment.pipelines.ownership.owner import Found, Owner
from catchment.pipelines.ownership.topic_owners import TopicClaim, TopicOwners

if TYPE_CHECKING:
    from tests.client.logs import Logs


def test_one_of_many_gets_a_topic(catchment_logs: Logs) -> None:
    topic = catchment_logs.topic()

    def check(found: tuple[Owner, ...]) -> None:
        only_first(Found(found))

    def claim(number: int) -> Callable[[], None]:
        def run() -> None:
            with TopicOwners(catchment_logs.bootstrap_servers, {}) as owners:
                owners.claim([TopicClaim(topic, owner(number), check)])

        return run

    [first] = winners([claim(number) for number in range(RUNNERS)])
    with TopicOwners(catchment_logs.bootstrap_servers, {}) as owners:
        assert owners.read()[topic] == (owner(first),)
        owners.forget("another", [topic])
        assert owners.read()[topic] == (owner(first),)
        owners.forget("city", [topic])
        assert topic not in owners.read()
