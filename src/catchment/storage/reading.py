"""What goes wrong while a log is read, as the errors that clients know."""

from __future__ import annotations

import struct
from types import TracebackType

from kio.schema.errors import ErrorCode

from catchment.protocol.batch import CorruptBatch
from catchment.protocol.errors import ApiError


class Reading:
    """Around whatever reads files of a log: an error of the disk, or bytes that are no batch, leave it as an ApiError."""

    __slots__ = ("_name",)

    def __init__(self, topic: str, partition: int) -> None:
        self._name = f"{topic}-{partition}"

    def __enter__(self) -> None:
        """Nothing is held: one object serves all readers, also at the same time."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise ApiError(ErrorCode.kafka_storage_error, f"{self._name} cannot be read: {error}") from error
        if isinstance(error, CorruptBatch | struct.error):
            raise ApiError(ErrorCode.corrupt_message, f"{self._name} is damaged: {error}") from error
