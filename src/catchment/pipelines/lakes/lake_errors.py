"""What goes wrong with a lake, in two kinds: what another try may cure, and what it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from catchment.client.errors import ClientError
from catchment.pipelines.errors import Refusal


class LakeError(ClientError):
    """Whatever could not be done with a lake."""


class LakeAway(LakeError):
    """A lake that cannot be reached, or that others change all the time: the same batch may be tried again."""


class LakeRefused(LakeError, Refusal):
    """What this lake does not take, however often it is tried."""


@contextmanager
def explained(attempt: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn what file systems, and libraries with errors of these kinds, have to say into a LakeAway."""
    failures: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except failures as cause:
        advice = "Check that it can be reached and written, and that its disk is not full."
        raise LakeAway(f"cannot {attempt}: {cause}", advice) from cause
