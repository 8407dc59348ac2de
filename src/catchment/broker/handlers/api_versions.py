"""ApiVersions (key 18): the APIs, versions and features that this broker supports.

Behaviour
    The table lists the versions that the handlers serve. An unknown version of this API gets UNSUPPORTED_VERSION in a version-0
    body with the table, so that the client can retry with a version from it (KIP-511). A software name or version with characters
    other than letters, digits, "-" and "." gets INVALID_REQUEST without a table. The features are those of Kafka that clients act
    on: with `transaction.version` 2, Java producers add partitions to a transaction by writing to them (KIP-890).
Versions
    0-4. The response header is always version 0. Software names and features since 3.
Gaps
    The features do not change, so their epoch is constant.
"""

import re

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.handlers import CLAIMS, FEATURES
from catchment.broker.network.routing import api

_SUPPORTED = tuple(
    SupportedFeatureKey(name=name, min_version=i16(feature.lowest), max_version=i16(feature.highest))
    for name, feature in FEATURES.items()
)
_FINALIZED = tuple(
    FinalizedFeatureKey(name=name, max_version_level=i16(feature.highest), min_version_level=i16(feature.highest))
    for name, feature in FEATURES.items()
)
_FEATURES_EPOCH = i64(1)
_FIRST_VERSION_WITH_NAMES = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@api(18, versions=(0, 4))
async def api_versions(context: RequestContext, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    if request is not None and context.header.api_version >= _FIRST_VERSION_WITH_NAMES and not _is_valid(request):
        return ApiVersionsResponse(error_code=ErrorCode.invalid_request, api_keys=(), throttle_time=NO_THROTTLE)
    return ApiVersionsResponse(
        error_code=ErrorCode.none if request is not None else ErrorCode.unsupported_version,
        api_keys=tuple(
            ApiVersion(
                api_key=i16(key),
                min_version=i16(claim.oldest if claim.advertised_oldest is None else claim.advertised_oldest),
                max_version=i16(claim.newest),
            )
            for key, claim in CLAIMS.items()
        ),
        throttle_time=NO_THROTTLE,
        supported_features=_SUPPORTED,
        finalized_features_epoch=_FEATURES_EPOCH,
        finalized_features=_FINALIZED,
    )


def _is_valid(request: ApiVersionsRequest) -> bool:
    return all(map(_SOFTWARE.fullmatch, (request.client_software_name, request.client_software_version)))
