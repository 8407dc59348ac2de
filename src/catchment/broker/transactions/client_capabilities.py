"""What a transactional client understands, as the version of its request implies."""

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.context import RequestContext


class ClientCapabilities(NamedTuple):
    has_transaction_abortable: bool
    """Whether it understands TRANSACTION_ABORTABLE."""
    adds_partitions: bool
    """Whether its first write to a partition adds the partition to the transaction: transactions v2."""

    def error_code(self, code: ErrorCode) -> ErrorCode:
        """The code that this client gets for a code of the transaction coordinator."""
        if code is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if code is ErrorCode.transaction_abortable and not self.has_transaction_abortable:
            return ErrorCode.invalid_txn_state
        return code


def fenced_error_code(context: RequestContext, code: ErrorCode, first_version: int) -> ErrorCode:
    """INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED for clients before `first_version` of an API (KIP-588)."""
    is_old = context.header.api_version < first_version
    return ErrorCode.invalid_producer_epoch if is_old and code is ErrorCode.producer_fenced else code
