"""What must be known of transactions that somebody else's broker kept, before the first producer of ours gets its id."""

import contextlib
from collections.abc import Iterable

from catchment.broker.coordinators.loading import replay_log
from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.coordination.transactions.commands import TransactionLimits
from catchment.coordination.transactions.records import NO_PRODUCER_ID
from catchment.coordination.transactions.shard import TransactionShard
from catchment.protocol.batch import CorruptBatch
from catchment.protocol.errors import ApiError
from catchment.storage.log import Log


async def highest_producer_id(logs: Iterable[Log]) -> int:
    """The highest id in partitions of `__transaction_state`: its producer may not have written anything yet."""
    highest = NO_PRODUCER_ID
    for log in logs:
        shard = TransactionShard(TransactionLimits(), lambda _: None)
        # What cannot be read will not be served either, so nobody goes on with the ids in it.
        with contextlib.suppress(ApiError, OSError, CorruptBatch, UnreadableRecord):
            await replay_log(log, log.log_end_offset, shard)
        for known in shard.state.logged.values():
            highest = max(highest, known.producer_id, known.next_producer_id)
    return highest
