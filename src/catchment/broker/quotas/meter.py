"""Measures what one request uses. Created for a request only while the cluster has quotas."""

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
"""WriteTxnMarkers and the share-state APIs are sent between brokers, so they do not count towards a client's request quota."""
_NO_LIMIT: Final = (1 << 31) - 1


class RequestMeter:
    def __init__(self, quotas: Quotas, principal: str, client_id: str, api_key: int) -> None:
        self._quotas = quotas
        self._user = principal.partition(":")[2]
        self._client_id = client_id
        self._measures_time = api_key not in _BETWEEN_BROKERS
        self._busy_s = 0.0
        self._throttle_ms = 0
        self._throttling_key = REQUEST_PERCENTAGE

    def step(self, coroutine: Coroutine[Any, Any, Any], value: Any) -> Any:
        """Resume the handler, and measure how long it occupies the event loop."""
        started_s = self._quotas.monotonic_s()
        try:
            return coroutine.send(value)
        finally:
            self._busy_s += self._quotas.monotonic_s() - started_s

    def produced(self, size: int) -> int:
        """Record the bytes of a Produce request; the throttle time in milliseconds."""
        self._throttle(PRODUCER_BYTE_RATE, self._quotas.record(PRODUCER_BYTE_RATE, self._user, self._client_id, size))
        return self._throttle_ms

    def max_fetch_bytes(self) -> int:
        """The largest useful fetch: a larger one would be throttled in any case."""
        limit = self._quotas.burst_limit(CONSUMER_BYTE_RATE, self._user, self._client_id)
        return _NO_LIMIT if limit is None else min(int(limit), _NO_LIMIT)

    def record_fetch_if_allowed(self, size: int) -> bool:
        """Record the bytes of a response, unless they exceed the quota: then the client gets an empty response and is throttled."""
        throttle_ms, is_allowed = self._quotas.record_if_within(CONSUMER_BYTE_RATE, self._user, self._client_id, size)
        self._throttle(CONSUMER_BYTE_RATE, throttle_ms)
        return is_allowed

    def fetched(self, size: int) -> None:
        """Record the bytes of a response that must be sent in any case."""
        self._throttle(CONSUMER_BYTE_RATE, self._quotas.record(CONSUMER_BYTE_RATE, self._user, self._client_id, size))

    def mutate(self, count: int, *, strict: bool) -> None:
        """Record partitions to create or delete; ApiError with `strict`, if the quota is exceeded."""
        is_allowed, throttle_ms = self._quotas.mutate(self._user, self._client_id, count, strict=strict)
        self._throttle(CONTROLLER_MUTATION_RATE, throttle_ms)
        if not is_allowed:
            raise ApiError(ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded.")

    def finish(self, *, has_response: bool) -> int:
        """The throttle time in milliseconds. Request time is not recorded without a response to carry the throttle time."""
        if has_response and self._measures_time:
            percent = self._busy_s * 100
            throttle_ms = self._quotas.record(REQUEST_PERCENTAGE, self._user, self._client_id, percent)
            self._throttle(REQUEST_PERCENTAGE, min(throttle_ms, self._quotas.sample_ms))
        if self._throttle_ms:
            self._quotas.throttle_times_ms[self._throttling_key] += self._throttle_ms
        return self._throttle_ms

    def _throttle(self, key: str, throttle_ms: int) -> None:
        if throttle_ms > self._throttle_ms:
            self._throttle_ms = throttle_ms
            self._throttling_key = key
