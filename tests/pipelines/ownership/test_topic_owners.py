"""A topic has one owner at a time, though all owners of a cluster are in one topic."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.pipelines.owned_town import Town
from tests.pipelines.ownership.claims import RUNNERS, only_first, owner, winners
from tests.waiting import wait_until

from catchment.pipelines.execution.claiming import ClaimsWatch, claim_topics
from catchment.pipelines.execution.topics import make_topics
from catchment.pipelines.home import Home
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


def test_a_run_sees_that_another_copy_has_claimed_its_topics(catchment_logs: Logs, tmp_path: Path) -> None:
    town = Town(catchment_logs.bootstrap_servers, tmp_path)
    context = town.context()
    make_topics(context, 1)
    with ClaimsWatch(context, claim_topics(context, ["clean", "outlet-copy"]), pause_s=0.01) as watch:
        copy = Home(tmp_path / "copy", town.name)
        shutil.copytree(town.home.root, copy.root)
        assert watch.lost is None
        claim_topics(town.context(copy), ["clean"])
        wait_until(lambda: watch.lost is not None, "the other claim is not seen")
    assert watch.lost is not None
    assert watch.lost.startswith(f"topic {town.name}.clean is now owned by a run in {copy.root}")
