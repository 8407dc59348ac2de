"""Measured rates and throttle times of clients with quotas, on a manual clock."""

import pytest
from kio.schema.errors import ErrorCode

from catchment.broker.quotas.enforcement import Quotas
from catchment.broker.quotas.limits import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, Owner
from catchment.broker.quotas.meter import RequestMeter
from catchment.cluster.metadata import ClientQuotas, MetadataImage, QuotaEntity
from catchment.ports.clock import ManualClock
from catchment.protocol.errors import ApiError
from catchment.settings.broker import BrokerSettings

ANN = QuotaEntity(user="ann")
EVERY_CLIENT = QuotaEntity(client_id="")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def quotas_of(clock: ManualClock, client_quotas: ClientQuotas, **settings: str) -> Quotas:
    quotas = Quotas(BrokerSettings({"log.dirs": "/data", **settings}), clock)
    quotas.apply(MetadataImage(), MetadataImage(client_quotas=client_quotas))
    return quotas


def test_quotas_are_active_only_while_there_are_some(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {})
    assert not quotas.is_active
    some = MetadataImage(client_quotas={ANN: {PRODUCER_BYTE_RATE: 1.0}})
    quotas.apply(MetadataImage(), some)
    assert quotas.is_active
    quotas.apply(some, MetadataImage())
    assert not quotas.is_active


def test_clients_of_a_user_share_its_quota_and_a_default_applies_to_each(clock: ManualClock) -> None:
    shared = quotas_of(clock, {ANN: {PRODUCER_BYTE_RATE: 100.0}})
    assert shared.record(PRODUCER_BYTE_RATE, "ann", "a", 1000) == 0
    assert shared.record(PRODUCER_BYTE_RATE, "ann", "b", 100) == 1000
    each = quotas_of(clock, {EVERY_CLIENT: {PRODUCER_BYTE_RATE: 100.0}})
    assert each.record(PRODUCER_BYTE_RATE, "ann", "a", 1000) == 0
    assert each.record(PRODUCER_BYTE_RATE, "ann", "b", 1000) == 0
    assert each.record(PRODUCER_BYTE_RATE, "bob", "b", 100) == 1000


def test_a_changed_limit_applies_to_earlier_usage(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {PRODUCER_BYTE_RATE: 100.0}})
    quotas.record(PRODUCER_BYTE_RATE, "ann", "a", 1000)
    quotas.apply(MetadataImage(), MetadataImage(client_quotas={ANN: {PRODUCER_BYTE_RATE: 50.0}}))
    assert quotas.record(PRODUCER_BYTE_RATE, "ann", "a", 0) == 10_000


def test_a_fetch_beyond_the_quota_is_not_counted(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {CONSUMER_BYTE_RATE: 100.0}})
    assert quotas.burst_limit(CONSUMER_BYTE_RATE, "ann", "a") == 1000
    assert quotas.record_if_within(CONSUMER_BYTE_RATE, "ann", "a", 900) == (0, True)
    assert quotas.record_if_within(CONSUMER_BYTE_RATE, "ann", "a", 300) == (2000, False)
    assert quotas.record_if_within(CONSUMER_BYTE_RATE, "ann", "a", 100) == (0, True)


def test_a_response_that_must_be_sent_is_counted_beyond_the_quota(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {CONSUMER_BYTE_RATE: 100.0}})
    for throttle_ms in (0, 9000):
        meter = RequestMeter(quotas, "User:ann", "a", 78)
        meter.fetched(950)
        assert meter.finish(has_response=True) == throttle_ms


def test_a_batch_larger_than_the_whole_window_is_sent_to_a_client_that_has_waited(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {CONSUMER_BYTE_RATE: 100.0}})
    assert quotas.record_if_within(CONSUMER_BYTE_RATE, "ann", "a", 5000) == (40_000, True)
    assert quotas.record_if_within(CONSUMER_BYTE_RATE, "ann", "a", 5000) == (90_000, False)
    clock.advance(11_000)
    assert quotas.record_if_within(CONSUMER_BYTE_RATE, "ann", "a", 5000) == (40_000, True)


