"""Which quota applies to a client, in Kafka's order, and which clients share it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.broker.quotas.limits import DEFAULT, Limit, Limits, Owner
from catchment.cluster.metadata import QuotaEntity

ORDER = [
    (QuotaEntity("ann", "app"), Owner("ann", "app")),
    (QuotaEntity("ann", DEFAULT), Owner("ann", "app")),
    (QuotaEntity("ann"), Owner("ann")),
    (QuotaEntity(DEFAULT, "app"), Owner("ann", "app")),
    (QuotaEntity(DEFAULT, DEFAULT), Owner("ann", "app")),
    (QuotaEntity(DEFAULT), Owner("ann")),
    (QuotaEntity(client_id="app"), Owner(client_id="app")),
    (QuotaEntity(client_id=DEFAULT), Owner(client_id="app")),
]
"""The most specific first."""
OF_OTHERS = {
    QuotaEntity("bob"): {"rate": 1.0},
    QuotaEntity("ann", "other"): {"rate": 2.0},
    QuotaEntity(client_id="other"): {"rate": 3.0},
    QuotaEntity(ip="10.0.0.1"): {"rate": 4.0},
    QuotaEntity("ann", "app"): {"another": 5.0},
}


@given(st.sets(st.sampled_from(range(len(ORDER)))))
def test_the_most_specific_entity_that_has_the_quota_wins(present: set[int]) -> None:
    quotas = {ORDER[place][0]: {"rate": 100.0 + place} for place in present}
    found = Limits({**OF_OTHERS, **quotas}).of_client("rate", "ann", "app")
    if present:
        first = min(present)
        assert found == Limit(ORDER[first][1], 100.0 + first)
    else:
        assert found is None


@pytest.mark.parametrize(("ip", "bound"), [("10.0.0.1", 4.0), ("10.0.0.2", 9.0)])
def test_an_address_has_its_own_quota_or_the_default(ip: str, bound: float) -> None:
    limits = Limits({**OF_OTHERS, QuotaEntity(ip=DEFAULT): {"rate": 9.0}})
    assert limits.of_address("rate", ip) == Limit(Owner(ip=ip), bound)


def test_without_quotas_there_is_nothing_to_look_up() -> None:
    assert Limits({}).is_empty
    assert not Limits(OF_OTHERS).is_empty
    assert Limits(OF_OTHERS).of_address("rate", "10.0.0.9") is None
    assert Limits(OF_OTHERS).of_client("unset", "ann", "app") is None


def test_a_client_without_an_id_falls_under_the_default() -> None:
    limits = Limits({QuotaEntity(client_id=DEFAULT): {"rate": 9.0}})
    assert limits.of_client("rate", "ann", "") == Limit(Owner(client_id=""), 9.0)


def test_more_clients_than_are_cached_still_find_their_quota() -> None:
    limits = Limits({QuotaEntity(client_id=DEFAULT): {"rate": 9.0}, QuotaEntity(client_id="app"): {"rate": 1.0}})
    for number in range(2 * 4096 + 1):
        assert limits.of_client("rate", "ann", f"client-{number}") == Limit(Owner(client_id=f"client-{number}"), 9.0)
    assert limits.of_client("rate", "ann", "app") == Limit(Owner(client_id="app"), 1.0)
