"""Errors of lakes, in two kinds: those that a retry may cure, and the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from catchment.client.errors import ClientError
from catchment.pipelines.errors import Refusal


class LakeError(ClientError):
    """Any error of a lake."""


class LakeAway(LakeError):
    """A lake that cannot be reached, or that other writers keep changing: the same batch may be retried."""


class LakeRefused(LakeError, Refusal):
    """A request that this lake rejects, however often it is retried."""


@contextmanager
def explained(attempt: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of file systems, and library errors of these kinds, into a LakeAway."""
    failures: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except failures as cause:
        advice = "Check that it can be reached and written, and that its disk is not full."
        raise LakeAway(f"cannot {attempt}: {cause}", advice) from cause
