"""Runs one shard of a coordinator on its partition: append its records, replay them at once, respond when they are committed.

The records of a command are appended to the partition and replayed in the same step, so that the next command sees them. The
outcome is reported once the high watermark has passed, and only while this broker still leads the partition in the epoch in
which the shard was loaded: the records of a former leader may be lost. Reads wait in the same way for everything that they
have seen. A failed append leaves the log in doubt: the shard is unloaded, every waiting request gets an error, and the log is
replayed into a new shard.

The same happens after an unexpected exception in a command, in the replay of appended records, or in a callback that reports
an outcome. Such a shard may be half changed, but the log is consistent. Callers get UNKNOWN_SERVER_ERROR, and only ApiError
leaves this module.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, TypeVarTuple

from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.loading import replay_log
from catchment.coordination.coordinator_shard import NO_PRODUCER, CoordinatorShard, Producer, UnreadableRecord, Write
from catchment.coordination.timers import Moment
from catchment.ports.clock import Clock
from catchment.protocol.batch import CorruptBatch
from catchment.protocol.errors import ApiError
from catchment.protocol.records import encode_batch, numbered
from catchment.replication.partition import Partition
from catchment.storage.control_record import TransactionMarker, encode_marker
from catchment.storage.log import AppendInfo

_logger = logging.getLogger(__name__)

_ALL = -1
_FIRST_PAUSE_S = 0.01
_MAX_PAUSE_S = 1.0
_NO_PRODUCER = Producer(NO_PRODUCER, -1)
_MAX_FAILED_LOADS = 5
"""In a row. A load that still fails then is taken for permanent, and clients must not wait for it."""
_PRODUCER_ERRORS = (ErrorCode.invalid_producer_epoch, ErrorCode.invalid_txn_state)
"""The log rejected the producer, so nothing was written and the log is not in doubt."""

Answer = TypeVar("Answer")
Arguments = TypeVarTuple("Arguments")
ShardT = TypeVar("ShardT", bound=CoordinatorShard)


class ShardRunner(Generic[ShardT]):
    def __init__(
        self, partition: Partition, new_shard: Callable[[], ShardT], clock: Clock, commit_timeout_ms: int
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self._new_shard = new_shard
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._shard: ShardT | None = None
        self._end_offset = 0
        self._pending: dict[asyncio.Future[None], Write] = {}
        self._unanswered: dict[asyncio.Future[Any], None] = {}
        """Replies that clients wait for. The runner fails those that an unloaded shard leaves open."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._loading: asyncio.Task[None] | None = None
        self._pause_s = 0.0
        """The pause before the log is loaded again."""
        self._is_unreadable = False
        self._is_closed = False

    def start(self) -> None:
        """Begin to replay the log. Until that is done, commands fail with COORDINATOR_LOAD_IN_PROGRESS."""
        if self._loading is not None and self._loading is not asyncio.current_task():
            self._loading.cancel()
        self._loading = asyncio.get_running_loop().create_task(self._load())

    def close(self, error: ErrorCode = ErrorCode.not_coordinator) -> None:
        self._is_closed = True
        if self._loading is not None:
            self._loading.cancel()
        self._unload(error)

    def run(self, command: Callable[[ShardT, Moment, *Arguments], None], *arguments: *Arguments) -> None:
        """Run a command and append its records; ApiError if no shard is loaded, or the command raises one."""
        shard = self._active_shard()
        now = self._now()
        try:
            command(shard, now, *arguments)
        except ApiError:
            raise
        except Exception as fault:
            raise self._handle_fault(shard, fault) from fault
        self._apply_results(shard, now)

    def ask(self, command: Callable[[ShardT, Moment, Callable[[Answer], None]], None]) -> "asyncio.Future[Answer]":
        """Run a command that replies now or later, and return a future of its reply; an ApiError if the shard is unloaded."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        shard = self._shard
        self.run(command, partial(_reply, answered))
        if not answered.done():
            if self._shard is not shard:
                raise ApiError(ErrorCode.unknown_server_error)
            self._unanswered[answered] = None
            answered.add_done_callback(lambda _: self._unanswered.pop(answered, None))
        return answered

    def end_transaction(self, producer: Producer, marker: TransactionMarker) -> "asyncio.Future[None]":
        """Append the marker of a producer and replay it in the same step. The future is done once the marker is committed.

        ApiError if the marker cannot be written; nothing has changed then.
        """
        shard = self._active_shard()
        now = self._now()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        batch = encode_marker(
            marker, producer_id=producer.producer_id, producer_epoch=producer.epoch, timestamp_ms=now.wall_ms
        )
        info = self.partition.append(memoryview(batch), _ALL, is_from_client=False)
        try:
            shard.end_transaction(producer.producer_id, marker.is_commit)
            self._complete_when_durable(shard, Write([], partial(_succeed, ended), partial(_fail, ended)), info, now)
        except Exception as fault:
            raise self._handle_fault(shard, fault) from fault
        with contextlib.suppress(ApiError):
            # `ended` holds the outcome of the marker, even if the shard is unloaded.
            self._apply_results(shard, now)
        return ended

    @property
    def end_offset(self) -> int:
        """The offset after the last record that the shard has replayed."""
        return self._end_offset

    async def wait_loaded(self) -> None:
        """Wait until the log has been replayed, if it is being loaded."""
        if self._loading is not None and not self._loading.done():
            await asyncio.wait([self._loading])

    async def wait_committed(self) -> None:
        """Wait until all replayed records are committed; ApiError if they may be lost."""
        self._active_shard()
        if self._end_offset > self.partition.high_watermark:
            durable = self.partition.writers.add(self._end_offset)
            timer = asyncio.get_running_loop().call_later(self._commit_timeout_ms / 1000, self._time_out, durable)
            try:
                await durable
            except ApiError as error:
                raise ApiError(coordinator_error(error.code), error.message) from error
            finally:
                timer.cancel()
            self._active_shard()

    def _active_shard(self) -> ShardT:
        if self._is_closed or self._is_unreadable or self.partition.log.is_offline:
            raise ApiError(ErrorCode.not_coordinator)
        if self.partition.leader_epoch != self.leader_epoch:
            raise ApiError(ErrorCode.not_coordinator)
        if self._shard is None:
            raise ApiError(ErrorCode.coordinator_load_in_progress)
        return self._shard

    async def _load(self) -> None:
        faults = 0
        # A failure while the shard was starting may have begun another load already.
        while not self._is_unreadable and self._loading is asyncio.current_task():
            await asyncio.sleep(self._pause_s)
            try:
                await self._replay()
                return
            except OSError as error:
                # A disk may recover. Until then clients get COORDINATOR_LOAD_IN_PROGRESS and retry.
                self._log_failed_load("trying again", error)
            except (ApiError, CorruptBatch, UnreadableRecord) as error:
                self._is_unreadable = True
                self._log_failed_load("the shard is not available", error)
            except Exception as fault:
                faults += 1
                self._is_unreadable = faults == _MAX_FAILED_LOADS
                consequence = "the shard is not available" if self._is_unreadable else "trying again"
                self._log_failed_load(consequence, fault, fault)
            self._unload(ErrorCode.not_coordinator)
            self._pause_longer()

    def _log_failed_load(self, consequence: str, error: Exception, fault: Exception | None = None) -> None:
        partition = self.partition
        _logger.error(
            "%s-%d cannot be loaded, %s: %s", partition.topic, partition.number, consequence, error, exc_info=fault
        )

    def _pause_longer(self) -> None:
        self._pause_s = min(2 * self._pause_s + _FIRST_PAUSE_S, _MAX_PAUSE_S)

    async def _replay(self) -> None:
        shard = self._new_shard()
        end_offset = self.partition.log.log_end_offset
        await replay_log(self.partition.log, end_offset, shard)
        self._end_offset = end_offset
        self._shard = shard
        now = self._now()
        # The first write of a shard fails as long as the disk is full: loading again without a pause would never end.
        self._pause_longer()
        shard.loaded(now)
        self._append_writes(shard, now)
        self._set_timer(shard, now)
        if self._shard is shard:
            self._pause_s = 0.0

    def _apply_results(self, shard: ShardT, now: Moment) -> None:
        """Append the records of the last call, and set the timer for the next deadline."""
        try:
            self._append_writes(shard, now)
            self._set_timer(shard, now)
        except Exception as fault:
            raise self._handle_fault(shard, fault) from fault

    def _append_writes(self, shard: ShardT, now: Moment) -> None:
        while writes := shard.take_writes():
            for write in writes:
                if self._shard is not shard:
                    self._report_failed(shard, write, ErrorCode.not_coordinator, now)
                    continue
                try:
                    self._append(shard, write, now)
                except Exception as fault:
                    # The records may be in the log, and the shard may have replayed some of them.
                    self._handle_fault(shard, fault)
                    self._report_failed(shard, write, ErrorCode.unknown_server_error, now)

    def _append(self, shard: ShardT, write: Write, now: Moment) -> None:
        partition = self.partition
        producer = write.producer or _NO_PRODUCER
        batch = encode_batch(
            numbered(write.records),
            base_timestamp_ms=now.wall_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            is_transactional=write.producer is not None,
        )
        if len(batch) > partition.log.config.max_message_bytes:
            # Nothing was written, so the log is not in doubt: only this command fails, as in Kafka.
            self._report_failed(shard, write, ErrorCode.unknown_server_error, now)
            return
        try:
            info = partition.append(memoryview(batch), _ALL, is_from_client=False)
        except ApiError as error:
            if write.producer is not None and error.code in _PRODUCER_ERRORS:
                self._report_failed(shard, write, error.code, now)
                return
            _logger.error(
                "%s-%d: an append failed; loading the shard again: %s", partition.topic, partition.number, error
            )
            self._report_failed(shard, write, coordinator_error(error.code), now)
            self._reload(coordinator_error(error.code))
            return
        for key, value in write.records:
            shard.replay(key, value, producer.producer_id)
        self._complete_when_durable(shard, write, info, now)

    def _complete_when_durable(self, shard: ShardT, write: Write, info: AppendInfo, now: Moment) -> None:
        """Report the outcome of replayed records once it is known."""
        self._end_offset = info.last_offset + 1
        durable = self.partition.durable(info)
        if durable is None and not self._pending:
            self._report_committed(shard, write, now)
            return
        if durable is None:
            # Earlier writes are committed too, but have not been reported yet.
            durable = asyncio.get_running_loop().create_future()
            durable.set_result(None)
        self._pending[durable] = write
        timer = asyncio.get_running_loop().call_later(self._commit_timeout_ms / 1000, self._time_out, durable)
        durable.add_done_callback(partial(self._finish, shard, timer))

    def _finish(self, shard: ShardT, timer: asyncio.TimerHandle, durable: "asyncio.Future[None]") -> None:
        """Report the outcome of a write, or its time-out. This is a callback: it must not raise."""
        timer.cancel()
        error = durable.exception()
        write = self._pending.pop(durable, None)
        if write is None or self._shard is not shard:
            return
        now = self._now()
        if self.partition.leader_epoch != self.leader_epoch:
            error = ApiError(ErrorCode.not_leader_or_follower)
        if error is None:
            self._report_committed(shard, write, now)
        else:
            code = error.code if isinstance(error, ApiError) else ErrorCode.unknown_server_error
            self._report_failed(shard, write, coordinator_error(code), now)
            if code is not ErrorCode.request_timed_out:
                self._reload(coordinator_error(code))
                return
        with contextlib.suppress(ApiError):
            self._apply_results(shard, now)

    def _report_committed(self, shard: ShardT, write: Write, now: Moment) -> None:
        try:
            write.committed(now)
        except Exception as fault:
            self._handle_fault(shard, fault)
            # The records are committed, but the client may not have its response: then it retries.
            self._report_failed(shard, write, ErrorCode.unknown_server_error, now)

    def _report_failed(self, shard: ShardT, write: Write, error: ErrorCode, now: Moment) -> None:
        try:
            write.failed(error, now)
        except Exception as fault:
            self._handle_fault(shard, fault)

    def _time_out(self, durable: "asyncio.Future[None]") -> None:
        if not durable.done():
            durable.set_exception(ApiError(ErrorCode.request_timed_out))

    def _handle_fault(self, shard: ShardT, fault: Exception) -> ApiError:
        """Reload the shard, which an unexpected exception may have left half changed, and return the error for the caller."""
        partition = self.partition
        _logger.error(
            "%s-%d: unexpected error; loading the shard again", partition.topic, partition.number, exc_info=fault
        )
        if self._shard is shard:
            self._reload(ErrorCode.unknown_server_error)
        return ApiError(ErrorCode.unknown_server_error)

    def _reload(self, error: ErrorCode) -> None:
        self._unload(error)
        if not self._is_closed:
            self.start()

    def _unload(self, error: ErrorCode) -> None:
        """Unload the shard. Every waiting request gets the error."""
        shard, self._shard = self._shard, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if shard is None:
            return
        pending, self._pending = self._pending, {}
        unanswered, self._unanswered = self._unanswered, {}
        now = self._now()
        for write in pending.values():
            self._report_failed(shard, write, error, now)
        try:
            shard.close(error)
        except Exception as fault:
            self._handle_fault(shard, fault)
        for answered in unanswered:
            if not answered.done():
                answered.set_exception(ApiError(error))

    def _set_timer(self, shard: ShardT, now: Moment) -> None:
        """Set the timer for the next deadline. Running it too early is cheaper than moving it every time."""
        deadline_ms = shard.next_deadline_ms
        if deadline_ms is None or self._shard is not shard:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_s = max(deadline_ms - now.monotonic_ms, 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        with contextlib.suppress(ApiError):
            self.run(lambda shard, now: shard.run_timers(now))

    def _now(self) -> Moment:
        return Moment(self._clock.now_ms(), int(self._clock.monotonic_s() * 1000))


def _reply(answered: "asyncio.Future[Answer]", answer: Answer) -> None:
    if not answered.done():
        answered.set_result(answer)


def _succeed(ended: "asyncio.Future[None]", _: Moment) -> None:
    if not ended.done():
        ended.set_result(None)


def _fail(ended: "asyncio.Future[None]", code: ErrorCode, _: Moment) -> None:
    if not ended.done():
        ended.set_exception(ApiError(code))


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """The error code for clients of a coordinator when a write fails, as in Kafka."""
    if code in (ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error):
        return ErrorCode.not_coordinator
    if code in (
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
    ):
        return ErrorCode.coordinator_not_available
    return ErrorCode.unknown_server_error
