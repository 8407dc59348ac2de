"""What one request has to ask the transaction coordinator before its first writes of a transaction (KIP-890).

Clients of transactions v1 add their partitions themselves, and the coordinator is asked whether they did. With transactions
v2 the question adds them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.groups.offsets import TopicPartition
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.replication.verification import Verification, WhenVerified

if TYPE_CHECKING:
    from catchment.broker.context import Services


class Abilities(NamedTuple):
    """What the client can do, as the version of its request tells."""

    knows_abortable: bool
    """Whether it understands TRANSACTION_ABORTABLE."""
    adds: bool
    """Whether it leaves it to the broker to add partitions: transactions v2."""


class Questions:
    def __init__(
        self,
        services: "Services",
        transactional_id: str,
        abilities: Abilities,
        refusal: Callable[[ErrorCode], ApiError],
    ) -> None:
        """`refusal` makes of the coordinator's answer what this kind of client is told."""
        self.abilities = abilities
        self._services = services
        self._transactional_id = transactional_id
        self._refusal = refusal
        self._producer: Producer | None = None
        self._open: list[tuple[TopicPartition, Verification]] = []

    def concerns(self, partition: Partition, producer: Producer) -> bool:
        """Whether the coordinator has to be asked before this producer writes here."""
        if self._producer not in (None, producer):
            raise ApiError(ErrorCode.invalid_producer_id_mapping, "one request has batches of several producers")
        self._producer = producer
        if partition.log.producers.has_open_transaction(*producer):
            return False
        known = partition.log.producers.get(producer.producer_id)
        if known is not None and producer.epoch < known.epoch:
            # The log knows better than the coordinator, which does not know a producer id that was replaced.
            raise ApiError(ErrorCode.invalid_producer_epoch, f"producer {producer.producer_id} has a later epoch")
        return self.abilities.adds or self._services.settings.boolean("transaction.partition.verification.enable")

    def add(self, partition: Partition, verification: Verification, sequence: int, then: WhenVerified) -> None:
        """Go on with `then` once the answer is there; another request may have asked already."""
        if verification.wait(sequence, then):
            self._open.append(((partition.topic, partition.number), verification))

    @property
    def are_open(self) -> bool:
        """Whether there is anything to ask that another request has not asked already."""
        return bool(self._open)

    async def ask(self) -> None:
        """Ask, and let go on what waits for the answers."""
        if not self._open or self._producer is None:
            return
        codes: dict[TopicPartition, ErrorCode] = {}
        try:
            codes = await self._services.transactions.verify_partitions(
                self._transactional_id,
                *self._producer,
                [partition for partition, _ in self._open],
                adds=self.abilities.adds,
            )
        finally:
            for partition, verification in self._open:
                code = self._known_to_client(codes.get(partition, ErrorCode.unknown_server_error))
                verification.answer(None if code is ErrorCode.none else self._refusal(code))

    def _known_to_client(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if code is ErrorCode.transaction_abortable and not self.abilities.knows_abortable:
            return ErrorCode.invalid_txn_state
        return code
