"""Measured rates and throttle times of the clients that have a quota.

While the cluster has no quota, `is_active` is False and nothing is measured. Usage is measured per owner of a quota; an idle
measurement is dropped, since a new one gives the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from catchment.broker.quotas.limits import (
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    Limit,
    Limits,
    Owner,
)
from catchment.broker.quotas.rates import SampledRate, TokenBucket, Window
from catchment.cluster.metadata import MetadataImage
from catchment.ports.clock import Clock
from catchment.settings.broker import BrokerSettings

_FEW_MEASUREMENTS: Final = 1024
"""Below this number, idle measurements are not dropped."""


class Quotas:
    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self.monotonic_s = clock.monotonic_s
        self.is_active = False
        self.muted_connections = 0
        self.throttle_times_ms: Counter[str] = Counter()
        """The sum of all throttle times in responses, by quota key."""
        self._limits = Limits({})
        self._window = Window(
            settings.integer("quota.window.num"), settings.integer("quota.window.size.seconds") * 1000
        )
        self._mutation_window = Window(
            settings.integer("controller.quota.window.num"),
            settings.integer("controller.quota.window.size.seconds") * 1000,
        )
        self._rates: dict[tuple[str, Owner], SampledRate] = {}
        self._buckets: dict[Owner, TokenBucket] = {}
        self._crowded_at = _FEW_MEASUREMENTS

    @property
    def sample_ms(self) -> int:
        return self._window.sample_ms

    def now_ms(self) -> int:
        return int(self.monotonic_s() * 1000)

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Apply the quotas of a new image. Measurements are kept: a changed limit does not reset what a client has used."""
        if new.client_quotas is not old.client_quotas:
            self._limits = Limits(new.client_quotas)
            self.is_active = not self._limits.is_empty

    def record(self, key: str, user: str, client_id: str, value: float) -> int:
        """Record what a client used; its throttle time in milliseconds."""
        limit = self._limits.of_client(key, user, client_id)
        return 0 if limit is None else self._record(key, limit, value)

    def record_if_within(self, key: str, user: str, client_id: str, value: float) -> tuple[int, bool]:
        """Like `record`, but a value beyond the quota is not recorded; also whether it was recorded.

        A value beyond the quota of a client that has used nothing is recorded: otherwise it would never be allowed.
        """
        limit = self._limits.of_client(key, user, client_id)
        if limit is None:
            return 0, True
        now_ms = self.now_ms()
        rate = self._rate(key, limit.owner, now_ms)
        has_used = rate.used(now_ms) > 0
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit.value, now_ms)
        is_allowed = not (throttle_ms and has_used)
        if not is_allowed:
            rate.record(-value, now_ms)
        return throttle_ms, is_allowed

    def burst_limit(self, key: str, user: str, client_id: str) -> float | None:
        """How much a client that has used nothing may use without being throttled; None if it has no quota."""
        limit = self._limits.of_client(key, user, client_id)
        return None if limit is None else limit.value * self._window.full_ms / 1000

    def mutate(self, user: str, client_id: str, count: int, *, strict: bool) -> tuple[bool, int]:
        """Record controller mutations: whether they are allowed, and the throttle time (KIP-599)."""
        limit = self._limits.of_client(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return True, 0
        now_ms = self.now_ms()
        bucket = self._buckets.get(limit.owner)
        if bucket is None:
            self._drop_idle(now_ms)
            bucket = self._buckets[limit.owner] = TokenBucket(self._mutation_window)
        throttle_ms = bucket.throttle_ms(limit.value, now_ms) if strict else 0
        if throttle_ms:
            return False, throttle_ms
        bucket.record(count, limit.value, now_ms)
        return True, 0 if strict else bucket.throttle_ms(limit.value, now_ms)

    def connect(self, ip: str) -> int:
        """Record a connection from an address; if there are too many, how long to wait before closing it."""
        limit = self._limits.of_address(CONNECTION_CREATION_RATE, ip)
        if limit is None:
            return 0
        throttle_ms = self._record(CONNECTION_CREATION_RATE, limit, 1)
        if throttle_ms:
            self._rates[CONNECTION_CREATION_RATE, limit.owner].record(-1, self.now_ms())
        return min(throttle_ms, self.sample_ms)

    def rates(self) -> Iterator[tuple[str, Owner, float]]:
        """The rate per second of each owner of a quota, by quota key."""
        now_ms = self.now_ms()
        for (key, owner), rate in list(self._rates.items()):
            yield key, owner, rate.per_second(now_ms)

    def _record(self, key: str, limit: Limit, value: float) -> int:
        now_ms = self.now_ms()
        rate = self._rate(key, limit.owner, now_ms)
        rate.record(value, now_ms)
        return rate.throttle_ms(limit.value, now_ms)

    def _rate(self, key: str, owner: Owner, now_ms: int) -> SampledRate:
        rate = self._rates.get((key, owner))
        if rate is None:
            self._drop_idle(now_ms)
            rate = self._rates[key, owner] = SampledRate(self._window)
        return rate

    def _drop_idle(self, now_ms: int) -> None:
        """Drop idle measurements: clients choose their ids, so only the length of the window bounds their number."""
        if len(self._rates) + len(self._buckets) < self._crowded_at:
            return
        self._rates = {key: rate for key, rate in self._rates.items() if not rate.is_idle(now_ms)}
        self._buckets = {owner: bucket for owner, bucket in self._buckets.items() if not bucket.is_idle(now_ms)}
        self._crowded_at = max(_FEW_MEASUREMENTS, 2 * (len(self._rates) + len(self._buckets)))
