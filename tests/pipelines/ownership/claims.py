"""Owners to claim a place with, and claims that begin at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from catchment.pipelines.errors import Refusal
from catchment.pipelines.lakes.lake_errors import LakeAway
from catchment.pipelines.ownership.owner import Found, Owner

RUNNERS = 4


def owner(number: int, query: str = "outlet-board") -> Owner:
    return Owner(
        pipeline="city",
        version=1,
        query=query,
        query_id=f"id-{number}",
        run=f"run-{number}",
        home="/home",
        host="here",
        since="2026-05-01T12:00:00+00:00",
    )


def only_first(found: Found) -> None:
    if found.owners:
        raise Refusal("it has an owner")


def winners(claims: Sequence[Callable[[], None]]) -> list[int]:
    """Which of the claims that begin at once are not refused."""
    barrier = threading.Barrier(len(claims))

    def attempt(claim: Callable[[], None]) -> bool:
        barrier.wait()
        while True:
            try:
                claim()
            except LakeAway:
                # Another one was at it in the same moment, and says to try again.
                continue
            except Refusal:
                return False
            return True

    with ThreadPoolExecutor(len(claims)) as pool:
        return [number for number, has_won in enumerate(pool.map(attempt, claims)) if has_won]
