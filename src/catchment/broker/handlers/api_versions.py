"""ApiVersions (key 18): which APIs this broker serves, and in which versions.

Behaviour
    The table is what the handlers claim. A version that we do not know gets UNSUPPORTED_VERSION in a version-0 body, with
    the table in it, so that a client can try again (KIP-511).
Versions
    0-4. The response header is always version 0.
Gaps
    No finalized features yet: `transaction.version` comes with transactions.
"""

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.handlers import CLAIMS
from catchment.broker.routing import api


@api(18, versions=(0, 4))
async def api_versions(context: RequestContext, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
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
    )
