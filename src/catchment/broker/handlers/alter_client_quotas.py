"""AlterClientQuotas (key 49): set and remove quotas of users, client ids and addresses (KIP-546).

Behaviour
    Each entity succeeds or fails as a whole. The changes of the valid entities are made together; they are durable and in effect
    when the response is sent. For an entity that appears twice, the first change applies. Removing a quota that is not set is no
    error.
Versions
    0-1. Version 1 is the first flexible one.
Gaps
    An IP must be an address: host names are not resolved.
"""

from collections.abc import Sequence

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest
from kio.schema.alter_client_quotas.v1.request import EntryData as AskedEntry
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse, EntityData, EntryData
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.quotas.alterations import Operation, altered, check_operations, parse_entity
from catchment.broker.turns import Turns
from catchment.cluster.metadata import ClientQuotas, QuotaEntity
from catchment.protocol.errors import ApiError


@api(49, versions=(0, 1))
async def alter_client_quotas(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    turns = Turns()
    changes: dict[QuotaEntity, Sequence[Operation]] = {}
    failures = [_collect(entry, changes) async for entry in turns(request.entries)]

    def change(quotas: ClientQuotas) -> ClientQuotas:
        # The operations were checked above, so this is quick.
        return altered(quotas, changes)

    try:
        if not request.validate_only:
            await context.services.controller.change_client_quotas(change)
    except ApiError as error:
        failures = [error] * len(request.entries)
    responses = [
        _response(entry, failure) async for entry, failure in turns(zip(request.entries, failures, strict=True))
    ]
    return AlterClientQuotasResponse(throttle_time=NO_THROTTLE, entries=tuple(responses))


def _collect(entry: AskedEntry, changes: dict[QuotaEntity, Sequence[Operation]]) -> ApiError | None:
    """Add a valid change of an entity to `changes`; the error of an invalid one."""
    try:
        entity = parse_entity((part.entity_type, part.entity_name) for part in entry.entity)
        if entity in changes:
            raise ApiError(ErrorCode.invalid_request, "Ignoring duplicate entity: the request has it twice")
        # An invalid change counts for the detection of duplicates too.
        changes[entity] = ()
        operations = [Operation(asked.key, None if asked.remove else float(asked.value)) for asked in entry.ops]
        check_operations(entity, operations)
        changes[entity] = operations
    except ApiError as error:
        return error
    return None


def _response(entry: AskedEntry, failure: ApiError | None) -> EntryData:
    return EntryData(
        error_code=ErrorCode.none if failure is None else failure.code,
        error_message=None if failure is None else failure.message,
        entity=tuple(EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity),
    )
