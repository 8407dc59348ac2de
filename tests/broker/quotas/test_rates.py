"""Rates against a plain transcription of Kafka's samples, and the effect of the throttle times."""

from hypothesis import given
from hypothesis import strategies as st

from catchment.broker.quotas.rates import SampledRate, TokenBucket, Window

WINDOW = Window(samples=11, sample_ms=1000)
EVENTS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 100_000)), min_size=1, max_size=60)
"""How long after the one before it, and how much."""
WINDOWS = st.builds(Window, st.integers(2, 12), st.sampled_from([1, 10, 1000, 3000]))


class RingOfSamples:
    """Kafka's way: a ring of reused slots, all of which are checked every time."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.slots: list[dict[str, float]] = []
        self.current = 0

    def record(self, value: float, now_ms: int) -> None:
        fresh = {"start": now_ms, "last": now_ms, "value": 0.0}
        if not self.slots:
            self.slots.append(fresh)
        elif now_ms - self.slots[self.current]["start"] >= self.window.sample_ms:
            self.current = (self.current + 1) % (self.window.samples + 1)
            if self.current < len(self.slots):
                self.slots[self.current] = fresh
            else:
                self.slots.append(fresh)
        self.slots[self.current]["value"] += value
        self.slots[self.current]["last"] = now_ms

    def duration_ms(self, now_ms: int) -> float:
        for slot in self.slots:
            if now_ms - slot["last"] >= self.window.samples * self.window.sample_ms:
                slot.update(start=now_ms, last=now_ms, value=0.0)
        elapsed_ms = now_ms - min(slot["start"] for slot in self.slots)
        full = elapsed_ms // self.window.sample_ms
        if full < self.window.samples - 1:
            elapsed_ms += (self.window.samples - 1 - full) * self.window.sample_ms
        return elapsed_ms

    def per_second(self, now_ms: int) -> float:
        duration_ms = self.duration_ms(now_ms)
        return sum(slot["value"] for slot in self.slots) * 1000 / duration_ms


@given(WINDOWS, EVENTS, st.integers(1, 50_000))
def test_a_rate_and_its_throttle_time_are_those_of_kafka(
    window: Window, events: list[tuple[int, int]], bound: int
) -> None:
    rate, ring = SampledRate(window), RingOfSamples(window)
    now_ms = 5_000_000
    for gap_ms, value in events:
        now_ms += gap_ms
        rate.record(value, now_ms)
        ring.record(value, now_ms)
        observed = ring.per_second(now_ms)
        assert rate.per_second(now_ms) == observed
        expected = (observed - bound) / bound * ring.duration_ms(now_ms)
        assert rate.throttle_ms(bound, now_ms) == max(0, round(expected))


@given(EVENTS, st.integers(1000, 100_000))
def test_a_throttled_client_gets_less_than_twice_the_limit_and_a_window(
    events: list[tuple[int, int]], bound: int
) -> None:
    """As in Kafka, no tighter limit holds: after a throttle time as long as the window, a new burst is allowed."""
    rate = SampledRate(WINDOW)
    start_ms = now_ms = 77_000
    total = 0
    for gap_ms, value in events:
        now_ms += gap_ms
        rate.record(value, now_ms)
        total += value
        now_ms += rate.throttle_ms(bound, now_ms)
    assert total < 2 * bound * (now_ms - start_ms + WINDOW.samples * WINDOW.sample_ms) / 1000


def test_a_first_burst_may_use_what_the_whole_window_allows() -> None:
    rate = SampledRate(WINDOW)
    rate.record(10_000, 0)
    assert rate.throttle_ms(1000, 0) == 0
    rate.record(1000, 0)
    assert rate.throttle_ms(1000, 0) == 1000


def test_an_undone_record_leaves_no_trace() -> None:
    rate = SampledRate(WINDOW)
    rate.record(500, 0)
    rate.record(90_000, 200)
    rate.record(-90_000, 200)
    assert rate.per_second(200) == 500 * 1000 / 10_200


def test_a_window_of_one_sample_measures_too() -> None:
    rate = SampledRate(Window(samples=1, sample_ms=1000))
    rate.record(10, 0)
    assert rate.per_second(500) == 20
    assert rate.throttle_ms(5, 500) == 1500


def test_a_rate_is_idle_once_its_last_sample_has_left_the_window() -> None:
    rate = SampledRate(WINDOW)
    assert rate.is_idle(0)
    rate.record(1, 400)
    assert not rate.is_idle(11_399)
    assert rate.is_idle(11_400)
    assert rate.per_second(11_400) == 0


def test_a_throttle_time_fits_into_a_response() -> None:
    rate = SampledRate(WINDOW)
    rate.record(1e15, 0)
    assert rate.throttle_ms(0.001, 0) == 2**31 - 1


def test_a_bucket_starts_full_and_refills_at_the_limit() -> None:
    bucket = TokenBucket(WINDOW)
    assert bucket.tokens(5, 0) == 55
    bucket.record(60, 5, 0)
    assert bucket.throttle_ms(5, 0) == 1000
    assert bucket.throttle_ms(5, 999) > 0
    assert bucket.throttle_ms(5, 1000) == 0
    assert not bucket.is_idle(11_999)
    assert bucket.is_idle(12_000)
    assert bucket.tokens(5, 60_000) == 55


@given(EVENTS, st.integers(1, 1000))
def test_a_bucket_holds_what_came_in_less_what_was_taken(events: list[tuple[int, int]], bound: int) -> None:
    bucket = TokenBucket(WINDOW)
    burst = WINDOW.samples * bound
    tokens = float(burst)
    now_ms = 0
    for gap_ms, value in events:
        now_ms += gap_ms
        tokens = min(burst, tokens + bound * gap_ms / 1000) - value
        bucket.record(value, bound, now_ms)
        assert abs(bucket.tokens(bound, now_ms) - tokens) <= 1e-6 * (1 + abs(tokens))
