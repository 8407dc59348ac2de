"""Replica placement: which brokers hold a partition, spread evenly and over racks, or as an operator assigns them.

The rule is Kafka's: the first replicas go round the brokers from a start index; each further replica is shifted by one more
for every round, so that the followers of one broker's leaders are spread over all others. The order of brokers alternates
between racks, and a rack is used twice only when each has been used once.
"""

from collections.abc import Mapping, Sequence

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import BrokerImage
from catchment.protocol.errors import ApiError

Assignment = tuple[int, ...]


def place_replicas(
    brokers: Mapping[int, BrokerImage],
    partition_count: int,
    replication_factor: int,
    *,
    start: int,
    first_partition: int = 0,
) -> list[Assignment]:
    """The replicas of each new partition, its preferred leader first. `start` is any number: where the round begins."""
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    order = _alternating_racks(brokers)
    return [
        _replicas(order, brokers, partition, replication_factor, start)
        for partition in range(first_partition, first_partition + partition_count)
    ]


def _replicas(
    order: Sequence[int], brokers: Mapping[int, BrokerImage], partition: int, replication_factor: int, start: int
) -> Assignment:
    count = len(order)
    leader_index = (start + partition) % count
    shift = (start + partition // count) % max(count - 1, 1)
    others = [order[(leader_index + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    chosen = [order[leader_index]]
    racks_used = {brokers[chosen[0]].rack}
    new_racks = []
    for candidate in others:
        if brokers[candidate].rack not in racks_used:
            racks_used.add(brokers[candidate].rack)
            new_racks.append(candidate)
    chosen += new_racks
    chosen += [candidate for candidate in others if candidate not in new_racks]
    return tuple(chosen[:replication_factor])


def _alternating_racks(brokers: Mapping[int, BrokerImage]) -> list[int]:
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(brokers):
        by_rack.setdefault(brokers[broker_id].rack or "", []).append(broker_id)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max((len(queue) for queue in queues), default=0)
    return [queue[index] for index in range(longest) for queue in queues if index < len(queue)]


def check_assignments(
    assignments: Sequence[Assignment], brokers: Mapping[int, BrokerImage], replication_factor: int | None = None
) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless the assigned replicas of each partition are possible."""
    for replicas in assignments:
        if not replicas:
            raise _invalid("The manual partition assignment includes an empty replica list.")
        for broker_id in replicas:
            if broker_id not in brokers:
                raise _invalid(
                    f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
                )
            if replicas.count(broker_id) > 1:
                raise _invalid(f"The manual partition assignment includes the broker {broker_id} more than once.")
        if replication_factor is not None and len(replicas) != replication_factor:
            raise _invalid(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {replication_factor} replica(s)."
            )
        replication_factor = len(replicas)


def consecutive(assignments: Mapping[int, Assignment]) -> list[Assignment]:
    """The assignments in order of their partitions, which must be 0, 1, 2 …"""
    for partition in range(len(assignments)):
        if partition not in assignments:
            raise _invalid(
                f"Partitions should be a consecutive 0-based integer sequence: partition {partition} has no assignment."
            )
    return [assignments[partition] for partition in range(len(assignments))]


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_replica_assignment, message)