def test_connections_beyond_the_rate_of_an_address_are_delayed_and_not_counted(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {QuotaEntity(ip="10.0.0.1"): {"connection_creation_rate": 1.0}})
    pauses = [quotas.connect("10.0.0.1") for _ in range(12)]
    assert pauses == [0] * 10 + [1000, 1000]
    assert quotas.connect("10.0.0.2") == 0
    clock.advance(11_000)
    assert quotas.connect("10.0.0.1") == 0


def test_idle_measurements_are_dropped(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {EVERY_CLIENT: {PRODUCER_BYTE_RATE: 1.0, "controller_mutation_rate": 1.0}})
    for number in range(1023):
        quotas.record(PRODUCER_BYTE_RATE, "ann", f"passing-{number}", 1)
    quotas.mutate("ann", "busy", 100, strict=True)
    clock.advance(11_000)
    quotas.record(PRODUCER_BYTE_RATE, "ann", "new", 1)
    assert [owner for _, owner, _ in quotas.rates()] == [Owner(client_id="new")]
    assert quotas.mutate("ann", "busy", 1, strict=True) == (False, 78_000)


def test_a_strict_client_is_rejected_only_without_tokens(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {"controller_mutation_rate": 2.0}})
    meter = RequestMeter(quotas, "User:ann", "a", 19)
    meter.mutate(32, strict=True)
    assert meter.finish(has_response=True) == 0
    with pytest.raises(ApiError) as rejected:
        meter.mutate(1, strict=True)
    assert rejected.value.code is ErrorCode.throttling_quota_exceeded
    assert meter.finish(has_response=True) == 5000
    clock.advance(5000)
    RequestMeter(quotas, "User:ann", "a", 19).mutate(1, strict=True)


def test_an_older_client_is_only_throttled(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {"controller_mutation_rate": 2.0}})
    meter = RequestMeter(quotas, "User:ann", "a", 19)
    meter.mutate(32, strict=False)
    assert meter.finish(has_response=True) == 5000
    assert quotas.throttle_times_ms == {"controller_mutation_rate": 5000}


async def _takes(clock: ManualClock, duration_ms: int) -> None:
    clock.advance(duration_ms)


def _serve(meter: RequestMeter, clock: ManualClock, duration_ms: int) -> None:
    with pytest.raises(StopIteration):
        meter.step(_takes(clock, duration_ms), None)


def test_time_on_the_loop_counts_as_percent_and_throttles_for_one_sample_at_most(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {REQUEST_PERCENTAGE: 1.0}})
    within = RequestMeter(quotas, "User:ann", "a", 3)
    _serve(within, clock, 100)
    assert within.finish(has_response=True) == 0
    beyond = RequestMeter(quotas, "User:ann", "a", 3)
    _serve(beyond, clock, 5)
    assert beyond.finish(has_response=True) == 495
    far_beyond = RequestMeter(quotas, "User:ann", "a", 3)
    _serve(far_beyond, clock, 500)
    assert far_beyond.finish(has_response=True) == 1000


def test_no_time_is_counted_without_a_response_or_between_brokers(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {REQUEST_PERCENTAGE: 1.0}})
    unanswered = RequestMeter(quotas, "User:ann", "a", 0)
    _serve(unanswered, clock, 5000)
    assert unanswered.finish(has_response=False) == 0
    markers = RequestMeter(quotas, "User:ann", "a", 27)
    _serve(markers, clock, 5000)
    assert markers.finish(has_response=True) == 0
    assert list(quotas.rates()) == []


def test_the_longest_of_several_throttle_times_is_returned(clock: ManualClock) -> None:
    quotas = quotas_of(clock, {ANN: {PRODUCER_BYTE_RATE: 100.0, REQUEST_PERCENTAGE: 1.0}})
    meter = RequestMeter(quotas, "User:ann", "a", 0)
    assert meter.produced(1300) == 3000
    _serve(meter, clock, 5000)
    assert meter.finish(has_response=True) == 3000
    assert quotas.throttle_times_ms == {PRODUCER_BYTE_RATE: 3000}


def test_the_window_follows_the_settings(clock: ManualClock) -> None:
    settings = {"quota.window.num": "3", "quota.window.size.seconds": "2"}
    quotas = quotas_of(clock, {ANN: {CONSUMER_BYTE_RATE: 100.0}}, **settings)
    assert quotas.burst_limit(CONSUMER_BYTE_RATE, "ann", "a") == 400
    assert quotas.sample_ms == 2000
