"""What one request uses: made for a request only while the cluster has quotas."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from kio.schema.errors import ErrorCode

from catchment.broker.quotas.enforcement import Quotas
from catchment.broker.quotas.limits import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from catchment.protocol.errors import ApiError

_BETWEEN_BROKERS: Final = frozenset({27, 83, 84, 85, 86, 87})
"""WriteTxnMarkers and the share-state APIs: brokers ask them of one another, and nobody's time quota pays for that."""
_NO_LIMIT: Final = (1 << 31) - 1


class RequestMeter:
    def __init__(self, quotas: Quotas, principal: str, client_id: str, api_key: int) -> None:
        self._quotas = quotas
        self._user = principal.partition(":")[2]
        self._client_id = client_id
        self._counts_time = api_key not in _BETWEEN_BROKERS
        self._busy_s = 0.0
        self._pause_ms = 0
        self._pausing_key = REQUEST_PERCENTAGE

    def step(self, coroutine: Coroutine[Any, Any, Any], value: Any) -> Any:
        """Go on with the handler, and count the time for which it keeps the loop."""
        started_s = self._quotas.monotonic_s()
        try:
            return coroutine.send(value)
        finally:
            self._busy_s += self._quotas.monotonic_s() - started_s

    def produced(self, size: int) -> int:
        """Count the bytes of a Produce request; the milliseconds for which the client must pause."""
        self._pause(PRODUCER_BYTE_RATE, self._quotas.use(PRODUCER_BYTE_RATE, self._user, self._client_id, size))
        return self._pause_ms

    def most_fetched_bytes(self) -> int:
        """More than this a fetch should not ask for: it would have to wait in any case."""
        most = self._quotas.most_at_once(CONSUMER_BYTE_RATE, self._user, self._client_id)
        return _NO_LIMIT if most is None else min(int(most), _NO_LIMIT)

    def may_fetch(self, size: int) -> bool:
        """Count the bytes of an answer, unless they are beyond the quota: then the client gets an empty answer and a pause."""
        pause_ms, is_given = self._quotas.use_if_within(CONSUMER_BYTE_RATE, self._user, self._client_id, size)
        self._pause(CONSUMER_BYTE_RATE, pause_ms)
        return is_given

    def fetched(self, size: int) -> None:
        """Count the bytes of an answer that cannot be held back any more."""
        self._pause(CONSUMER_BYTE_RATE, self._quotas.use(CONSUMER_BYTE_RATE, self._user, self._client_id, size))

    def mutate(self, count: int, *, strict: bool) -> None:
        """Count partitions to be made or deleted; ApiError if there have been too many and the client knows that error."""
        is_allowed, pause_ms = self._quotas.mutate(self._user, self._client_id, count, strict=strict)
        self._pause(CONTROLLER_MUTATION_RATE, pause_ms)
        if not is_allowed:
            raise ApiError(ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")

    def finish(self, *, is_answered: bool) -> int:
        """The milliseconds for which the client must pause. Time is not counted where no answer could tell of it."""
        if is_answered and self._counts_time:
            percent = self._busy_s * 100
            pause_ms = self._quotas.use(REQUEST_PERCENTAGE, self._user, self._client_id, percent)
            self._pause(REQUEST_PERCENTAGE, min(pause_ms, self._quotas.sample_ms))
        if self._pause_ms:
            self._quotas.pauses_ms[self._pausing_key] += self._pause_ms
        return self._pause_ms

    def _pause(self, key: str, pause_ms: int) -> None:
        if pause_ms > self._pause_ms:
            self._pause_ms = pause_ms
            self._pausing_key = key
