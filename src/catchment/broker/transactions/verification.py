"""The verification of a request's partitions by the transaction coordinator, before its first writes of a transaction (KIP-890).

Clients of transactions v1 add their partitions themselves, and the coordinator checks that they did. With transactions v2 the
verification adds them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from catchment.broker.transactions.client_capabilities import ClientCapabilities
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.groups.offsets import TopicPartition
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.replication.verification import Verification, WhenVerified

if TYPE_CHECKING:
    from catchment.broker.context import Services


class VerificationRequest:
    """Collects the partitions of one request, and has them verified together."""

    def __init__(
        self,
        services: "Services",
        transactional_id: str,
        capabilities: ClientCapabilities,
        client_error: Callable[[ErrorCode], ApiError],
    ) -> None:
        """`client_error` turns the coordinator's code into the error for this kind of client."""
        self.capabilities = capabilities
        self._services = services
        self._transactional_id = transactional_id
        self._client_error = client_error
        self._producer: Producer | None = None
        self._pending: list[tuple[TopicPartition, Verification]] = []

    def is_required(self, partition: Partition, producer: Producer) -> bool:
        """Whether the partition has to be verified before this producer writes to it."""
        if self._producer not in (None, producer):
            raise ApiError(ErrorCode.invalid_producer_id_mapping, "one request has batches of several producers")
        self._producer = producer
        if partition.log.producers.has_open_transaction(*producer):
            return False
        known = partition.log.producers.get(producer.producer_id)
        if known is not None and producer.epoch < known.epoch:
            # The log is the better source: the coordinator has no entry for a producer id that was replaced.
            raise ApiError(ErrorCode.invalid_producer_epoch, f"producer {producer.producer_id} has a later epoch")
        return self.capabilities.adds_partitions or self._services.settings.boolean(
            "transaction.partition.verification.enable"
        )

    def add(self, partition: Partition, verification: Verification, sequence: int, then: WhenVerified) -> None:
        """Call `then` with the outcome. If another request is having the partition verified already, share its outcome."""
        if verification.wait(sequence, then):
            self._pending.append(((partition.topic, partition.number), verification))

    @property
    def is_pending(self) -> bool:
        """Whether there is a partition that no other request is having verified already."""
        return bool(self._pending)

    async def send(self) -> None:
        """Ask the coordinator, and pass the outcomes on to every write that waits for them."""
        if not self._pending or self._producer is None:
            return
        codes: dict[TopicPartition, ErrorCode] = {}
        try:
            codes = await self._services.transactions.verify_partitions(
                self._transactional_id,
                *self._producer,
                [partition for partition, _ in self._pending],
                adds=self.capabilities.adds_partitions,
            )
        finally:
            for partition, verification in self._pending:
                code = self.capabilities.error_code(codes.get(partition, ErrorCode.unknown_server_error))
                verification.answer(None if code is ErrorCode.none else self._client_error(code))
