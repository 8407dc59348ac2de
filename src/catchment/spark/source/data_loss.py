"""`failOnDataLoss`: fail a query whose records are gone, or log a warning and continue with the records that exist.

Records are lost when retention overtakes a query, or when a topic is deleted, recreated or truncated.
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
    """Raise DataLost, or log a warning."""
    if fail:
        raise DataLost(message, REMEDY)
    _log.warning("%s; continuing without them, since failOnDataLoss is false", message)
