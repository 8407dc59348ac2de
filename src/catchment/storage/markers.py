"""Write the markers that end transactions, together with the index of those that were aborted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import Buffer

from catchment.ports.disk import TornWrite
from catchment.protocol.batch import BatchHeader
from catchment.protocol.errors import ApiError
from catchment.storage.control_record import TransactionMarker
from catchment.storage.segment import Segment
from catchment.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from catchment.storage.log import Log


def write_marker(
    log: Log, segment: Segment, pieces: Sequence[Buffer], header: BatchHeader, marker: TransactionMarker, offset: int
) -> None:
    """The index of aborted transactions is written first, and taken back if the marker cannot be written."""
    try:
        is_indexed = _index_abort(log, segment, header, marker, offset)
    except OSError as error:
        if isinstance(error, TornWrite):
            log.fail(error)
        raise log.storage_error(error) from error
    try:
        log.write(segment, pieces)
    except ApiError:
        if is_indexed:
            _take_back(log, segment)
        raise


def _take_back(log: Log, segment: Segment) -> None:
    try:
        segment.transaction_index.remove_last()
    except OSError as error:
        # An abort without its marker: only recovery can bring the two together again.
        log.fail(error)


def _index_abort(log: Log, segment: Segment, header: BatchHeader, marker: TransactionMarker, offset: int) -> bool:
    """Note the transaction that an abort marker at `offset` ends, if it has data here."""
    decided = log.producers.decision(header, marker, offset)
    if decided is None or not decided.is_aborted:
        return False
    aborted = AbortedTransaction(*decided[:3], log.producers.stable_bound(decided))
    log.unsynced.add(segment.transaction_index.append(aborted), segment.base_offset)
    log.unsynced.note_directory()
    return True
