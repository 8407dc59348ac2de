"""What clients of different ages call the same thing."""

from kio.schema.errors import ErrorCode

from catchment.broker.context import RequestContext


def fenced_as_told_to(context: RequestContext, error: ErrorCode, first_version: int) -> ErrorCode:
    """Clients before `first_version` of an API know a fenced producer by another name (KIP-588)."""
    is_old = context.header.api_version < first_version
    return ErrorCode.invalid_producer_epoch if is_old and error is ErrorCode.producer_fenced else error
