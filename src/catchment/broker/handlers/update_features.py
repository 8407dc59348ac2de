"""UpdateFeatures (key 57): change the level of a feature of the cluster (KIP-584).

Behaviour
    Every feature is at its highest level from the start. The current level of a feature is accepted. An unknown level or feature,
    and a downgrade without a downgrade type, get INVALID_UPDATE_VERSION, as in Kafka. One error fails the whole request.
Versions
    0-2. Downgrade types and validate-only since 1 (KIP-778). A result for each feature up to 1.
Gaps
    Levels do not change: a downgrade that Kafka would perform gets INVALID_UPDATE_VERSION too.
"""

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.handlers import FEATURES
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.adapters.update_features import UpdateFeaturesResponse

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


@api(57, versions=(0, 2))
async def update_features(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    async for update in Turns()(request.feature_updates):
        problem = _problem(update, context.services.node_id)
        if problem is not None:
            reason = f"Invalid update version {update.max_version_level} for feature {update.feature}. {problem}"
            return UpdateFeaturesResponse(
                throttle_time=NO_THROTTLE,
                error_code=ErrorCode.invalid_update_version,
                error_message=f"The update failed for all features since the following feature had an error: {reason}",
            )
    return UpdateFeaturesResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            # The message is Kafka's.
            UpdatableFeatureResult(feature=name, error_code=ErrorCode.none, error_message="NONE")
            for name in dict.fromkeys(update.feature for update in request.feature_updates)
        ),
    )


def _problem(update: FeatureUpdateKey, node_id: int) -> str | None:
    """Why a change is invalid, with Kafka's messages in its order of checks."""
    level, feature = update.max_version_level, FEATURES.get(update.feature)
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return (
            f"Local controller {node_id} does not support this feature."
            if level
            else f"Feature {update.feature} not found."
        )
    if not feature.lowest <= level <= feature.highest:
        return f"Local controller {node_id} only supports versions {feature.lowest}-{feature.highest}"
    if level == feature.highest:
        return None
    if update.upgrade_type == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    return f"Catchment only supports this feature at version {feature.highest}."
