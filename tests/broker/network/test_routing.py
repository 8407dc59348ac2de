"""The index of handlers agrees with the claim of each handler."""

import pkgutil

import pytest

from catchment.broker import handlers
from catchment.broker.handlers import CLAIMS
from catchment.broker.network.routing import api, route_for
from catchment.protocol.apis import APIS


@pytest.mark.parametrize("key", CLAIMS)
def test_every_handler_claims_the_versions_of_the_index(key: int) -> None:
    route, claim = route_for(key), CLAIMS[key]
    assert (route.key, route.oldest, route.newest) == (key, claim.oldest, claim.newest)
    assert APIS[key].oldest <= claim.oldest <= claim.newest <= APIS[key].newest


@pytest.mark.parametrize("key", CLAIMS)
def test_every_handler_documents_behaviour_versions_and_gaps(key: int) -> None:
    docstring = route_for(key).handler.__globals__["__doc__"]
    assert docstring.startswith(f"{APIS[key].name} (key {key})")
    for section in ("Behaviour", "Versions", "Gaps"):
        assert f"\n{section}\n" in docstring


def test_no_handler_is_missing_from_the_index() -> None:
    assert {module.name for module in pkgutil.iter_modules(handlers.__path__)} == {
        claim.module for claim in CLAIMS.values()
    }


def test_a_claim_that_differs_from_the_index_is_rejected() -> None:
    async def handler(context: object, request: object) -> None: ...

    with pytest.raises(ValueError, match="the index has"):
        api(3, versions=(0, 99))(handler)
