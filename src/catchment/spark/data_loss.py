"""What happens when records that a query should read are gone: the query fails, or goes on with what is there.

`failOnDataLoss` decides. Records go when retention overtakes a query, or when a topic is deleted, created anew or cut back.
"""

from __future__ import annotations

import logging
from typing import Final

from catchment.client.errors import ClientError

REMEDY: Final = (
    "Start the query with a new checkpoint, or set failOnDataLoss to false to go on with what is there; "
    "if records were deleted too early, raise the topic's retention."
)
_log: Final = logging.getLogger("catchment.spark")


class DataLost(ClientError):
    """Records that should have been read and cannot be."""


def data_lost(message: str, *, fail: bool) -> None:
    """Raise, or warn in the log of the process and go on."""
    if fail:
        raise DataLost(message, REMEDY)
    _log.warning("%s; going on without, since failOnDataLoss is false", message)
