"""UpdateFeatures: version 0 has no upgrade types, and up to version 1 the response has a result for each feature.

Version 2 has only one error. A handler that returns the response class of this module with `results` supports all versions.
"""

from dataclasses import dataclass
from typing import Any

from kio.schema.update_features.v0.request import FeatureUpdateKey as OldestFeatureUpdateKey
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v2 import response as newest
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.static.primitive import i8

from catchment.protocol.adapters.conversion import lift

UPGRADE = i8(1)
SAFE_DOWNGRADE = i8(2)
_LAST_VERSION_WITH_RESULTS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse(newest.UpdateFeaturesResponse):
    """Kafka's newest response, with the results of older versions."""

    results: tuple[UpdatableFeatureResult, ...] = ()


def lift_request(request: Any, newest_class: type[UpdateFeaturesRequest]) -> Any:
    if request.__version__ > 0:
        return lift(request, newest_class)
    updates = tuple([_lift_update(update) for update in request.feature_updates])
    return lift(request, newest_class, feature_updates=updates)


def _lift_update(update: Any) -> Any:
    return lift(update, FeatureUpdateKey, upgrade_type=SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE)


def lower_request(request: UpdateFeaturesRequest, version_class: Any) -> Any:
    return request if version_class.__version__ > 0 else _lower_to_version_0(request, version_class)


def _lower_to_version_0(request: UpdateFeaturesRequest, version_class: Any) -> Any:
    updates = [
        lift(update, OldestFeatureUpdateKey, allow_downgrade=update.upgrade_type != UPGRADE)
        for update in request.feature_updates
    ]
    return lift(request, version_class, feature_updates=tuple(updates))


def lift_response(response: Any, newest_class: Any) -> UpdateFeaturesResponse:
    lifted: UpdateFeaturesResponse = lift(response, UpdateFeaturesResponse)
    return lifted


def lower_response(response: newest.UpdateFeaturesResponse, version_class: Any) -> Any:
    if version_class.__version__ > _LAST_VERSION_WITH_RESULTS or isinstance(response, UpdateFeaturesResponse):
        return response
    return lift(response, UpdateFeaturesResponse)
