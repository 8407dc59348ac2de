"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials of users (KIP-554).

Behaviour
    Setting a credential gets SECURITY_DISABLED: it would be stored and never used. Removing one gets RESOURCE_NOT_FOUND. An empty
    name, an unknown mechanism and a wrong number of iterations get Kafka's errors. Each user has one result.
Versions
    0.
Gaps
    There is no SCRAM.
"""

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError

_MIN_ITERATIONS = {1: 4096, 2: 4096}
"""By mechanism: SCRAM-SHA-256 and SCRAM-SHA-512."""
_MAX_ITERATIONS = 16384


@api(51, versions=(0, 0))
async def alter_user_scram_credentials(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    results: dict[str, AlterUserScramCredentialsResult] = {}
    async for change in Turns()(changes):
        if change.name not in results:
            error = _error(change)
            results[change.name] = AlterUserScramCredentialsResult(
                user=change.name, error_code=error.code, error_message=error.message
            )
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE, results=tuple(results[user] for user in sorted(results))
    )


def _error(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> ApiError:
    if not change.name:
        return ApiError(ErrorCode.unacceptable_credential, "Username must not be empty")
    if change.mechanism not in _MIN_ITERATIONS:
        return ApiError(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        return ApiError(ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist")
    if change.iterations < _MIN_ITERATIONS[change.mechanism]:
        return ApiError(ErrorCode.unacceptable_credential, "Too few iterations")
    if change.iterations > _MAX_ITERATIONS:
        return ApiError(ErrorCode.unacceptable_credential, "Too many iterations")
    return ApiError(
        ErrorCode.security_disabled, "Catchment has no SASL listener, so SCRAM credentials would never be used."
    )
