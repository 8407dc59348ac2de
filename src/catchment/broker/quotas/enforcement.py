"""The measures of all clients that have a quota.

While the cluster has no quota, `is_active` is False and nobody asks for more. What a client has used is measured per owner of
a quota; a measure that has come to rest is dropped, since a fresh one says the same.
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

_FEW_MEASURES: Final = 1024
"""Below this number nobody looks for measures to drop."""


class Quotas:
    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self.monotonic_s = clock.monotonic_s
        self.is_active = False
        self.muted_connections = 0
        self.pauses_ms: Counter[str] = Counter()
        """The sum of all pauses that clients were told, by quota key."""
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
        self._crowded_at = _FEW_MEASURES

    @property
    def sample_ms(self) -> int:
        return self._window.sample_ms

    def now_ms(self) -> int:
        return int(self.monotonic_s() * 1000)

    def apply(self, old: MetadataImage, new: MetadataImage) -> None:
        """Take on the quotas of a new image. Measures stay: a client does not start afresh when its bound changes."""
        if new.client_quotas is not old.client_quotas:
            self._limits = Limits(new.client_quotas)
            self.is_active = not self._limits.is_empty

    def use(self, key: str, user: str, client_id: str, value: float) -> int:
        """Count what a client used; how many milliseconds it must pause to be within its quota again."""
        limit = self._limits.of_client(key, user, client_id)
        return 0 if limit is None else self._use(key, limit, value)

    def use_if_within(self, key: str, user: str, client_id: str, value: float) -> tuple[int, bool]:
        """As `use`, and whether to give it: what is beyond the quota is neither counted nor given.

        But what is beyond the quota even of a client that has used nothing is given: it would never come otherwise.
        """
        limit = self._limits.of_client(key, user, client_id)
        if limit is None:
            return 0, True
        now_ms = self.now_ms()
        rate = self._rate(key, limit.owner, now_ms)
        has_used = rate.used(now_ms) > 0
        rate.record(value, now_ms)
        pause_ms = rate.pause_ms(limit.bound, now_ms)
        is_given = not (pause_ms and has_used)
        if not is_given:
            rate.record(-value, now_ms)
        return pause_ms, is_given

    def most_at_once(self, key: str, user: str, client_id: str) -> float | None:
        """How much a client that has used nothing may use without a pause; None if it has no quota."""
        limit = self._limits.of_client(key, user, client_id)
        return None if limit is None else limit.bound * self._window.full_ms / 1000

    def mutate(self, user: str, client_id: str, count: int, *, strict: bool) -> tuple[bool, int]:
        """Count changes of the cluster: whether they may be made, and how long the client must pause."""
        limit = self._limits.of_client(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return True, 0
        now_ms = self.now_ms()
        bucket = self._buckets.get(limit.owner)
        if bucket is None:
            self._drop_idle(now_ms)
            bucket = self._buckets[limit.owner] = TokenBucket(self._mutation_window)
        pause_ms = bucket.pause_ms(limit.bound, now_ms) if strict else 0
        if pause_ms:
            return False, pause_ms
        bucket.record(count, limit.bound, now_ms)
        return True, 0 if strict else bucket.pause_ms(limit.bound, now_ms)

    def connect(self, ip: str) -> int:
        """Count a connection from an address; if there are too many, how long to keep the caller waiting for its refusal."""
        limit = self._limits.of_address(CONNECTION_CREATION_RATE, ip)
        if limit is None:
            return 0
        pause_ms = self._use(CONNECTION_CREATION_RATE, limit, 1)
        if pause_ms:
            self._rates[CONNECTION_CREATION_RATE, limit.owner].record(-1, self.now_ms())
        return min(pause_ms, self.sample_ms)

    def rates(self) -> Iterator[tuple[str, Owner, float]]:
        """What each owner of a quota uses a second, by quota key."""
        now_ms = self.now_ms()
        for (key, owner), rate in list(self._rates.items()):
            yield key, owner, rate.per_second(now_ms)

    def _use(self, key: str, limit: Limit, value: float) -> int:
        now_ms = self.now_ms()
        rate = self._rate(key, limit.owner, now_ms)
        rate.record(value, now_ms)
        return rate.pause_ms(limit.bound, now_ms)

    def _rate(self, key: str, owner: Owner, now_ms: int) -> SampledRate:
        rate = self._rates.get((key, owner))
        if rate is None:
            self._drop_idle(now_ms)
            rate = self._rates[key, owner] = SampledRate(self._window)
        return rate

    def _drop_idle(self, now_ms: int) -> None:
        """Clients choose their ids, so their number has no bound but what one window can hold."""
        if len(self._rates) + len(self._buckets) < self._crowded_at:
            return
        self._rates = {key: rate for key, rate in self._rates.items() if not rate.is_idle(now_ms)}
        self._buckets = {owner: bucket for owner, bucket in self._buckets.items() if not bucket.is_idle(now_ms)}
        self._crowded_at = max(_FEW_MEASURES, 2 * (len(self._rates) + len(self._buckets)))
